"""Products with steps after them as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluate.epilogue_bench import KIND, OURS, UNFUSED
from evaluate.report import load, markdown, shape_text
from evaluate.timing import MIN_PAIRS, verdict

Row = Mapping[str, Any]
_HEAD = ("scheme", "type", "M x N x K", "steps", "time", "to cuBLASLt fused", "to unfused", "to itself without", "DRAM")


def epilogue_text(rows: Iterable[Row]) -> str:
    """The table as aligned plain text."""
    lines = [list(_HEAD), *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def epilogue_table(folder: Path) -> str:
    """The newest row of each device, scheme, shape, type and steps, in Markdown; "" if there is none."""
    newest: dict[tuple[Any, ...], tuple[str, Row]] = {}
    keys = ("id", "levels", "M", "N", "K", "dtype", "layout", "epilogue")
    for document in load(folder, KIND):
        for row in document["rows"]:
            if row["pairs"] < MIN_PAIRS:
                continue
            newest[document["device"], *(row[key] for key in keys)] = document["device"], row
    if not newest:
        return ""
    order = sorted(newest.values(), key=lambda one: (one[0], one[1]["rank"], one[1]["M"] * one[1]["N"] * one[1]["K"]))
    return markdown(("device", *_HEAD), ([device, *_cells(row)] for device, row in order))


def _cells(row: Row) -> list[str]:
    return [
        f"{row['format']}:{row['rank']}" + (f", {row['levels']} levels" if row["levels"] > 1 else ""),
        f"{row['dtype']} {row['layout']}",
        shape_text(row),
        row["epilogue"],
        f"{row['seconds'] * 1e6:.1f} us",
        "WRONG" if not row["correct"] else _ratio(row, ""),
        _ratio(row, "_unfused"),
        _ratio(row, "_plain"),
        _bytes(row),
    ]


def _ratio(row: Row, suffix: str) -> str:
    ratio, low, high = (row.get(f"ratio{suffix}{end}") for end in ("", "_low", "_high"))
    if ratio is None:
        return "-"
    found = verdict({"ratio_low": low, "ratio_high": high, "pairs": row["pairs"]})
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]" + {"no difference": " =", "not measured": " ?"}.get(found, "")


def _bytes(row: Row) -> str:
    """What a launch moves, fused and not."""
    counted = row.get("counters", {})
    sums = []
    for arm in (OURS, UNFUSED):
        parts = [counted.get(arm, {}).get(f"dram_{way}_bytes") for way in ("read", "write")]
        if None in parts:
            return "-"
        sums.append(sum(parts) / 1e6)
    return f"{sums[0]:.1f} against {sums[1]:.1f} MB"
