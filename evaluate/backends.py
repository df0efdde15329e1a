"""The fused CUDA kernel beside its Triton twin: speed, registers and spills where both were measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluate.report import load, markdown
from evaluate.timing import verdict
from evaluate.variants import CHAINED_PATHS

Row = Mapping[str, Any]

_SAME = ("id", "levels", "dtype", "plane_dtype", "M", "N", "K", "regime", "distribution")
_COLUMNS = ("device", "scheme", "levels", "dtype", "planes", "M x N x K", "regime")
_OF_EACH = ("ratio", "registers", "spill bytes", "tile")


def backends_table(folder: Path) -> str:
    """Markdown with the newest row of each path, both operands variable, for every case that both have; "" if none.

    Rows that are wrong, or have too few pairs for a verdict, are left out. Ratios are to cuBLAS, measured in the same
    run as each path.
    """
    newest: dict[tuple[Any, ...], dict[str, Row]] = {}
    for document in load(folder):
        for row in document["rows"]:
            chained = row.get("path") in CHAINED_PATHS and row.get("operands") == "variable" and not row.get("options")
            if chained and row.get("layout") in ("nn", "row-major") and verdict(row) != "not measured":
                newest.setdefault((document["device"], *(row.get(key) for key in _SAME)), {})[row["path"]] = row
    both = [(key[0], paths) for key, paths in newest.items() if len(paths) == len(CHAINED_PATHS)]
    if not both:
        return ""
    columns = [*_COLUMNS, *(f"{path}: {name}" for path in CHAINED_PATHS for name in _OF_EACH)]
    return markdown(columns, sorted(_cells(device, paths) for device, paths in both))


def _cells(device: str, paths: Mapping[str, Row]) -> list[str]:
    row = paths[CHAINED_PATHS[0]]
    m, n, k = row["M"], row["N"], row["K"]
    shape = f"{m}^3" if m == n == k else f"{m} x {n} x {k}"
    cells = [device, f"{row['format']}:{row['rank']}", str(row["levels"]), row["dtype"], row["plane_dtype"], shape]
    cells.append(row["regime"])
    for path in CHAINED_PATHS:
        one = paths[path]
        cells.append(f"{one['ratio']:.3f} [{one['ratio_low']:.3f}, {one['ratio_high']:.3f}]")
        cells += [str(one[key]) if one.get(key) is not None else "-" for key in ("registers", "spill_bytes", "tile")]
    return cells
