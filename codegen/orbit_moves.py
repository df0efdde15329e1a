"""Elementary changes of bases of a scheme, and a quick estimate of what it costs a fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format

# U [m, k, r], V [k, n, r], W [m, n, r].
Factors = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
# Axis 0, 1, 2 for m, k, n; rows i and j; a coefficient c, 1 or -1: the basis change I + c E_ij of that axis.
Move = tuple[int, int, int, int]


def moves(format: Format) -> list[Move]:
    """All elementary changes of bases."""
    return [
        (axis, i, j, c) for axis, size in enumerate(format) for i, j in permutations(range(size), 2) for c in (1, -1)
    ]


def moved(factors: Factors, move: Move) -> Factors:
    """``catalog.sandwich.sandwich`` with the move's matrix on one axis and identities on the others."""
    axis, i, j, c = move
    U, V, W = factors
    if axis == 0:
        return _add(U, 0, j, i, -c), V, _add(W, 0, i, j, c)
    if axis == 1:
        return _add(U, 1, i, j, c), _add(V, 0, j, i, -c), W
    return U, _add(V, 1, i, j, c), _add(W, 1, j, i, -c)


def _add(factor: NDArray[np.int64], axis: int, target: int, source: int, coefficient: int) -> NDArray[np.int64]:
    """The factor with a multiple of one row, or column, added to another."""
    result = factor.copy()
    if axis == 0:
        result[target] += coefficient * factor[source]
    else:
        result[:, target] += coefficient * factor[:, source]
    return result


def planes(factor: NDArray[np.int64]) -> int:
    """Different combinations of at least two blocks, or of one with a coefficient beyond 1, up to sign."""
    columns = factor.reshape(-1, factor.shape[-1])
    columns = columns[:, np.abs(columns).sum(axis=0) > 1]
    leading = np.take_along_axis(columns, (columns != 0).argmax(axis=0)[None], axis=0)
    columns = columns * np.sign(leading)
    return len({column.tobytes() for column in np.ascontiguousarray(columns.T)})


def publications(W: NDArray[np.int64]) -> int:
    """A lower bound that is near the publications of a good chain.

    In a chain every product follows at most one other and is followed by at most one, so that what running on saves is
    bounded by the best successor of each product, and by the best predecessor of each.
    """
    columns = W.reshape(-1, W.shape[-1]).astype(np.float32)
    support = (columns != 0).astype(np.float32)
    both = support.T @ support
    size = support.sum(axis=0)
    same = _agreement(columns, columns)
    opposite = _agreement(columns, -columns)
    gain = both + np.maximum(same, opposite) - size
    np.fill_diagonal(gain, 0)
    gain = np.maximum(gain, 0)
    return int(size.sum() - min(gain.max(axis=0).sum(), gain.max(axis=1).sum()))


def _agreement(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """[r, r] blocks in which two columns have the same coefficient, not zero."""
    total = np.zeros((left.shape[1], right.shape[1]), np.float32)
    for value in np.unique(left[left != 0]):
        total += (left == value).astype(np.float32).T @ (right == value).astype(np.float32)
    return total


def estimator(weigh: Callable[[int, int, int], float]) -> Callable[[Factors], float]:
    """An estimate of a scheme's cost from its factors.

    Args:
        weigh: cost of so many planes of A, planes of B and publications.
    """
    known: list[dict[bytes, int]] = [{}, {}, {}]

    def estimate(factors: Factors) -> float:
        counts = []
        for memory, factor, count in zip(known, factors, (planes, planes, publications), strict=True):
            key = factor.tobytes()
            if key not in memory:
                memory[key] = count(factor)
            counts.append(memory[key])
        return weigh(*counts)

    return estimate
