"""What all readers of scheme text share: exact numbers, comments, dense factor matrices, sizes, one kind of error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from catalog.formats.draft import Draft, Entry
from catalog.scheme import MAX_DIMENSION, Factor, Format, Ring, Scheme

Codes = NDArray[np.int32]

NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_DECIMAL = re.compile(rf"([+-]?)({NUMBER})(?:/(\d+))?")
_MODULO_2 = re.compile(rb"^[ \t]*#[^\n]*?\bmod(?:ulo)?[ -]?2\b", re.IGNORECASE | re.MULTILINE)
# A coefficient must fit 64 bits in the end; scalars on the way there may be longer, but not without bound.
_DIGITS = 40
_BITS = 256
_LARGEST = 1 << 62
_BLANK = re.compile(r"\s")
_INNER = re.compile(r"(?<=[-+/])\s+|\s+(?=/)")
# Of one factor matrix. A few bytes of text can ask for a matrix of any size.
_CELLS = 1 << 25


def text_of(data: bytes) -> str:
    """The text with one kind of line end. A byte that is no UTF-8 is harmless in a comment and refused elsewhere."""
    return data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def line_at(text: str, position: int) -> int:
    """The number, from 1, of the line that holds a position."""
    return text.count("\n", 0, position) + 1


def shown(text: str) -> str:
    """A piece of a file for a sentence, cut to a readable length."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


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


def bounded(value: Entry) -> Entry:
    """The value itself.

    Raises:
        ValueError: it is too long for a coefficient.
    """
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise ValueError(f"a coefficient has more than {_BITS} bits")
    return value


@lru_cache(1 << 12)
def number(text: str) -> Entry:
    """An integer, a fraction p/q or a finite decimal, exactly.

    Raises:
        ValueError: it is none of them; complex numbers are named as such.
    """
    found = _DECIMAL.fullmatch(text)
    if not found:
        if re.fullmatch(rf"[+-]?(?:{NUMBER})?[ij]", text, re.IGNORECASE):
            raise ValueError(f"{shown(text)} is a complex number; schemes over F2, F3, Z and Q can be read")
        raise ValueError(f"{shown(text)} is no number")
    sign, digits, below = found.groups()
    power = re.split("[eE]", digits)[1:]
    if len(text) > _DIGITS or (power and abs(int(power[0])) > _DIGITS):
        raise ValueError(f"the number {shown(text)} is too long for a coefficient")
    if below is not None and int(below) == 0:
        raise ValueError(f"{shown(text)} divides by zero")
    value = Fraction(digits) / int(below or 1) * (-1 if sign == "-" else 1)
    return value.numerator if value.denominator == 1 else value


class Numbers(dict[str, int]):
    """Codes of number texts. Each distinct text is parsed once, so that dense files of many entries stay cheap.

    Attributes:
        known: the number of each code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: list[Entry] = []

    def __missing__(self, text: str) -> int:
        value = number(text)
        self[text] = len(self.known)
        self.known.append(value)
        return self[text]

    def row(self, cells: list[str]) -> list[int]:
        """The codes of the entries of one row of a matrix; a sign and '/' may have blanks and line ends around them.

        Raises:
            ValueError: an entry is no number, or there are more of them than a matrix has columns.
        """
        if len(cells) > MAX_DIMENSION:
            raise ValueError(f"a row of {len(cells)} entries; a matrix has at most {MAX_DIMENSION} columns")
        return [self[_joined(cell.strip())] for cell in cells]

    def factor(self, codes: Codes) -> tuple[Factor, int]:
        """int64 numerators of the same shape and their denominator.

        Raises:
            ValueError: a numerator has no 64 bits.
        """
        used = np.flatnonzero(np.bincount(codes.ravel(), minlength=len(self.known))).tolist()
        common = _common(self.known[code].denominator for code in used)
        table = np.zeros(len(self.known), dtype=np.int64)
        for code in used:
            table[code] = _fitting(self.known[code] * common)
        return table[codes], common


def _joined(cell: str) -> str:
    """The entry without blanks beside its sign and '/'. Long ones are left for the check of numbers to refuse."""
    return cell if len(cell) > 2 * _DIGITS else _INNER.sub("", cell)


def sparse_factor(terms: Sequence[Mapping[int, Entry]], entries: int) -> tuple[Factor, int]:
    """A factor matrix [entries, r] from the coefficients of each term, with its denominator.

    Raises:
        ValueError: the matrix is too large or a numerator has no 64 bits.
    """
    require_cells(entries, len(terms))
    common = _common({value.denominator for term in terms for value in term.values()})
    factor = np.zeros((entries, len(terms)), dtype=np.int64)
    for column, term in enumerate(terms):
        for row, value in term.items():
            factor[row, column] = _fitting(value * common)
    return factor, common


def require_cells(entries: int, rank: int) -> None:
    """Refuse a matrix that is too large to be made.

    Raises:
        ValueError: it is.
    """
    if entries * rank > _CELLS:
        raise ValueError(f"a factor matrix of {entries} x {rank} is too large; the limit is {_CELLS} coefficients")


def _common(denominators: Iterable[int]) -> int:
    """Their least common multiple, given up as soon as it is too long."""
    common = 1
    for denominator in denominators:
        common = lcm(common, denominator)
        if common >= _LARGEST:
            raise ValueError("the common denominator has no 64 bits")
    return common


def _fitting(numerator: Entry) -> int:
    if not -_LARGEST < numerator < _LARGEST:
        raise ValueError("a coefficient has no 64 bits")
    return int(numerator)


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
