"""Factor matrices of foreign files as int64 numerators with one denominator, from whatever form they stand in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.formats.draft import Entry
from catalog.formats.numbers import DIGITS, SHIFTS, entry_of, number
from catalog.scheme import MAX_DIMENSION, Factor

Codes = NDArray[np.int32]

# Entries of one factor: 64*64 of them for 4096 products. Headers may claim more than a file holds.
LARGEST = 1 << 24
# Of one factor of a text, of which a few bytes can ask for a matrix of any size.
CELLS = 1 << 25
_LARGEST = 1 << 62
_INNER = re.compile(r"(?<=[-+/])\s+|\s+(?=/)")


def factor_of(rows: Sequence[Sequence[Entry]]) -> tuple[Factor, int]:
    """Integers and fractions as int64 numerators with one denominator.

    Args:
        rows: [entries][r].

    Raises:
        ValueError: rows of several lengths, or a numerator that has no 64 bits.
    """
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"rows have {' and '.join(map(str, sorted({len(row) for row in rows})))} entries")
    common = 1
    for below in {entry.denominator for row in rows for entry in row}:
        common = lcm(common, below)
        if common >= _LARGEST:  # given up before it grows without bound
            raise ValueError("the common denominator has no 64 bits")
    scaled = [[int(entry * common) for entry in row] for row in rows]
    peak = max((abs(entry) for row in scaled for entry in row), default=0)
    if peak >= _LARGEST:
        raise ValueError("a coefficient has no 64 bits")
    return np.array(scaled, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 0), common


def factor_from(values: Any) -> tuple[Factor, int]:
    """A matrix of numbers as int64 numerators with one denominator.

    Args:
        values: array or lists, [p, q], of integers, floats, or what ``entry_of`` takes.

    Returns:
        The numerators [p, q] and the denominator.

    Raises:
        ValueError: no matrix, or a number that is not exact.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return _from_array(values)
    rows = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(rows, Sequence) or not all(
        isinstance(row, Sequence) and not isinstance(row, str) for row in rows
    ):
        raise ValueError("a factor must be a matrix, a list of lists of numbers")
    if sum(map(len, rows)) > LARGEST:
        raise ValueError(f"a factor has more than {LARGEST} numbers")
    if all(type(entry) is int for row in rows for entry in row):
        with suppress(ValueError, OverflowError):  # ``factor_of`` says what does not fit
            return _from_array(np.array(rows, dtype=np.int64))
    return factor_of([[entry_of(entry) for entry in row] for row in rows])


def factor_from_sparse(
    shape: tuple[int, int], entries: Mapping[tuple[int, int], Entry], largest: int = LARGEST
) -> tuple[Factor, int]:
    """A matrix of a given shape from its non-zero entries, as int64 numerators with one denominator.

    Raises:
        ValueError: it has too many numbers, or one of them has no 64 bits.
    """
    if shape[0] * shape[1] > largest:
        raise ValueError(f"a factor of {shape[0]} times {shape[1]} numbers is larger than the {largest} that are read")
    values, denominator = factor_of([list(entries.values())])
    factor = np.zeros(shape, dtype=np.int64)
    if entries:
        factor[tuple(np.array(list(entries)).T)] = values[0]
    return factor, denominator


def _from_array(array: NDArray[Any]) -> tuple[Factor, int]:
    if array.ndim != 2:
        raise ValueError(f"a factor must be a matrix, not an array of {array.ndim} dimensions")
    if array.dtype.kind in "biu":
        if array.dtype.kind == "u" and array.size and int(array.max()) >= 1 << 63:
            raise ValueError("a coefficient has no 64 bits")
        return array.astype(np.int64), 1
    exact = array.astype(np.float64)
    if not np.isfinite(exact).all():
        raise ValueError("a coefficient is infinite or no number")
    for shift in range(SHIFTS + 1):
        scaled = exact * float(1 << shift)
        if abs(scaled).max(initial=0) >= 1 << 53:
            break
        if np.array_equal(scaled, np.rint(scaled)):
            return scaled.astype(np.int64), 1 << shift
    worst = next(x for x in exact.ravel().tolist() if Fraction(x).denominator > 1 << SHIFTS or abs(x) >= 1 << 32)
    raise ValueError(f"{worst!r} is no fraction of a small power of two, so the file is approximate; give it as p/q")


def sparse_factor(terms: Sequence[Mapping[int, Entry]], entries: int) -> tuple[Factor, int]:
    """A factor matrix [entries, r] from the coefficients of each term, with its denominator.

    Raises:
        ValueError: the matrix is too large or a numerator has no 64 bits.
    """
    require_cells(entries, len(terms))
    found = {(row, column): value for column, term in enumerate(terms) for row, value in term.items()}
    return factor_from_sparse((entries, len(terms)), found, CELLS)


def require_cells(entries: int, rank: int) -> None:
    """Refuse a matrix that is too large to be made.

    Raises:
        ValueError: it is.
    """
    if entries * rank > CELLS:
        raise ValueError(f"a factor matrix of {entries} x {rank} is too large; the limit is {CELLS} coefficients")


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
        values, common = factor_of([[self.known[code] for code in used]])
        table = np.zeros(len(self.known), dtype=np.int64)
        table[used] = values[0]
        return table[codes], common


def _joined(cell: str) -> str:
    """The entry without blanks beside its sign and '/'. Long ones are left for the check of numbers to refuse."""
    return cell if len(cell) > 2 * DIGITS else _INNER.sub("", cell)
