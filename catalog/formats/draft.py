"""What a foreign file says before its convention is known: three factor matrices and perhaps sizes and a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from catalog.scheme import Factor, Ring

Entry = int | Fraction
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Draft:
    """A scheme as a file has it. Which entry stands for which element of A, B and C is found by verification.

    Attributes:
        kind: of the file, in the words of a report, such as "AlphaTensor npz".
        factors: numerators for A, B and C in this order, each [entries, r] int64 (int8 in large pools).
        denominators: what each of them is divided by.
        sizes: m, k, n if the file states them; None if they follow from the numbers of entries.
        ring: F2 or F3 if the file says so; None if coefficients are what they are.
        name: of one scheme among several of a file; "" where there is one.
    """

    kind: str
    factors: tuple[Factor, Factor, Factor]
    denominators: tuple[int, int, int] = (1, 1, 1)
    sizes: tuple[int, int, int] | None = None
    ring: Ring | None = None
    name: str = ""


def factor_of(rows: Sequence[Sequence[Entry]]) -> tuple[Factor, int]:
    """Integers and fractions as int64 numerators with one denominator.

    Args:
        rows: [entries][r].

    Raises:
        ValueError: rows of several lengths, or a numerator that has no 64 bits.
    """
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"rows have {' and '.join(map(str, sorted({len(row) for row in rows})))} entries")
    common = lcm(1, *(entry.denominator for row in rows for entry in row if isinstance(entry, Fraction)))
    scaled = [[int(entry * common) for entry in row] for row in rows]
    peak = max((abs(entry) for row in scaled for entry in row), default=0)
    if peak >= _LARGEST or common >= _LARGEST:
        raise ValueError("a coefficient has no 64 bits")
    return np.array(scaled, dtype=np.int64).reshape(len(rows), len(rows[0]) if rows else 0), common
