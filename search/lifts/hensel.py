"""Hensel lifting of a scheme over F2 or F3 to coefficients of any size.

The Brent equations F(x) = T are solved modulo p, p^2, p^3, ... for p = 2 or 3 (Hensel's lemma; used for schemes by
Kauers and Moosbauer, arXiv 2212.01175): given F(x) = T mod p^k, a correction d modulo p with J d = (T - F(x)) / p^k
makes x + p^k d right modulo p^(k+1). The Jacobian J matters only modulo p, so it is eliminated once.

The unknowns outnumber the equations' rank, and the free ones decide whether the limit has small coefficients.
Unknowns that are not zero become pivots first, so that free unknowns stay 0 wherever they can; those that stay 1
get random signs over F2. From F3 the limit may have halves, from F2 only odd denominators.

Where a step has no solution, the step before is repaired: adding p^(k-1) h with J h = 0 mod p changes (T - F) / p^k
by -(J h) / p, and for k > 2 by nothing else modulo p. What an equation misses is thus linear in h, and solving for
it is one more small system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm, log2

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Ring, Scheme
from catalog.verify import is_exact
from search.lifts.brent import Brent
from search.lifts.gf2 import Elimination, eliminate, eliminate_packed
from search.lifts.gf3 import Elimination3, eliminate3, planes

# Rounds of repair before a step is given up: the second step's equations are quadratic, and the directions are random.
_ROUNDS = 6
# Directions that a repair begins with; it takes four times as many where these do not suffice.
_DIRECTIONS = 32
# Words of the matrix that one repair may look at, about a second; small systems never get there.
_WORK = 1 << 29
# Modulo 3**17 the residuals of 2,200 terms still fit in 64 bits.
_MOST_DIGITS = 17


@dataclass(frozen=True)
class Hensel:
    """The equations with their Jacobian eliminated; column j of it belongs to unknown ``order[j]``."""

    brent: Brent
    order: NDArray[np.int64]
    elimination: Elimination | Elimination3

    def correction(self, point: NDArray[np.int64], digits: int) -> NDArray[np.int64] | None:
        """The step d [x] that makes ``point + p**digits * d`` right modulo p**(digits+1), or None.

        Its entries are 0 and 1 over F2, and -1, 0 and 1 over F3.
        """
        solution, defect = self._reduce(point, digits)
        return None if defect.any() else self._in_order(solution)

    def lifts_once(self) -> bool:
        """Whether the first step has a solution; if not, there is no lift to Z or to the rationals without p below."""
        return self.correction(self.brent.start, 1) is not None

    def climb(
        self, rng: np.random.Generator, max_bits: int, should_stop: Callable[[], bool] = lambda: False
    ) -> Scheme | None:
        """A scheme over Z met on the way up, or one over Q read from the last residues, or None.

        Over F2 it begins with random signs. Over F3 signs are there already, and unknowns that stay free keep them:
        any other values would turn up in all others as large fractions.

        Args:
            rng: of the signs and the free unknowns.
            max_bits: coefficients are known modulo a power of p that is at most 2**max_bits.
            should_stop: asked before every step.
        """
        p, point, top = self.brent.prime, self.brent.start, max_bits
        if p == 2:
            point = point * np.where(rng.random(len(self.order)) < 0.5, 1, -1)
        else:
            top = max(2, min(_MOST_DIGITS, int(max_bits / log2(3))))
        for digits in range(1, top):
            if should_stop():
                return None
            if not self.brent.residual(point).any():
                scheme = Scheme(self.brent.format, Ring.Z, *self.brent.factors(point))
                if is_exact(scheme):
                    return scheme
            step = self.correction(point, digits)
            for _ in range(_ROUNDS if digits > 1 else 0):
                if step is not None or should_stop():
                    break
                repaired = self._repair(point, digits, rng, should_stop)
                if repaired is not None:
                    point = repaired
                    step = self.correction(point, digits)
            if step is None:
                return None
            point = _centred(point + step * p**digits, p ** (digits + 1))
        read = reconstruct(self.brent, point, p**top)
        return read if read is not None and is_exact(read) else None

    def _reduce(self, point: NDArray[np.int64], digits: int) -> tuple[NDArray, NDArray]:
        """The step in the order of the columns, and by how much every equation misses."""
        if isinstance(self.elimination, Elimination):
            return self.elimination.reduce((self.brent.residual(point) >> digits & 1).astype(bool))
        return self.elimination.reduce(self.brent.residual_mod(point, 3 ** (digits + 1)) // 3**digits)

    def _repair(
        self, point: NDArray[np.int64], digits: int, rng: np.random.Generator, should_stop: Callable[[], bool]
    ) -> NDArray[np.int64] | None:
        """A point that is as right as ``point`` and differs in the last digit, so that the next step has a solution.

        For the second step it is a guess that takes the equations for linear.
        """
        p, count = self.brent.prime, _DIRECTIONS
        scale = p ** (digits - 1)
        miss = self._reduce(point, digits)[1].astype(np.int64)
        ways: list[NDArray[np.int64]] = []
        changes: list[NDArray[np.int64]] = []
        equations, unknowns = self.elimination.shape
        most = min(unknowns - self.elimination.rank + 8, max(_DIRECTIONS, _WORK * 64 // (equations * unknowns)))
        while len(ways) < most and not should_stop():
            for _ in range(min(count, most) - len(ways)):
                if should_stop():
                    return None
                ways.append(self._homogeneous(rng))
                there = _centred(point + ways[-1] * scale, p**digits)
                changes.append((self._reduce(there, digits)[1] - miss) % p)
            weights = _combination(np.array(changes), -miss % p, p)
            if weights is not None:
                return _centred(point + weights @ np.array(ways) * scale, p**digits)
            count *= 4
        return None

    def _homogeneous(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random d [x] with J d = 0 modulo p."""
        chosen = rng.random(len(self.order)) < rng.random() / 2
        if isinstance(self.elimination, Elimination):
            return self._in_order(self.elimination.kernel(chosen))
        return self._in_order(self.elimination.kernel(chosen * rng.choice((-1, 1), len(self.order))))

    def _in_order(self, columns: NDArray) -> NDArray[np.int64]:
        values = np.zeros(len(self.order), dtype=np.int64)
        values[self.order] = columns
        return values


def prepare(brent: Brent, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False) -> Hensel | None:
    """Eliminate the Jacobian in a random order of the unknowns, those that are not 0 first; None when told to stop.

    Raises:
        ValueError: it would take too much memory.
    """
    order = rng.permutation(len(brent.start))
    order = order[np.argsort(brent.start[order] == 0, kind="stable")]
    matrix = brent.jacobian(order)
    elimination: Elimination | Elimination3 | None
    if brent.prime == 2:
        elimination = eliminate_packed(matrix[0], len(order), should_stop)
    else:
        elimination = eliminate3(matrix, len(order), should_stop)
    return None if elimination is None else Hensel(brent, order, elimination)


def _combination(vectors: NDArray[np.int64], target: NDArray[np.int64], prime: int) -> NDArray[np.int64] | None:
    """Weights [n] with which the ``vectors`` [n, e] add up to ``target`` [e] modulo 2 or 3, or None."""
    active = vectors.any(axis=0)
    if target[~active].any():
        return None
    if prime == 2:
        solution = eliminate(vectors[:, active].astype(bool)).solve(target[active].astype(bool))
        return None if solution is None else solution.astype(np.int64)
    done = eliminate3(planes(np.ascontiguousarray(vectors[:, active].T)), len(vectors))
    assert done is not None
    return done.solve(target[active])


def reconstruct(brent: Brent, point: NDArray[np.int64], modulus: int) -> Scheme | None:
    """Read every residue modulo a power of p as a small fraction without p below, and clear the denominators.

    Each term is scaled by numbers prime to p so that its coefficients in U and V are integers without a common factor
    prime to p.
    """
    p = brent.prime
    fractions = {residue: _fraction(residue, modulus, p) for residue in set(point.tolist())}
    if any(value is None for value in fractions.values()):
        return None
    values = np.array([fractions[residue] for residue in point.tolist()], dtype=object)
    u, v, w = (factor.T.tolist() for factor in brent.factors(values))
    for term in range(len(u)):
        for factor in (u, v):
            common = gcd(*(e.numerator for e in factor[term]))
            while common and common % p == 0:
                common //= p
            scale = Fraction(lcm(*(e.denominator for e in factor[term])), common or 1)
            factor[term] = [e * scale for e in factor[term]]
            w[term] = [e / scale for e in w[term]]
    common = lcm(*(e.denominator for column in w for e in column))
    scaled = [[[int(e * d) for e in column] for column in f] for f, d in ((u, 1), (v, 1), (w, common))]
    try:
        factors = [np.array(f, dtype=np.int64).T for f in scaled]
    except OverflowError:
        return None
    ring = Ring.Z if common == 1 else Ring.Q
    return Scheme(brent.format, ring, *factors, denominators=(1, 1, common))


def _fraction(residue: int, modulus: int, prime: int) -> Fraction | None:
    """The fraction a/b = residue mod ``modulus`` with |a|, b <= sqrt(modulus / 2), by the Euclidean algorithm."""
    bound = isqrt(modulus // 2)
    previous, current, s, t = modulus, residue % modulus, 0, 1
    while current > bound:
        quotient = previous // current
        previous, current, s, t = current, previous - quotient * current, t, s - quotient * t
    if t == 0 or abs(t) > bound or t % prime == 0:
        return None
    return Fraction(current, t)


def _centred(point: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """The residues in -modulus/2 .. modulus/2, without the upper end."""
    half = modulus // 2
    return (point + half) % modulus - half
