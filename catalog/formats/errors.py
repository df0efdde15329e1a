"""The error of scheme files, and the checks that all kinds of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1


class FormatError(ValueError):
    """A file is no scheme file, is damaged, or cannot be written. One sentence that names the file."""


def require_version(found: Any) -> None:
    """Refuse a file of a newer schema.

    Raises:
        ValueError: the version is newer, or no version.
    """
    text = repr(found)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    if type(found) is not int or found < 1:
        raise ValueError(f"schema_version {text} is not a positive integer")
    if found > SCHEMA_VERSION:
        raise ValueError(f"it has schema_version {text} and this version reads {SCHEMA_VERSION}; upgrade subcubic")


def require_denominators(found: Sequence[int]) -> None:
    """Refuse denominators that the catalog cannot keep.

    Raises:
        ValueError: one has more than 63 bits.
    """
    longest = max((d.bit_length() for d in found), default=0)
    if longest > 63:
        raise ValueError(f"a denominator has {longest} bits, more than the 63 that are kept; reduce the fractions")


@dataclass(frozen=True)
class Flaw:
    """One scheme of a file that cannot be read; the others of the file may be sound.

    Attributes:
        kind: of the file, as in ``Draft``.
        name: of the scheme in its file.
        reason: what is wrong, in one sentence.
    """

    kind: str
    name: str
    reason: str


def shown(text: str) -> str:
    """A piece of a file for a sentence, cut to a readable length."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
