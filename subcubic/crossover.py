"""What ``subcubic predict --crossover`` prints: from which square size on a scheme pays, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subcubic.output import note, print_json, table

if TYPE_CHECKING:
    from codegen.plan import Plan
    from evaluate.device_model import DeviceModel


def show_crossovers(
    plans: Sequence[tuple[Plan, dict[str, Any]]],
    device: DeviceModel,
    dtypes: Sequence[str],
    operands: Sequence[str],
    results: Path,
    json_output: bool,
    **options: Any,
) -> None:
    """Print the crossovers of each plan, dtype and kind of operands, and those of the rows of such a device.

    Args:
        plans: each with the keys of its rows.
        device: where.
        dtypes: of the matrices.
        operands: kinds that are asked for; those that a path does not have are left out.
        results: folder of documents of results.
        json_output: one document instead of text.
        **options: further ones of ``evaluate.model.predict``.

    Raises:
        ValueError: as ``evaluate.model.predict``, or a file in ``results`` is not a results document.
    """
    from evaluate.crossover import measured_crossovers, modes, predicted_crossover
    from evaluate.maps import error_of

    rows: list[dict[str, Any]] = []
    for plan, facts in plans:
        scheme = {"id": plan.digest, "format": str(plan.base.format), "rank": plan.base.rank, **facts}
        for dtype in dtypes:
            for kind in (one for one in operands if one in modes(device, dtype, options.get("path"))):
                found = predicted_crossover([plan], device, dtype, operands=kind, **options)
                figures = {"path": found.path, **found.crossover.document(), "best": max(found.ratios.values())}
                rows.append({**scheme, "levels": plan.levels, "dtype": dtype, "operands": kind, **figures})
    measured = []
    for one in measured_crossovers(measured_rows(results, device)):
        if one.dtype in dtypes and one.operands in operands:
            best = max(one.rows.values(), key=lambda row: row["ratio"])
            head = {key: getattr(one, key) for key in ("dtype", "plane_dtype", "operands", "regime")}
            kept = {key: best[key] for key in ("format", "rank", "levels", "path", "ratio_low", "ratio_high")}
            measured.append(
                {**head, **one.crossover.document(), "best": best["ratio"], "error": error_of(best), **kept}
            )
    if json_output:
        head = {"device": device.name, "source": device.source, "basis": device.basis}
        print_json({**head, "crossovers": rows, "measured": measured})
        return
    note(f"{device.name}: {device.source}; {device.basis}")
    note("M = N = K; between the first gain and the size from which all pay, gains come and go with rounds of tiles")
    headings = ("scheme", "dtype", "operands", "path", "pays from", "always from", "best ratio")
    print(table(headings, [_predicted(row) for row in rows]))
    if measured:
        note(f"measured, of {results}: the best of all schemes; an interval that touches 1 is no gain")
        heads = ("dtype", "planes", "operands", "regime", "pays from", "not at", "best ratio", "error", "by")
        print(table(heads, [_measured(row) for row in measured]))
    else:
        note(f"{results} has no rows of this device")


def measured_rows(results: Path, device: DeviceModel) -> list[Mapping[str, Any]]:
    """The rows that count of a folder of results, of devices of the model's name.

    Raises:
        ValueError: a file is not a results document.
    """
    from evaluate.maps import newest
    from evaluate.report import load

    return newest(document for document in load(results) if device.is_named(document["device"]))


def scheme_text(row: Mapping[str, Any]) -> str:
    """The scheme of a row: format and rank, and the levels if there are several."""
    return f"{row['format']}:{row['rank']}" + (f"^{row['levels']}" if row["levels"] > 1 else "")


def _predicted(row: dict[str, Any]) -> list[Any]:
    return [scheme_text(row), row["dtype"], row["operands"], row["path"], *_ends(row, "lasting"), f"{row['best']:.3f}"]


def _measured(row: dict[str, Any]) -> list[Any]:
    ratio = f"{row['best']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]"
    kind = [row[key] for key in ("dtype", "plane_dtype", "operands", "regime")]
    error = f"x{row['error']:.1f}" if row["error"] else "-"
    return [*kind, *_ends(row, "below"), ratio, error, f"{scheme_text(row)} {row['path']}"]


def _ends(row: dict[str, Any], second: str) -> list[Any]:
    """Where gains begin, or that there are none."""
    none = f"not up to {row['largest']}"
    return [row["first"] or none, row[second] or "-"]
