"""Symbolic proof of a scheme: expand its formulas in non-commuting letters and compare with the matrix product.

It is independent of ``catalog.verify``: nothing is shared but the type of the answer, and the algebra is sympy's.
"""

from __future__ import annotations

from typing import Any

from catalog.scheme import Scheme
from catalog.verify import Violation

Entry = tuple[int, int]


def symbolic_violation(scheme: Scheme) -> Violation | None:
    """Prove a scheme by expanding it, or name the first violated Brent equation.

    Every product is expanded as (sum u a)(sum v b) over non-commuting symbols a11, a12, ..., b11, ...; the entries of
    C made of the products are collected and compared with sum_j a_ij b_jl, monomial by monomial, modulo the
    characteristic of the ring. Coefficients are those of the scheme times its denominator.

    Returns:
        None when the scheme is exact, else the violation that comes first in the order of A, B, C entries.
    """
    import sympy

    m, k, n = scheme.format
    a = {_symbol(sympy, "a", entry): entry for entry in _entries(m, k)}
    b = {_symbol(sympy, "b", entry): entry for entry in _entries(k, n)}
    products = [
        sympy.expand(_combination(sympy, u, a) * _combination(sympy, v, b)).as_coefficients_dict()
        for u, v in zip(scheme.U.T.tolist(), scheme.V.T.tolist(), strict=True)
    ]
    a_at, b_at = {entry: x for x, entry in a.items()}, {entry: x for x, entry in b.items()}
    wrong = []
    for c, weights in zip(_entries(m, n), scheme.W.tolist(), strict=True):
        expected: dict[Any, int] = {}
        for j in range(1, k + 1):
            expected[a_at[c[0], j] * b_at[j, c[1]]] = scheme.denominator
        found: dict[Any, Any] = {}
        for weight, product in zip(weights, products, strict=True):
            if weight:
                for monomial, coefficient in product.items():
                    found[monomial] = found.get(monomial, 0) + weight * coefficient
        for monomial in found.keys() | expected.keys():
            if monomial == 1:  # sympy's empty product: the expansion of a zero factor
                continue
            value, target = found.get(monomial, 0), expected.get(monomial, 0)
            if scheme.ring.modulus:
                value = value % scheme.ring.modulus
            if value != target:
                left, right = monomial.args
                wrong.append(Violation(a[left], b[right], c, int(target), int(value)))
    return min(wrong, key=lambda violation: (violation.a, violation.b, violation.c), default=None)


def _entries(rows: int, columns: int) -> list[Entry]:
    return [(i, j) for i in range(1, rows + 1) for j in range(1, columns + 1)]


def _symbol(sympy: Any, letter: str, entry: Entry) -> Any:
    return sympy.Symbol(f"{letter}{entry[0]}_{entry[1]}", commutative=False)


def _combination(sympy: Any, column: list[int], letters: dict[Any, Entry]) -> Any:
    return sympy.Add(*(coefficient * letter for coefficient, letter in zip(column, letters, strict=True)))
