"""Results as text, as the README's table, and as files."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from catalog.files import TEMPORARY_PREFIX, reason, sync_folder, write_durably
from evaluate.results_check import check_results
from evaluate.timing import PAIRS, verdict
from evaluate.variants import CHAINED_PATHS, VENDOR_PATH

Row = Mapping[str, Any]

_COLUMNS = (
    "scheme",
    "levels",
    "path",
    "dtype",
    "M x N x K",
    "regime",
    "time",
    "baseline",
    "ratio",
    "error",
    "of baseline",
)


def table(rows: Iterable[Row]) -> list[list[str]]:
    """A header line and one line of cells per row, for any table printer.

    The ratio is baseline time over ours with its 95 % interval, marked ``=`` where the interval touches 1 and ``*``
    where fewer than ``PAIRS`` pairs support it; the error is relative Frobenius, with its factor over the baseline's;
    ``WRONG`` stands where the result is not rounding. A shape is unaligned where the vendor's GEMM cannot use its
    kernels for rows of whole 16-byte words, so that a gain there need not be one of the scheme.
    """
    return [list(_COLUMNS), *(_cells(row) for row in rows)]


def text(rows: Iterable[Row]) -> str:
    """The table as aligned plain text, with a footnote where rows have few pairs."""
    rows = list(rows)
    lines = table(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
    written = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    if any(_few_pairs(row) for row in rows):
        written.append(f"* fewer than {PAIRS} pairs")
    return "\n".join(line.rstrip() for line in written)


def save(document: Mapping[str, Any], folder: Path) -> Path:
    """Write a document into a folder, whole or not at all; an earlier file is never overwritten.

    Returns:
        The file, named by device, date and time.

    Raises:
        OSError: the folder cannot be made or written; nothing is left behind.
        ValueError: the document holds a NaN or an infinity.
    """
    return Saver(folder)(document)


class Saver:
    """Writes a growing document again and again, each time whole or not at all, to one new file.

    Called with a document it returns the file, named by device, date and time of the first call; it raises as ``save``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: Path | None = None

    def __call__(self, document: Mapping[str, Any]) -> Path:
        """Write the document."""
        written = json.dumps(document, indent=1, allow_nan=False) + "\n"
        scratch = self.folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_durably(scratch, written.encode())
            if self.path is None:
                self.path = self._new(scratch, document)
            else:
                scratch.replace(self.path)
            sync_folder(self.folder)
            return self.path
        except OSError as error:
            raise OSError(
                f"cannot write results to {self.folder}: {reason(error)}; choose another place or make room"
            ) from None
        finally:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _new(self, scratch: Path, document: Mapping[str, Any]) -> Path:
        device = re.sub(r"[^a-z0-9]+", "-", str(document["device"]).lower()).strip("-") or "device"
        stamp = re.sub(r"[^0-9T]", "", str(document["created_utc"]).split("+")[0])
        for number in range(10_000):
            path = self.folder / f"{device}-{stamp}{f'-{number}' if number else ''}.json"
            try:
                os.link(scratch, path)  # unlike a rename, refuses an existing name
            except FileExistsError:
                continue
            return path
        raise FileExistsError(f"{self.folder} already holds 10000 results of {device} at {stamp}")


def load(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The documents of one kind in a folder, oldest first.

    Args:
        folder: of results.
        kind: what documents say under ``kind``; measurements of speed and of search say nothing there.

    Raises:
        ValueError: a file is not a results document; the message names it.
    """
    documents = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = check_results(json.loads(path.read_text(encoding="utf-8")))
        except RecursionError:
            raise ValueError(f"{path} is nested too deeply for results; remove it or write it again") from None
        except ValueError as error:
            raise ValueError(f"{path} is not a results document ({error}); remove it or write it again") from None
        if document.get("kind") == kind:
            documents.append(document)
    return sorted(documents, key=lambda document: document["created_utc"])


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = (head, ("---",) * len(head), *lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def results_table(folder: Path) -> str:
    """The README's table in Markdown: the newest row of each device, scheme, path, shape and regime; "" if none.

    Rows whose result is wrong, or that were timed on fewer than ``PAIRS`` pairs or never, are left out; chained
    kernels have tables of their own, see ``evaluate.fused_table`` and ``evaluate.backends``.
    """
    newest: dict[tuple[Any, ...], tuple[str, Row]] = {}
    keys = ("id", "levels", "path", "dtype", "product_dtype", "M", "N", "K", "regime", "distribution", "operands")
    for document in load(folder):
        for row in document["rows"]:
            timed = "kind" not in row and row.get("seconds") is not None and not _few_pairs(row)
            if timed and row["path"] not in (*CHAINED_PATHS, VENDOR_PATH) and row.get("correct") is not False:
                newest[document["device"], *(row.get(key) for key in keys)] = document["device"], row
    if not newest:
        return ""
    order = sorted(newest.values(), key=lambda entry: _order(*entry))
    return markdown(["device", *_COLUMNS], ([name, *_cells(row)] for name, row in order))


def _order(device: str, row: Row) -> tuple[Any, ...]:
    return device, row["dtype"], row["M"] * row["N"] * row["K"], row["format"], row["rank"], row["levels"], row["path"]


def _cells(row: Row) -> list[str]:
    ours, theirs = row.get("error_fro"), row.get("baseline_error_fro")
    return [
        f"{row['format']}:{row['rank']}",
        str(row["levels"]),
        _path(row),
        _dtype(row),
        shape_text(row),
        row.get("regime") or "-",
        _time(row.get("seconds")),
        _time(row.get("baseline_seconds")),
        _ratio(row),
        "WRONG" if row.get("correct") is False else "-" if ours is None else f"{ours:.2e}",
        "-" if ours is None or not theirs else f"x{ours / theirs:.2f}",
    ]


def _path(row: Row) -> str:
    options = "".join(f" {name}={value}" for name, value in row.get("options", {}).items())
    layout = f" {row['layout']}" if row.get("layout") not in (None, "nn", "row-major") else ""
    operands = "" if row.get("operands", "variable") == "variable" else f", {row['operands'].replace('_', ' ')}"
    return row["path"] + layout + options + operands


def _dtype(row: Row) -> str:
    what = "planes" if row["path"] in CHAINED_PATHS else "products"
    stored = row.get("plane_dtype" if row["path"] in CHAINED_PATHS else "product_dtype")
    return row["dtype"] + (f" ({what} {stored})" if stored not in (None, row["dtype"]) else "")


def _few_pairs(row: Row) -> bool:
    return row.get("ratio") is not None and row.get("pairs", 0) < PAIRS


def shape_text(row: Row) -> str:
    """The sizes of a row in words."""
    m, n, k = row["M"], row["N"], row["K"]
    text = f"{m}^3" if m == n == k else f"{m} x {n} x {k}"
    return f"{text} unaligned" if row.get("aligned") is False else text


def _ratio(row: Row) -> str:
    if row.get("ratio") is None:
        return "-"
    mark = {"no difference": " =", "not measured": " ?"}.get(verdict(row), "")
    few = " *" if _few_pairs(row) else ""
    return f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]{mark}{few}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
