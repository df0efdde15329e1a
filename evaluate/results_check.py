"""Whether a document of results has what its readers rely on: tables, maps, crossovers, the choice of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from catalog.scheme import Format
from evaluate.operands import DTYPES
from evaluate.variants import OPERANDS

_TEXTS = ("path", "dtype", "plane_dtype", "product_dtype", "layout", "operands")
_COUNTS = ("rank", "levels", "M", "N", "K")
_INTERVAL = ("ratio", "ratio_low", "ratio_high")
_NUMBERS = (*_INTERVAL, "seconds", "baseline_seconds", "error_fro", "baseline_error_fro")
_OPTIONAL_TEXTS = ("id", "reference", "orbit", "regime", "distribution", "baseline", "set")
_SHOWN = 40  # characters of a value that a sentence repeats


def check_results(document: Any) -> dict[str, Any]:
    """The document, if it is one.

    Rows of speed are looked at field by field; those of other kinds only have to be objects.

    Raises:
        ValueError: the message says what is wrong with it, and in which row.
    """
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    for name in ("created_utc", "device"):
        if not isinstance(document.get(name), str):
            raise ValueError(f"its {name} {_shown(document.get(name))} is no text")
    rows = document.get("rows")
    if not isinstance(rows, list):
        raise ValueError(f"its rows {_shown(rows)} are no list")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} is no object")
        if document.get("kind") is None and "kind" not in row and (wrong := _wrong(row)):
            raise ValueError(f"row {number} has {wrong[0]} {_shown(wrong[1])}")
    return document


def _wrong(row: Mapping[str, Any]) -> tuple[str, Any] | None:
    """A field of a row of speed that its readers cannot use, and its value; None if all are right."""
    bad = [name for name in _TEXTS if not isinstance(row.get(name), str)]
    bad += [name for name in _COUNTS if type(row.get(name)) is not int or row[name] < 1]
    bad += [name for name in _NUMBERS if not (row.get(name) is None or _is_number(row[name]))]
    bad += [name for name in _OPTIONAL_TEXTS if not isinstance(row.get(name), str | None)]
    bad += [name for name in ("correct", "aligned") if not isinstance(row.get(name), bool | None)]
    bad += [name for name in ("options",) if not _is_options(row.get(name))]
    bad += [name for name, known in (("dtype", DTYPES), ("operands", OPERANDS)) if row.get(name) not in [*known]]
    bad += [name for name in ("pairs",) if type(row.get(name, 0)) is not int or row.get(name, 0) < 0]
    bad += [] if _is_format(row.get("format")) else ["format"]
    if any(row.get(name) is not None for name in _INTERVAL):  # whole or not there
        bad += [name for name in (*_INTERVAL, "regime") if row.get(name) is None]
    return (bad[0], row.get(bad[0])) if bad else None


def _is_number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and isfinite(value)
    except OverflowError:
        return False


def _is_options(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(isinstance(one, int | str) for one in value.values())


def _is_format(value: Any) -> bool:
    try:
        return isinstance(value, str) and min(Format.parse(value)) > 0
    except ValueError:
        return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
