"""What was measured of each scheme: rows of result files and of the catalog, each with its device and date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.store import Catalog
from evaluate import report
from evaluate.maps import error_of, types_text
from evaluate.timing import verdict
from evaluate.variants import VENDOR_PATH


@dataclass(frozen=True)
class Measured:
    """One measured row.

    Attributes:
        device: its name.
        date: of the measurement, as in 2026-11-30.
        format: of the scheme.
        types: element types in words; points of a plot are told apart by them.
        size: (MNK)^(1/3).
        ratio: baseline time over ours, its interval's ends; None where nothing was timed.
        error: error over the baseline's; None where it is not known.
        gains: the whole interval lies above 1.
        cells: text of each of ``report.table``'s columns.
    """

    device: str
    date: str
    format: str
    types: str
    size: float
    ratio: tuple[float, float, float] | None
    error: float | None
    gains: bool
    cells: tuple[str, ...]


# What lies beyond was measured by nobody, and would make axes without end.
_LARGEST, _FASTEST = 2.0**24, 1000.0
COLUMNS = tuple(report.table([])[0])


def gather(catalog: Catalog, results: Path | None, notes: list[str]) -> dict[str, list[Measured]]:
    """Measured rows by scheme id, newest first; what cannot be read is left out with a note."""
    documents: list[dict[str, Any]] = []
    try:
        documents += report.load(results) if results is not None else []
    except ValueError as error:
        notes.append(f"measurements in files are left out: {error}")
    try:
        # Their rows came to the catalog one by one, each with the head of its document.
        documents += [{**m, "rows": [{**m["row"], "id": m["id"]}]} for m in catalog.measurements() if _holds_row(m)]
    except CatalogError as error:
        notes.append(f"measurements in the catalog are left out: {error}")
    found: dict[str, dict[str, Measured]] = {}
    unread = 0
    for document in documents:
        for row in document["rows"]:
            if "kind" in row or row.get("path") == VENDOR_PATH:
                continue
            try:
                item = _measured(document, row)
                # The catalog and a file may hold the same row.
                found.setdefault(row["id"], {})[json.dumps([document["created_utc"], item.device, row["seconds"]])] = (
                    item
                )
            except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
                unread += 1
    if unread:
        notes.append(f"{unread} measured rows lack what a page needs and are left out")
    return {i: sorted(rows.values(), key=lambda item: item.date, reverse=True) for i, rows in found.items()}


def best(rows: Iterable[Measured]) -> Measured | None:
    """The row of the largest ratio."""
    return max((row for row in rows if row.ratio), key=lambda row: row.ratio or (), default=None)


def by_device(rows: Iterable[Measured]) -> Iterator[tuple[str, list[Measured]]]:
    """Rows of each device, in the order of the names."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        groups.setdefault(row.device, []).append(row)
    yield from sorted(groups.items())


def _holds_row(measurement: dict[str, Any]) -> bool:
    return isinstance(measurement.get("row"), dict)


def _measured(document: dict[str, Any], row: dict[str, Any]) -> Measured:
    size = float(row["M"] * row["N"] * row["K"]) ** (1 / 3)
    if not (1 <= size <= _LARGEST and isinstance(document["device"], str) and isinstance(row["id"], str)):
        raise ValueError("a size or a name is none")
    ratios = [float(row.get(key) or 0.0) for key in ("ratio", "ratio_low", "ratio_high")]
    timed = row.get("correct") is not False and all(1 / _FASTEST <= value <= _FASTEST for value in ratios)
    error = error_of(row)
    return Measured(
        device=document["device"],
        date=str(document["created_utc"])[:10],
        format=str(row["format"]),
        types=types_text(row),
        size=size,
        ratio=(ratios[0], ratios[1], ratios[2]) if timed else None,
        error=error if isfinite(error) and error > 0 else None,
        gains=verdict(row) == "faster",
        cells=tuple(report.table([row])[1]),
    )
