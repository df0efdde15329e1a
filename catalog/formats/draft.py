"""What a foreign file says before its convention is known: three factor matrices and perhaps sizes and a ring."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from catalog.scheme import Factor, Ring

Entry = int | Fraction


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
