"""The basis-optimised slice-rank bound: a constructive upper bound on the rank of a tensor over F2.

Cut the tensor into slices along one of its three directions. Any basis of the space of combinations of slices gives
a decomposition whose size is the sum of the ranks of the d chosen combinations; the best basis is found greedily
among all 2**d - 1 combinations. The bound is the best of the three directions, and it does not change with bases.
"""

from __future__ import annotations

import numpy as np

from search.games.game import Moves, Tensor, inverse
from search.games.slice_kernels import tensor_bounds


def pack(tensor: Tensor) -> np.ndarray:
    """The three slicings of a tensor as the kernels want them, [d0*d1 + d1*d2 + d2*d0] uint16.

    Args:
        tensor: [d0, d1, d2] bool.
    """
    turned = (tensor, tensor.transpose(1, 2, 0), tensor.transpose(2, 0, 1))
    return np.concatenate([(t @ (1 << np.arange(t.shape[2]))).ravel() for t in turned]).astype(np.uint16)


def bound(tensor: Tensor) -> int:
    """An upper bound on the rank of a tensor over F2, reached by ``complete``.

    Args:
        tensor: [d0, d1, d2] bool.

    Raises:
        ValueError: a size is above 16.
    """
    return int(_bounds(tensor)[0].min())


def complete(tensor: Tensor) -> Moves:
    """Rank-one terms, as many as ``bound`` says, that sum to a tensor over F2.

    Args:
        tensor: [d0, d1, d2] bool.

    Returns:
        [bound, 3] int64, bit masks u, v, w of the terms.

    Raises:
        ValueError: a size is above 16.
    """
    bounds, bases = _bounds(tensor)
    mode = int(bounds.argmin())
    turned = np.moveaxis(tensor, mode, 0)
    count = tensor.shape[mode]
    combinations = (bases[mode, :count, None] >> np.arange(count) & 1).astype(bool)
    terms = []
    # tensor = sum_i u_i (x) M_i for the combinations M_i and the basis u_i dual to theirs.
    for mask, dual in zip(combinations, _dual(combinations), strict=True):
        for left, right in _matrix_terms(np.logical_xor.reduce(turned[mask], axis=0)):
            term = [left, right]
            term.insert(mode, _mask(dual))
            terms.append(term)
    return np.array(terms, dtype=np.int64).reshape(-1, 3)


def _bounds(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    largest = max(tensor.shape)
    if largest > 16:
        raise ValueError(f"a tensor of shape {tensor.shape} is too large for the slice-rank bound; sizes end at 16")
    bounds, bases = np.zeros(3, dtype=np.int64), np.zeros((3, largest), dtype=np.int64)
    scratch = np.zeros((largest, 1 << largest), dtype=np.uint16)
    ranks = np.zeros((3, 1 << largest), dtype=np.uint16)
    tensor_bounds(pack(tensor), np.array(tensor.shape, dtype=np.int64), scratch, ranks, bases, bounds)
    return bounds, bases


def _dual(basis: Tensor) -> Tensor:
    """The inverse transpose: row i pairs to one with row i of ``basis`` and to zero with the others."""
    return inverse(basis).T


def _matrix_terms(matrix: Tensor) -> list[tuple[int, int]]:
    """Row and column masks of rank-many rank-one matrices that sum to a matrix over F2."""
    rest, terms = matrix.copy(), []
    while rest.any():
        row, column = (int(index) for index in np.argwhere(rest)[0])
        left, right = rest[:, column].copy(), rest[row].copy()
        terms.append((_mask(left), _mask(right)))
        rest ^= left[:, None] & right[None, :]
    return terms


def _mask(bits: Tensor) -> int:
    return int(bits @ (1 << np.arange(len(bits))))
