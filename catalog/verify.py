"""Exact check of the Brent equations (Brent 1970): integers only, never a tolerance.

Sums are evaluated in float64 when a bound shows that every partial sum is an integer below 2**53 (then BLAS is
exact), in int64 below 2**63, and in Python integers beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catalog.scheme import Scheme

# Elements of one slab of (A entry, B entry, term) products; bounds memory at about 32 MB.
_SLAB = 1 << 22


@dataclass(frozen=True)
class Violation:
    """One Brent equation that does not hold, in 1-based matrix indices.

    Attributes:
        a: row and column of the entry of A.
        b: row and column of the entry of B.
        c: row and column of the entry of C.
        expected: what the matrix multiplication tensor has there, times the scheme's denominator.
        found: what the scheme has there (modulo the characteristic, for F2 and F3).
    """

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    expected: int
    found: int

    def __str__(self) -> str:
        (i, j), (p, q), (s, t) = self.a, self.b, self.c
        return f"the coefficient of a[{i},{j}]*b[{p},{q}] in c[{s},{t}] is {self.found}, it must be {self.expected}"


class NotExactError(ValueError):
    """A scheme violates a Brent equation; ``violation`` says which."""

    def __init__(self, scheme: Scheme, violation: Violation) -> None:
        self.violation = violation
        super().__init__(
            f"this {scheme.format} scheme of rank {scheme.rank} over {scheme.ring} is not exact: {violation}"
        )


def first_violation(scheme: Scheme) -> Violation | None:
    """Find the first violated Brent equation, in the order of A, B, C entries, or None when all hold."""
    m, k, n = scheme.format
    dtype = _safe_dtype(scheme)
    u, v, w = (factor.astype(dtype) for factor in scheme.factors)
    modulus, scale = scheme.ring.modulus, scheme.denominator
    slab = max(1, _SLAB // max(1, v.size))
    for start in range(0, m * k, slab):
        rows = u[start : start + slab]
        products = (rows[:, None, :] * v[None, :, :]).reshape(len(rows) * k * n, scheme.rank)
        sums = (products @ w.T).reshape(len(rows), k, n, m, n)
        if modulus:
            sums = sums % modulus
        target = np.zeros(sums.shape, dtype=dtype)
        for offset in range(len(rows)):
            i, j = divmod(start + offset, k)
            target[offset, j, np.arange(n), i, np.arange(n)] = scale
        wrong = np.argwhere(sums != target)
        if len(wrong):
            offset, p, q, s, t = (int(index) for index in wrong[0])
            i, j = divmod(start + offset, k)
            where = (offset, p, q, s, t)
            return Violation((i + 1, j + 1), (p + 1, q + 1), (s + 1, t + 1), int(target[where]), int(sums[where]))
    return None


def is_exact(scheme: Scheme) -> bool:
    """Whether every Brent equation holds in the scheme's ring."""
    return first_violation(scheme) is None


def require_exact(scheme: Scheme) -> Scheme:
    """Return the scheme itself.

    Raises:
        NotExactError: a Brent equation is violated.
    """
    violation = first_violation(scheme)
    if violation is not None:
        raise NotExactError(scheme, violation)
    return scheme


def _safe_dtype(scheme: Scheme) -> Any:
    """The fastest number type in which no partial Brent sum of the scheme can overflow or round."""
    peaks = [[max(map(abs, column), default=0) for column in factor.T.tolist()] for factor in scheme.factors]
    bound = max(sum(x * y * z for x, y, z in zip(*peaks, strict=True)), scheme.denominator)
    if bound < 1 << 53:
        return np.float64
    return np.int64 if bound < 1 << 63 else object
