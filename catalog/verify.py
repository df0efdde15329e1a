"""Exact check of the Brent equations (Brent 1970): integers only, never a tolerance.

Sums are evaluated in float64 when a bound shows that every partial sum is an integer below 2**53 (then BLAS is
exact), in int64 below 2**63, and in Python integers beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catalog.scheme import Scheme

# Numbers in one slab of products or of Brent sums; bounds memory at about 150 MB whatever the format.
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
    """A scheme violates a Brent equation; ``scheme`` is it and ``violation`` says which."""

    def __init__(self, scheme: Scheme, violation: Violation) -> None:
        self.scheme, self.violation = scheme, violation
        super().__init__(
            f"this {scheme.format} scheme of rank {scheme.rank} over {scheme.ring} is not exact: {violation}"
        )


def first_violation(scheme: Scheme) -> Violation | None:
    """Find the first violated Brent equation, in the order of A, B, C entries, or None when all hold.

    Only the terms that hold an entry of A enter its equations, so the time is that of kn*mn times the non-zero
    entries of U: the fourth power of Strassen's scheme, 16x16x16 of rank 2401, takes about a second.
    """
    m, k, n = scheme.format
    dtype = _safe_dtype(scheme)
    u, v, w = (factor.astype(dtype) for factor in scheme.factors)
    modulus, scale = scheme.ring.modulus, scheme.denominator
    height = max(1, _SLAB // max(1, scheme.rank, m * n))
    for a in range(m * k):
        i, j = divmod(a, k)
        terms = np.flatnonzero(scheme.U[a])
        right = w[:, terms].T
        for start in range(0, k * n, height):
            sums = (v[start : start + height, terms] * u[a, terms]) @ right
            if modulus:
                sums = sums % modulus
            target = np.zeros(sums.shape, dtype=dtype)
            p, q = np.divmod(np.arange(start, start + len(sums)), n)
            hit = np.flatnonzero(p == j)
            target[hit, i * n + q[hit]] = scale
            wrong = sums != target
            if wrong.any():
                b, c = (int(index) for index in np.unravel_index(np.argmax(wrong), wrong.shape))
                return Violation(
                    (i + 1, j + 1),
                    (int(p[b]) + 1, int(q[b]) + 1),
                    (c // n + 1, c % n + 1),
                    int(target[b, c]),
                    int(sums[b, c]),
                )
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
