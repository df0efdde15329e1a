"""What every verb prints: one JSON document on stdout, or text for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from subcubic.errors import SCHEMA_VERSION
from subcubic.streams import visible

# Headings of columns that hold no numbers, though all of their cells may begin with a digit.
_WORDS = ("id", "recipe")


def print_json(document: dict[str, Any]) -> None:
    """Print one document with its ``schema_version`` first."""
    print(json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2))


def note(text: str) -> None:
    """Print a line meant for people to stderr, so that stdout stays the result alone."""
    if sys.stderr is not None:  # closed by the shell; print would take stdout instead
        print(visible(text), file=sys.stderr)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Plain aligned columns; numbers to the right, None as a dash."""
    cells = [[cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *cells]) for i in range(len(headings))]
    numeric = [
        head not in _WORDS and all(row[i][:1].isdigit() or row[i][:1] in "-+." for row in cells)
        for i, head in enumerate(headings)
    ]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(headings), *cells]
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """One value as text: a dash for None, four digits of a float, control characters as escapes."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value))
