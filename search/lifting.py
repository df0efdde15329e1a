"""Hensel lifting of a scheme over F2 to the integers.

The Brent equations F(x) = T are solved modulo 2, 4, 8, ... (Hensel's lemma; used for schemes by Kauers and
Moosbauer, arXiv 2212.01175): given F(x) = T mod 2^k, a correction d in {0, 1} with J d = (T - F(x)) / 2^k mod 2
makes x + 2^k d right modulo 2^(k+1). The Jacobian J matters only modulo 2, so it is eliminated once.

The unknowns outnumber the equations' rank, and the free ones decide whether the limit has small coefficients.
Unknowns that are 1 over F2 become pivots first, so that free unknowns stay 0 wherever they can; those that stay 1
get random signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Ring, Scheme
from catalog.verify import is_exact, require_exact
from search.gf2 import Elimination, eliminate

# Sign patterns tried for each order of the unknowns; far cheaper than another elimination.
_SIGNINGS = 8


def lift(
    scheme: Scheme, *, seed: int = 0, attempts: int = 6, max_bits: int = 20, rational: bool = False
) -> Scheme | None:
    """Find a scheme over Z that is congruent to ``scheme`` modulo 2.

    Several orders and signs of the unknowns are tried; the first ternary result ends the search, else the one with
    the smallest coefficients is kept.

    Args:
        scheme: an exact scheme over F2.
        seed: of the random orders and signs.
        attempts: orders of the unknowns to try, at least 1.
        max_bits: coefficients are known modulo 2**max_bits at most; 2..60.
        rational: return a scheme over Q with odd denominators when nothing integral was found.

    Returns:
        An exact scheme over Z (or Q, see ``rational``), or None.

    Raises:
        ValueError: the scheme is not over F2 or not exact there, or a number lies outside its range.
    """
    _require(scheme)
    if attempts < 1 or not 2 <= max_bits <= 60:
        raise ValueError(f"{attempts=} must be at least 1 and {max_bits=} must lie in 2..60")
    rng = np.random.default_rng(seed)
    problem = _Problem.of(scheme)
    best: Scheme | None = None
    fallback: Scheme | None = None
    for _ in range(attempts):
        order = problem.support_first(rng)
        elimination = eliminate(problem.jacobian[order])
        if _correction(problem, elimination, order, problem.start, 1) is None:
            return None  # no choice of free unknowns can repair the step to modulus 4
        for signing in range(_SIGNINGS):
            signs = np.where(rng.integers(0, 2, len(order)), 1, -1) if signing else 1
            for candidate in _hensel(problem, elimination, order, problem.start * signs, max_bits):
                if candidate.ring is Ring.Q:
                    fallback = fallback or candidate
                elif best is None or _peak(candidate) < _peak(best):
                    best = candidate
            if best is not None and best.is_ternary:
                return best
    return best or (fallback if rational else None)


def lifts_mod4(scheme: Scheme) -> bool:
    """Whether the first Hensel step, from modulus 2 to 4, has a solution; if not, no lift to Z exists.

    Raises:
        ValueError: the scheme is not over F2 or not exact there.
    """
    _require(scheme)
    problem = _Problem.of(scheme)
    order = np.arange(len(problem.start))
    return _correction(problem, eliminate(problem.jacobian), order, problem.start, 1) is not None


@dataclass(frozen=True)
class _Problem:
    """The Brent equations of a format at one F2 point: e equations in x unknowns (all of U, then V, then W).

    Attributes:
        format: of the scheme.
        start: [x] int64, the F2 coefficients.
        target: [mk, kn, mn] int64, the matrix multiplication tensor.
        jacobian: [x, e] bool, row j is the derivative of all equations by unknown j, modulo 2.
    """

    format: Format
    start: NDArray[np.int64]
    target: NDArray[np.int64]
    jacobian: NDArray[np.bool_]

    @classmethod
    def of(cls, scheme: Scheme) -> _Problem:
        u, v, w = (factor.astype(bool) for factor in scheme.factors)
        (a, r), (b, _), (c, _) = u.shape, v.shape, w.shape
        blocks = [np.zeros((rows, r, a, b, c), dtype=bool) for rows in (a, b, c)]
        for entry in range(a):
            blocks[0][entry, :, entry] = (v[:, None] & w[None]).transpose(2, 0, 1)
        for entry in range(b):
            blocks[1][entry, :, :, entry] = (u[:, None] & w[None]).transpose(2, 0, 1)
        for entry in range(c):
            blocks[2][entry, :, :, :, entry] = (u[:, None] & v[None]).transpose(2, 0, 1)
        m, k, n = scheme.format
        target = np.zeros((m, k, k, n, m, n), dtype=np.int64)
        i, j, col = (index.ravel() for index in np.indices((m, k, n)))
        target[i, j, j, col, i, col] = 1
        return cls(
            scheme.format,
            np.concatenate([factor.ravel() for factor in scheme.factors]),
            target.reshape(a, b, c),
            np.concatenate([block.reshape(-1, a * b * c) for block in blocks]),
        )

    def factors(self, point: NDArray) -> list[NDArray]:
        """U, V, W as matrices [rows, r] of a point [x]."""
        m, k, n = self.format
        rank = len(point) // (m * k + k * n + m * n)
        parts = np.split(point, [m * k * rank, (m * k + k * n) * rank])
        return [part.reshape(-1, rank) for part in parts]

    def residual(self, point: NDArray[np.int64]) -> NDArray[np.int64]:
        """T - F(point), [e] int64, exact modulo 2**64 (integer overflow wraps)."""
        u, v, w = self.factors(point)
        products = (u[:, None, :] * v[None, :, :]).reshape(-1, u.shape[1])
        return self.target.ravel() - (products @ w.T).ravel()

    def support_first(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random order [x] of the unknowns, those that are 1 before those that are 0."""
        order = rng.permutation(len(self.start))
        return order[np.argsort(-self.start[order], kind="stable")]


def _correction(
    problem: _Problem, elimination: Elimination, order: NDArray[np.int64], point: NDArray[np.int64], bits: int
) -> NDArray[np.int64] | None:
    """The step d [x] in {0, 1} that makes ``point + 2**bits * d`` right modulo 2**(bits+1), or None."""
    solution = elimination.solve((problem.residual(point) >> bits & 1).astype(bool))
    if solution is None:
        return None
    step = np.zeros(len(order), dtype=np.int64)
    step[order] = solution
    return step


def _hensel(
    problem: _Problem,
    elimination: Elimination,
    order: NDArray[np.int64],
    start: NDArray[np.int64],
    max_bits: int,
) -> list[Scheme]:
    """Exact schemes met on the way up from ``start``: one over Z, or one from rational reconstruction, or none."""
    point = start
    for bits in range(1, max_bits):
        if not problem.residual(point).any():
            scheme = Scheme(problem.format, Ring.Z, *problem.factors(point))
            if is_exact(scheme):
                return [scheme]
        step = _correction(problem, elimination, order, point, bits)
        if step is None:
            return []
        half = 1 << bits
        point = (point + half * step + half) % (2 * half) - half
    reconstructed = _reconstruct(problem, point, max_bits)
    return [reconstructed] if reconstructed is not None and is_exact(reconstructed) else []


def _reconstruct(problem: _Problem, point: NDArray[np.int64], bits: int) -> Scheme | None:
    """Read every residue modulo 2**bits as a small fraction; each term is scaled so that u and v are primitive."""
    fractions = {residue: _fraction(residue, 1 << bits) for residue in set(point.tolist())}
    if any(value is None for value in fractions.values()):
        return None
    values = np.array([fractions[residue] for residue in point.tolist()], dtype=object)
    u, v, w = (factor.T.tolist() for factor in problem.factors(values))
    for term in range(len(u)):
        for factor in (u, v):
            scale = Fraction(lcm(*(e.denominator for e in factor[term])), gcd(*(e.numerator for e in factor[term])))
            factor[term] = [e * scale for e in factor[term]]
            w[term] = [e / scale for e in w[term]]
    common = lcm(*(e.denominator for column in w for e in column))
    scaled = [[[int(e * d) for e in column] for column in f] for f, d in ((u, 1), (v, 1), (w, common))]
    try:
        factors = [np.array(f, dtype=np.int64).T for f in scaled]
    except OverflowError:
        return None
    ring = Ring.Z if common == 1 else Ring.Q
    return Scheme(problem.format, ring, *factors, denominators=(1, 1, common))


def _fraction(residue: int, modulus: int) -> Fraction | None:
    """The fraction p/q = residue mod ``modulus`` with |p|, q <= sqrt(modulus / 2), by the Euclidean algorithm."""
    bound = isqrt(modulus // 2)
    previous, current, s, t = modulus, residue % modulus, 0, 1
    while current > bound:
        quotient = previous // current
        previous, current, s, t = current, previous - quotient * current, t, s - quotient * t
    if t == 0 or abs(t) > bound or t % 2 == 0:
        return None
    return Fraction(current, t)


def _peak(scheme: Scheme) -> int:
    return max(int(np.abs(factor).max(initial=0)) for factor in scheme.factors)


def _require(scheme: Scheme) -> None:
    if scheme.ring is not Ring.F2:
        raise ValueError(f"only schemes over F2 can be lifted, not one over {scheme.ring}; reduce it modulo 2 first")
    require_exact(scheme)
