"""The README's table of fused kernels: planes made in each launch, B constant, or planes given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluate.maps import OPERANDS_TEXT, PHASES
from evaluate.report import load, markdown, shape_text
from evaluate.timing import verdict
from evaluate.variants import FUSED_PATH, OPERANDS

Row = Mapping[str, Any]

_TITLES = {name: OPERANDS_TEXT[name] for name in reversed(OPERANDS)}
_HEAD = ("device", "scheme", "levels", "dtype", "M x N x K", "regime", *_TITLES.values(), "error of cuBLAS")
# What is one line of the table; the operands are its columns.
_LINE = ("format", "rank", "levels", "dtype", "plane_dtype", "layout", "M", "N", "K", "regime", "distribution")


def fused_table(folder: Path) -> str:
    """The newest fused row of each scheme, type, shape, regime and kind of operands, in Markdown; "" if there is none.

    A ratio is baseline time over ours. Losses stand like gains: below 1, and in italics; where the interval touches 1
    there is an ``=``. The error is relative Frobenius over the baseline's, the worst of the line. Wrong rows and those
    of too few pairs are left out, and so are experiments with options of the emitter other than those of two phases.
    """
    lines: dict[tuple[Any, ...], dict[str, Row]] = {}
    for document in load(folder):
        for row in document["rows"]:
            options = row.get("options") or {}
            if row.get("path") == FUSED_PATH and verdict(row) != "not measured" and options.keys() <= PHASES:
                key = (document["device"], *(row.get(name) for name in _LINE), bool(options))
                line = lines.setdefault(key, {})
                line[row["operands"]] = row
    if not lines:
        return ""
    order = sorted(lines.items(), key=lambda item: _order(item[0][0], next(iter(item[1].values()))))
    return markdown(_HEAD, (_cells(key[0], line) for key, line in order))


def _order(device: str, row: Row) -> tuple[Any, ...]:
    scheme = (row["rank"], row["format"], row["levels"])
    size = row["M"] * row["N"] * row["K"]
    return device, row["dtype"], row["plane_dtype"], scheme, size, row["regime"], bool(row.get("options"))


def _cells(device: str, line: Mapping[str, Row]) -> tuple[str, ...]:
    row = next(iter(line.values()))
    planes = f" ({row['plane_dtype']} planes)" if row["plane_dtype"] != row["dtype"] else ""
    layout = f" {row['layout']}" if row["layout"] != "nn" else ""
    ratios = (_ratio(line.get(operands)) for operands in _TITLES)
    errors = [one["error_fro"] / one["baseline_error_fro"] for one in line.values() if one.get("baseline_error_fro")]
    return (
        device,
        f"{row['format']}:{row['rank']}" + (" overlapped" if row.get("options") else ""),
        str(row["levels"]),
        f"{row['dtype']}{planes}{layout}",
        shape_text(row),
        row["regime"],
        *ratios,
        f"x{max(errors):.2f}" if errors else "-",
    )


def _ratio(row: Row | None) -> str:
    if row is None:
        return "-"
    text = f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]"
    return {"slower": f"*{text}*", "no difference": f"{text} ="}.get(verdict(row), text)
