"""Linear equations over Q, F2 and F3, solved exactly. ``modulus`` 0 stands for Q."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any


def quotient(numerator: Any, denominator: Any, modulus: int) -> Any:
    """A quotient in the field: a Fraction over Q, a residue modulo a prime.

    Raises:
        ZeroDivisionError: the denominator is zero in the field.
    """
    if not modulus:
        return Fraction(numerator) / Fraction(denominator)
    if denominator % modulus == 0:
        raise ZeroDivisionError(f"{denominator} is zero modulo {modulus}")
    return numerator * pow(int(denominator), -1, modulus) % modulus


def primitive(values: Sequence[Fraction]) -> list[int]:
    """The multiple of a vector over Q that has integer entries without a common divisor."""
    common = lcm(1, *(value.denominator for value in values))
    whole = [int(value * common) for value in values]
    divisor = gcd(*whole) or 1
    return [value // divisor for value in whole]


class Equations:
    """Homogeneous linear equations, kept in echelon form.

    Args:
        unknowns: how many there are.
        modulus: of the field.
    """

    def __init__(self, unknowns: int, modulus: int) -> None:
        self.unknowns = unknowns
        self.modulus = modulus
        # By pivot, which is one there and in no other row.
        self._rows: dict[int, dict[int, Any]] = {}

    def add(self, terms: Mapping[int, Any]) -> bool:
        """Add an equation, coefficients by unknown; False when only the zero vector is left."""
        p = self.modulus
        left = {at: value % p if p else value for at, value in terms.items()}
        left = {at: value for at, value in left.items() if value}
        for at in [at for at in left if at in self._rows]:
            _subtract(left, self._rows[at], left[at], p)
        if left:
            pivot = min(left)
            scale = quotient(1, left[pivot], p)
            row = {at: value * scale % p if p else value * scale for at, value in left.items()}
            for other in self._rows.values():
                if pivot in other:
                    _subtract(other, row, other[pivot], p)
            self._rows[pivot] = row
        return len(self._rows) < self.unknowns

    def only_solution(self) -> list[int] | None:
        """The solution, as integers without a common divisor, where all are multiples of one; else None."""
        free = [at for at in range(self.unknowns) if at not in self._rows]
        if len(free) != 1:
            return None
        solution = [Fraction(0)] * self.unknowns
        solution[free[0]] = Fraction(1)
        for pivot, row in self._rows.items():
            value = -row.get(free[0], 0)
            solution[pivot] = Fraction(value % self.modulus if self.modulus else value)
        return primitive(solution)


def _subtract(target: dict[int, Any], row: Mapping[int, Any], factor: Any, modulus: int) -> None:
    for at, value in row.items():
        result = target.get(at, 0) - factor * value
        if modulus:
            result %= modulus
        if result:
            target[at] = result
        else:
            target.pop(at, None)
