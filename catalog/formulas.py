"""A scheme as formulas that a person can read and type: products M1, M2, ... and the entries of C made of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from catalog.scheme import Factor, Format, Ring, Scheme

CONVENTION = "A is m x k, B is k x n, C = A*B is m x n; a12 is row 1, column 2 of A; C is not transposed."


def formulas(scheme: Scheme) -> list[str]:
    """One line a product and one line an entry of C, e.g. ``M1 = (a11 + a22)*(b11 + b22)`` and ``c12 = M3 + M5``.

    Denominators appear as fractions (``1/2*a11``). Indices are separated (``a1_12``) once a size has two digits. Over
    F2 and F3 the equations hold modulo 2 and 3.
    """
    names = entry_names(scheme.format)
    du, dv, dw = scheme.denominators
    sides = zip(_sums(scheme.U, du, names[0]), _sums(scheme.V, dv, names[1]), strict=True)
    lines = [f"M{term} = {bracketed(u)}*{bracketed(v)}" for term, (u, v) in enumerate(sides, start=1)]
    products = [f"M{term}" for term in range(1, scheme.rank + 1)]
    entries = zip(names[2], _sums(scheme.W.T, dw, products), strict=True)
    return lines + [f"{name} = {total}" for name, total in entries]


def entry_names(format: Format) -> tuple[list[str], list[str], list[str]]:
    """Names of the entries of A, B and C, row by row: ``a12``, or ``a1_12`` once a size has two digits."""
    m, k, n = format
    separator = "_" if max(format) > 9 else ""
    a, b, c = (
        [f"{letter}{i}{separator}{j}" for i in range(1, rows + 1) for j in range(1, columns + 1)]
        for letter, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n))
    )
    return a, b, c


def describe(scheme: Scheme) -> str:
    """The formulas under a heading that states format, rank, ring and the convention."""
    modulus = {Ring.F2: " Coefficients modulo 2.", Ring.F3: " Coefficients modulo 3."}.get(scheme.ring, "")
    heading = f"{scheme.format}, rank {scheme.rank} over {scheme.ring}: {scheme.format.described}."
    return "\n".join([heading, CONVENTION + modulus, *formulas(scheme)])


def _sums(factor: Factor, denominator: int, names: list[str]) -> Iterator[str]:
    """Every column of a factor matrix as a sum of the names of its rows."""
    for column in factor.T.tolist():
        text = ""
        for coefficient, name in zip(column, names, strict=True):
            if coefficient:
                size = Fraction(abs(coefficient), denominator)
                term = name if size == 1 else f"{size}*{name}"
                if text:
                    text += f" {'-' if coefficient < 0 else '+'} {term}"
                else:
                    text = f"-{term}" if coefficient < 0 else term
        yield text or "0"


def bracketed(text: str) -> str:
    """Brackets around whatever is not a single name or number."""
    return text if text.replace("_", "").isalnum() else f"({text})"
