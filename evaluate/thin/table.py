"""Measured thin products as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log
from pathlib import Path
from typing import Any

from evaluate.report import load, markdown
from evaluate.thin.bench import PATH
from evaluate.timing import verdict

Row = Mapping[str, Any]

# What others have published for an A100 without code to repeat it: beside ours for orientation, not a comparison.
PUBLISHED = {
    (1, 1, 128, 4096): "8.2 to 5.1 us",
    (1, 1, 512, 2048): "11.3 to 6.8 us",
    (1, 1, 4096, 512): "+28 %",
    (8, 1, 4096, 512): "+33 %",
}
_HEAD = (
    "product",
    "type",
    "time",
    "GB/s",
    "of a copy",
    "vendor",
    "ratio",
    "alone",
    "B constant",
    "to its tuned",
    "square, rule -> tuned",
    "A100*",
)


def thin_cells(rows: Iterable[Row]) -> list[list[str]]:
    """A header line and one line of cells per row."""
    return [list(_HEAD), *(_cells(row) for row in rows)]


def thin_text(rows: Iterable[Row]) -> str:
    """The table as aligned plain text, with the geometric mean of the ratios."""
    rows = list(rows)
    lines = thin_cells(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    written = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    return "\n".join(
        [*written, "* published by others, unverified", f"geometric mean of the ratios {mean_ratio(rows):.3f}"]
    )


def thin_table(folder: Path) -> str:
    """The newest row of each device, product, type and layout, in Markdown; "" if there is none."""
    newest: dict[tuple[Any, ...], tuple[str, Row]] = {}
    keys = ("groups", "M", "N", "K", "dtype", "layout")
    for document in load(folder, PATH):
        for row in document["rows"]:
            if verdict(row) != "not measured":
                newest[document["device"], *(row[key] for key in keys)] = document["device"], row
    if not newest:
        return ""
    # By device, type and layout in the order of the bytes.
    order = sorted(newest.values(), key=lambda one: (one[0], one[1]["dtype"], one[1]["layout"], one[1]["bytes"]))
    return markdown(("device", *_HEAD), ([device, *_cells(row)] for device, row in order))


def mean_ratio(rows: Iterable[Row]) -> float:
    """The geometric mean; NaN of no rows."""
    ratios = [row["ratio"] for row in rows]
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")


def _cells(row: Row) -> list[str]:
    groups, m, n, k = (row[key] for key in ("groups", "M", "N", "K"))
    many = f"{groups} x " if groups > 1 else ""
    mark = {"no difference": " =", "not measured": " ?"}.get(verdict(row), "")
    square, rule, tuned = (_way(row[name]) for name in ("square", "rule", "tuned"))
    return [
        f"{many}[{m}, {k}] x [{k}, {n}]",
        f"{row['dtype']} {row['layout']}",
        f"{row['seconds'] * 1e6:.2f} us",
        f"{row['bandwidth'] / 1e9:,.0f}",
        f"{row['of_copy']:.0%}",
        f"{row['baseline_seconds'] * 1e6:.2f} us",
        "WRONG"
        if not row["correct"]
        else f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]{mark}",
        f"{row['ratio_alone']:.3f}",
        f"{row['ratio_constant_b']:.3f}",
        f"{row['ratio_vendor_tuned']:.3f}",
        f"{square}, {rule} -> {tuned}",
        PUBLISHED.get((groups, m, n, k), "-"),
    ]


def _way(way: Row | None) -> str:
    return "-" if way is None else f"{way['columns']}/{way['split']} {way['microseconds']:.2f} us"
