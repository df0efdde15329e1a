"""Numbers of foreign files as exact integers and fractions, never rounded; complex ones are refused by name."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from catalog.formats.draft import Entry
from catalog.formats.errors import shown

NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
# Denominators 2**s of floating point numbers; published schemes have halves to sixty-fourths.
SHIFTS = 20
# A coefficient must fit 64 bits in the end; scalars on the way there may be longer, but not without bound.
DIGITS = 40
_BITS = 256
_DECIMAL = re.compile(rf"([+-]?)({NUMBER})(?:/(\d+))?")


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
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{value[:40]!r} is no integer, fraction or decimal")
    found = number(text)
    below = found.denominator
    if "/" not in text and (below > 1 << SHIFTS or below & (below - 1)):
        raise ValueError(f"{value} is no fraction of a power of two, so the file is approximate; give it as p/q")
    return found


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
    if len(text) > DIGITS or (power and abs(int(power[0])) > DIGITS):
        raise ValueError(f"the number {shown(text)} is too long for a coefficient")
    if below is not None and int(below) == 0:
        raise ValueError(f"{shown(text)} divides by zero")
    value = Fraction(digits) / int(below or 1) * (-1 if sign == "-" else 1)
    return value.numerator if value.denominator == 1 else value


def bounded(value: Entry) -> Entry:
    """The value itself.

    Raises:
        ValueError: it is too long for a coefficient.
    """
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise ValueError(f"a coefficient has more than {_BITS} bits")
    return value
