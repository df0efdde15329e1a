"""What all readers and writers of scheme text share: lines, comments, sizes, rings, drafts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from catalog.formats.draft import Draft
from catalog.scheme import Factor, Format, Ring, Scheme

_MODULO_2 = re.compile(rb"^[ \t]*#[^\n]*?\bmod(?:ulo)?[ -]?2\b", re.IGNORECASE | re.MULTILINE)
_BLANK = re.compile(r"\s")


def text_of(data: bytes) -> str:
    """The text with one kind of line end. A byte that is no UTF-8 is harmless in a comment and refused elsewhere."""
    return data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def line_at(text: str, position: int) -> int:
    """The number, from 1, of the line that holds a position."""
    return text.count("\n", 0, position) + 1


def blanked(text: str, comments: re.Pattern[str]) -> str:
    """The text with its comments as blanks, so that lines keep their numbers."""
    return comments.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def content_lines(data: bytes, count: int = 2) -> list[bytes]:
    """The first lines that are neither blank nor begin with '#', each cut to a readable length."""
    found: list[bytes] = []
    start = 0
    while start < len(data) and len(found) < count:
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start : min(end, start + (1 << 20))].strip()
        if line and not line.startswith(b"#"):
            found.append(line)
        start = end + 1
    return found


def stated_ring(data: bytes) -> Ring | None:
    """F2 if a comment line of the file says "mod 2", else None."""
    return Ring.F2 if _MODULO_2.search(data) else None


def sizes_of(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> tuple[int, int, int]:
    """The sizes m, k, n from the shapes of A, B and C or its transpose.

    Raises:
        ValueError: they do not belong to one matrix product, or a size lies outside 1..64.
    """
    (m, k), (rows, n) = a, b
    if k != rows or c not in ((m, n), (n, m)):
        raise ValueError(f"A {m}x{k}, B {rows}x{n} and C {c[0]}x{c[1]} belong to no matrix product")
    Format(m, k, n).checked()
    return m, k, n


def draft_of(
    kind: str,
    factors: Sequence[tuple[Factor, int]],
    *,
    sizes: tuple[int, int, int] | None = None,
    ring: Ring | None = None,
    name: str = "",
) -> Draft:
    """A draft from three numerators with their denominators.

    A ring that a comment states is believed only where it can be so: a lifted scheme may mention its origin "mod 2".
    """
    (u, du), (v, dv), (w, dw) = factors
    if (du, dv, dw) != (1, 1, 1) or any(factor.min(initial=0) < 0 for factor in (u, v, w)):
        ring = None
    return Draft(kind, (u, v, w), (du, dv, dw), sizes, ring, name)


def require_ring(scheme: Scheme, kind: str, *rings: Ring) -> None:
    """Refuse to write a scheme whose ring the format has no way to say.

    Raises:
        ValueError: the ring is none of those given.
    """
    if scheme.ring not in rings:
        raise ValueError(f"{kind} cannot hold a scheme over {scheme.ring}, only over {', '.join(rings)}; use json")


def written(scheme: Scheme, mode: int) -> list[list[str]]:
    """The coefficients of one factor matrix as text p or p/q, [entries][r]."""
    factor, denominator = scheme.factors[mode], scheme.denominators[mode]
    texts = {entry: str(Fraction(entry, denominator)) for entry in np.unique(factor).tolist()}
    return [[texts[entry] for entry in row] for row in factor.tolist()]


def transposed_order(scheme: Scheme) -> list[int]:
    """Rows of W in the order of C transposed, [n*m]: entry j*m + i is the row of C[i, j]."""
    return [i * scheme.n + j for j in range(scheme.n) for i in range(scheme.m)]


def pieces(text: str, width: int = 1 << 16) -> Iterator[tuple[int, str]]:
    """Parts of a text and where they begin, cut at blanks, so that a long line never has all its words in memory."""
    start = 0
    while start < len(text):
        found = _BLANK.search(text, start + width)
        end = found.start() if found else len(text)
        yield start, text[start:end]
        start = end


def numbered(lines: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, stripped, with their numbers from 1."""
    for count, line in enumerate(lines.split("\n"), 1):
        if line.strip():
            yield count, line.strip()
