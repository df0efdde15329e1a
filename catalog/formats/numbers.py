"""Numbers of foreign files as exact integers and fractions, never rounded; complex ones are refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.formats.draft import Entry, factor_of
from catalog.scheme import Factor

# Entries of one factor: 64*64 of them for 4096 products. Headers may claim more than a file holds.
LARGEST = 1 << 24
# Denominators 2**s of floating point numbers; published schemes have halves to sixty-fourths.
_SHIFTS = 20
_NUMBER = re.compile(r"([+-]?)(\d{1,30})(?:/(\d{1,30})|(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2}))?)|([+-]?)\.(\d{1,30})")


class ComplexError(ValueError):
    """A coefficient has an imaginary part."""

    def __init__(self) -> None:
        super().__init__("its coefficients are complex, and the rings here are F2, F3, Z and Q")


def entry_of(value: Any) -> Entry:
    """One number of a file: an integer, a fraction or decimal as text, or a pair of real and imaginary part.

    Raises:
        ComplexError: the imaginary part is not zero.
        ValueError: no number, or a decimal that is no integer over a small power of two.
    """
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value} stands where a number should be")
    if isinstance(value, int | Fraction):
        return value
    if isinstance(value, float | np.floating):
        return entry_of(repr(float(value)))
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, complex | np.complexfloating):
        return entry_of([float(value.real), float(value.imag)])
    if isinstance(value, list | tuple) and len(value) == 2:
        real, imaginary = (entry_of(part) for part in value)
        if imaginary:
            raise ComplexError
        return real
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} stands where a number should be")
    text = value.replace(" ", "")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{value[:40]!r} is no integer, fraction or decimal")
    try:
        number = Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"{value!r} divides by zero") from None
    if "/" not in text and (number.denominator > 1 << _SHIFTS or number.denominator & (number.denominator - 1)):
        raise ValueError(f"{value} is no fraction of a power of two, so the file is approximate; give it as p/q")
    return int(number) if number.denominator == 1 else number


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


def factor_from_sparse(shape: tuple[int, int], entries: Mapping[tuple[int, int], Entry]) -> tuple[Factor, int]:
    """A matrix of a given shape from its non-zero entries, as int64 numerators with one denominator.

    Raises:
        ValueError: it has too many numbers, or one of them has no 64 bits.
    """
    if shape[0] * shape[1] > LARGEST:
        raise ValueError(f"a factor of {shape[0]} times {shape[1]} numbers is larger than the {LARGEST} that are read")
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
    for shift in range(_SHIFTS + 1):
        scaled = exact * float(1 << shift)
        if abs(scaled).max(initial=0) >= 1 << 53:
            break
        if np.array_equal(scaled, np.rint(scaled)):
            return scaled.astype(np.int64), 1 << shift
    worst = next(x for x in exact.ravel().tolist() if Fraction(x).denominator > 1 << _SHIFTS or abs(x) >= 1 << 32)
    raise ValueError(f"{worst!r} is no fraction of a small power of two, so the file is approximate; give it as p/q")
