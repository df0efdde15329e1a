"""Signs that make a scheme over F2 exact over Z: the lifts with coefficients in {-1, 0, 1}.

Write a coefficient as (-1)^s. Then s -> (-1)^s is 1 + 2s modulo 4, so the Brent equations modulo 4 are a linear system
over F2 in the s of the non-zero coefficients. Without a solution there is no ternary lift. With one, equations of at
most two products hold over Z at once. In every other one the products have to cancel in pairs (where they should add
up to 1, a -1 takes part), and that two products are opposite is again linear. So the solutions are restricted pair by
pair: a descent takes what is forced, else an equation with few different products left, until nothing is left open
or an equation fails. Failing equations are decided earlier in the next descent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Ring, Scheme
from catalog.verify import is_exact
from search.lifts.brent import LIMIT, Brent
from search.lifts.gf2 import Bits, eliminate_packed, pack

# Words looked at between two questions to should_stop, a tenth of a second.
_BLOCK = 1 << 25
_HIGHEST = np.uint64(1 << 63)


@dataclass(frozen=True)
class Signs:
    """All solutions modulo 4. Letters in shapes: s signs, p products, e equations, d free signs, w = ceil(d / 64).

    Attributes:
        brent: the equations.
        support: [s] the unknowns that are not zero.
        products: [p, 3] int32, the three signs that a product consists of, those of an equation next to each other.
        starts: [e + 1] int64, where the products of an equation begin.
        odd: [e] int64, what the products of an equation should add up to, 0 or 1.
        solution: [s] bool, one solution; true for minus.
        basis: [d, s] bool, the signs that change with each free one.
    """

    brent: Brent
    support: NDArray[np.int64]
    products: NDArray[np.int32]
    starts: NDArray[np.int64]
    odd: NDArray[np.int64]
    solution: NDArray[np.bool_]
    basis: NDArray[np.bool_]

    def descents(
        self, rng: np.random.Generator, count: int, should_stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Scheme]:
        """The ternary schemes over Z that several descents end at.

        They end early when an equation fails without a choice: then no signs are exact.

        Args:
            rng: of all choices.
            count: descents.
            should_stop: asked every tenth of a second or so.
        """
        from search.lifts.sign_kernels import OPEN, SOLVED, descend

        start = self._forms(rng)
        weights = np.zeros(len(self.odd), dtype=np.int64)
        values, members = np.empty((2, int(np.diff(self.starts).max(initial=0)) + 1), dtype=np.uint64)
        random = rng.integers(1, 1 << 63, 1, dtype=np.uint64)
        rounds = max(1, _BLOCK // (start.size + 8 * len(self.products)))
        for _ in range(count):
            forms, done, decisions = start.copy(), np.zeros(len(self.odd), np.uint8), np.zeros(1, np.int64)
            end = OPEN
            while end == OPEN and not should_stop():
                system = forms, self.products, self.starts, self.odd, weights, done
                end = descend(*system, values, members.view(np.int64), random, decisions, rounds)
            if end == SOLVED:
                scheme = self._scheme(forms, rng)
                if is_exact(scheme):
                    yield scheme
            elif end == OPEN or decisions[0] == 0:
                return
            else:
                weights[end] += 1

    def _forms(self, rng: np.random.Generator) -> Bits:
        """Every sign as a sum of free signs, [s, w + 1] uint64 as ``search.lifts.sign_kernels`` takes them."""
        hashes = rng.integers(1, 1 << 63, len(self.basis), dtype=np.uint64)
        last = np.where(self.solution, _HIGHEST, np.uint64(0))
        for value, signs in zip(hashes, self.basis, strict=True):
            last[signs] ^= value
        return np.concatenate([pack(np.ascontiguousarray(self.basis.T)), last[:, None]], axis=1)

    def _scheme(self, forms: Bits, rng: np.random.Generator) -> Scheme:
        """The scheme with the signs ``forms``, where those that are still free are chosen at random."""
        free = pack(rng.random((1, len(self.basis))) < 0.5)
        minus = np.bitwise_count(forms[:, :-1] & free).sum(axis=1) + (forms[:, -1] >> np.uint64(63))
        point = np.zeros_like(self.brent.start)
        point[self.support] = np.where(minus % 2 == 1, -1, 1)
        return Scheme(self.brent.format, Ring.Z, *self.brent.factors(point))


def signs_mod4(brent: Brent, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False) -> Signs | None:
    """Solve for the signs modulo 4; None without a solution, or when it takes too much memory or is told to stop."""
    sizes = np.prod([factor.sum(axis=0) for factor in brent.factors(brent.start)], axis=0)
    if 64 * int(sizes.sum()) > LIMIT:
        return None
    support = rng.permutation(np.flatnonzero(brent.start))
    products, where = _products(brent, support)
    by_equation = np.argsort(where, kind="stable")
    products, where = products[by_equation], where[by_equation]
    active, begins, equations = np.unique(where, return_index=True, return_inverse=True)
    words = (len(support) + 63) // 64
    if 8 * words * (len(active) + 2048) + 64 * len(products) + len(support) ** 2 > LIMIT:
        return None
    matrix = np.zeros((len(active), words), dtype=np.uint64)
    for column in products.T:
        bit = np.uint64(1) << (column & 63).astype(np.uint64)
        np.bitwise_xor.at(matrix, (equations, column >> 6), bit)
    target = brent.target[active]
    elimination = eliminate_packed(matrix, len(support), should_stop)
    if elimination is None:
        return None
    solution = elimination.solve(((target - np.bincount(equations)) >> 1 & 1).astype(bool))
    if solution is None:
        return None
    starts = np.append(begins, len(products)).astype(np.int64)
    return Signs(brent, support, products, starts, target, solution, elimination.kernel_basis())


def _products(brent: Brent, support: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The products of three coefficients that are not zero, [p, 3] places in ``support``, and their equations, [p]."""
    place = np.zeros_like(brent.start)
    place[support] = np.arange(len(support))
    factors, places = brent.factors(brent.start), brent.factors(place)
    _, b, c = brent.rows
    products, where = [], []
    for term in range(brent.rank):
        rows = np.ix_(*(np.flatnonzero(factor[:, term]) for factor in factors))
        where.append(((rows[0] * b + rows[1]) * c + rows[2]).ravel())
        signs = np.broadcast_arrays(*(places[mode][rows[mode], term] for mode in range(3)))
        products.append(np.stack([sign.ravel() for sign in signs], axis=1).astype(np.int32))
    return np.concatenate(products), np.concatenate(where)
