"""Hensel lifting of a scheme over F2 to coefficients of any size.

The Brent equations F(x) = T are solved modulo 2, 4, 8, ... (Hensel's lemma; used for schemes by Kauers and
Moosbauer, arXiv 2212.01175): given F(x) = T mod 2^k, a correction d in {0, 1} with J d = (T - F(x)) / 2^k mod 2
makes x + 2^k d right modulo 2^(k+1). The Jacobian J matters only modulo 2, so it is eliminated once.

The unknowns outnumber the equations' rank, and the free ones decide whether the limit has small coefficients.
Unknowns that are 1 over F2 become pivots first, so that free unknowns stay 0 wherever they can; those that stay 1
get random signs. Where a step has no solution, the step before is taken again with other free unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Ring, Scheme
from catalog.verify import is_exact
from search.brent import Brent
from search.gf2 import Elimination, eliminate_packed

# Other choices of free unknowns that are tried before a step is given up.
_RETRIES = 24


@dataclass(frozen=True)
class Hensel:
    """The equations with their Jacobian eliminated; column j of it belongs to unknown ``order[j]``."""

    brent: Brent
    order: NDArray[np.int64]
    elimination: Elimination

    def correction(self, point: NDArray[np.int64], bits: int) -> NDArray[np.int64] | None:
        """The step d [x] in {0, 1} that makes ``point + 2**bits * d`` right modulo 2**(bits+1), or None."""
        solution = self.elimination.solve((self.brent.residual(point) >> bits & 1).astype(bool))
        return None if solution is None else self._in_order(solution)

    def lifts_mod4(self) -> bool:
        """Whether the first step has a solution; if not, there is no lift to Z."""
        return self.correction(self.brent.start, 1) is not None

    def climb(
        self, rng: np.random.Generator, max_bits: int, should_stop: Callable[[], bool] = lambda: False
    ) -> Scheme | None:
        """A scheme over Z met on the way up from random signs, or one over Q read from the last residues, or None.

        Args:
            rng: of the signs and the free unknowns.
            max_bits: coefficients are known modulo 2**max_bits at most.
            should_stop: asked before every step.
        """
        point = self.brent.start * np.where(rng.random(len(self.order)) < 0.5, 1, -1)
        for bits in range(1, max_bits):
            if should_stop():
                return None
            if not self.brent.residual(point).any():
                scheme = Scheme(self.brent.format, Ring.Z, *self.brent.factors(point))
                if is_exact(scheme):
                    return scheme
            step = self.correction(point, bits)
            tries = 0 if bits == 1 else _RETRIES
            while step is None and tries and not should_stop():
                other = _centred(point + (self._homogeneous(rng) << bits - 1), bits)
                step, tries = self.correction(other, bits), tries - 1
                point = point if step is None else other
            if step is None:
                return None
            point = _centred(point + (step << bits), bits + 1)
        read = reconstruct(self.brent, point, max_bits)
        return read if read is not None and is_exact(read) else None

    def _homogeneous(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random d [x] with J d = 0 modulo 2."""
        return self._in_order(self.elimination.kernel(rng.random(len(self.order)) < rng.random() / 2))

    def _in_order(self, columns: NDArray[np.bool_]) -> NDArray[np.int64]:
        values = np.zeros(len(self.order), dtype=np.int64)
        values[self.order] = columns
        return values


def prepare(brent: Brent, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False) -> Hensel | None:
    """Eliminate the Jacobian in a random order of the unknowns, those that are 1 first; None when told to stop.

    Raises:
        ValueError: it would take too much memory.
    """
    order = rng.permutation(len(brent.start))
    order = order[np.argsort(-brent.start[order], kind="stable")]
    elimination = eliminate_packed(brent.jacobian(order), len(order), should_stop)
    return None if elimination is None else Hensel(brent, order, elimination)


def reconstruct(brent: Brent, point: NDArray[np.int64], bits: int) -> Scheme | None:
    """Read every residue modulo 2**bits as a small fraction with an odd denominator, and clear the denominators.

    Each term is scaled by odd numbers so that its coefficients in U and V are integers without a common odd factor.
    """
    fractions = {residue: _fraction(residue, 1 << bits) for residue in set(point.tolist())}
    if any(value is None for value in fractions.values()):
        return None
    values = np.array([fractions[residue] for residue in point.tolist()], dtype=object)
    u, v, w = (factor.T.tolist() for factor in brent.factors(values))
    for term in range(len(u)):
        for factor in (u, v):
            common = gcd(*(e.numerator for e in factor[term]))
            odd = common // (common & -common) if common else 1
            scale = Fraction(lcm(*(e.denominator for e in factor[term])), odd)
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


def _centred(point: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """The residues modulo 2**bits in -2**(bits-1) .. 2**(bits-1) - 1."""
    half = 1 << bits - 1
    return (point + half) % (2 * half) - half
