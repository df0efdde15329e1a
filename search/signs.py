"""Signs that make a scheme over F2 exact over Z: the lifts with coefficients in {-1, 0, 1}.

Write a coefficient as (-1)^s. Then s -> (-1)^s is 1 + 2s modulo 4, so the Brent equations modulo 4 are a linear system
over F2 in the s of the non-zero coefficients. Without a solution there is no ternary lift. With one, equations of at
most two products hold over Z at once, and a random walk among the solutions looks for one where all the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Ring, Scheme
from catalog.verify import is_exact
from search.brent import LIMIT, Brent
from search.gf2 import Elimination, eliminate_packed

# Trials of one walk: some for each dimension, most walks that succeed need far fewer; but only so many elementary
# steps in all, and between two questions to should_stop.
_TRIALS = 40
_STEPS, _BLOCK = 1 << 28, 1 << 25


@dataclass(frozen=True)
class Signs:
    """All solutions modulo 4. Letters in shapes: s signs, p products, e equations that have a product, d dimension.

    Attributes:
        brent: the equations.
        support: [s] the unknowns that are not zero.
        products: [p, 3] int32, the three signs that a product consists of.
        equations: [p] int32, the equation that a product belongs to.
        target: [e] int32, what the products of an equation should add up to.
        solution: [s] int8 of -1 and 1, one solution.
        moves: [d + 1, s] int8 of -1 and 1; products of rows lead to all others. The last row changes nothing.
    """

    brent: Brent
    support: NDArray[np.int64]
    products: NDArray[np.int32]
    equations: NDArray[np.int32]
    target: NDArray[np.int32]
    solution: NDArray[np.int8]
    moves: NDArray[np.int8]

    def walk(self, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False) -> Scheme | None:
        """A ternary scheme over Z by a random walk from a random solution, or None.

        Args:
            rng: of the walk.
            should_stop: asked now and then; when true the answer is None.
        """
        from search.sign_kernels import walk_signs

        signs = self.solution.copy()
        for move in self.moves[rng.random(len(self.moves)) < 0.5]:
            signs *= move
        values = signs[self.products].prod(axis=1)
        sums = np.bincount(self.equations, values, len(self.target)).astype(np.int32)
        dimension = len(self.moves) - 1
        trials = min(_TRIALS * (dimension + 50), _STEPS // max(1, len(self.products)))
        choices = rng.integers(0, dimension + 1, (trials, 2), dtype=np.int32)
        choices[rng.random(trials) < 0.5, 1] = dimension
        block = max(1, _BLOCK // max(1, len(self.products)))
        for begin in range(0, trials, block):
            if should_stop():
                return None
            system = self.target, self.products, self.equations, self.moves
            failing = walk_signs(signs, sums, *system, choices[begin : begin + block], np.empty_like(signs))
            if failing == 0:
                point = np.zeros_like(self.brent.start)
                point[self.support] = signs
                scheme = Scheme(self.brent.format, Ring.Z, *self.brent.factors(point))
                return scheme if is_exact(scheme) else None
        return None


def signs_mod4(brent: Brent, rng: np.random.Generator, should_stop: Callable[[], bool] = lambda: False) -> Signs | None:
    """Solve for the signs modulo 4; None without a solution, or when it takes too much memory or is told to stop."""
    sizes = np.prod([factor.sum(axis=0) for factor in brent.factors(brent.start)], axis=0)
    if 64 * int(sizes.sum()) > LIMIT:
        return None
    support = rng.permutation(np.flatnonzero(brent.start))
    products, where = _products(brent, support)
    active, equations = np.unique(where, return_inverse=True)
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
    return Signs(
        brent,
        support,
        products,
        equations.astype(np.int32),
        target.astype(np.int32),
        _minus(solution),
        _moves(elimination),
    )


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


def _moves(elimination: Elimination) -> NDArray[np.int8]:
    basis = elimination.kernel_basis()
    return np.concatenate([_minus(basis), np.ones((1, basis.shape[1]), dtype=np.int8)])


def _minus(bits: NDArray[np.bool_]) -> NDArray[np.int8]:
    """(-1)^bits."""
    return np.where(bits, -1, 1).astype(np.int8)
