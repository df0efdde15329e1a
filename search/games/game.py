"""TensorGame over F2 (Fawzi et al., Nature 610, 2022): take rank-one tensors away until nothing is left.

The position is a residual tensor of shape [d0, d1, d2] = [mk, kn, mn]; a move is a rank-one tensor u (x) v (x) w,
three bit masks, which is subtracted. Moves commute, so the moves of a finished game are the terms of a scheme in
any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme

Tensor = NDArray[np.bool_]
Moves = NDArray[np.int64]  # [t, 3] bit masks u, v, w
Basis = tuple[Tensor, Tensor, Tensor]  # three invertible matrices [d, d]

# Factor sizes up to this are affordable: the bound looks at all 2**d combinations of slices.
MAX_FACTOR = 12


def require_playable(format: Format) -> Format:
    """Return the format itself.

    Raises:
        ValueError: a factor has more entries than the slice-rank bound can afford.
    """
    format = Format(*format).checked()
    largest = max(factor_sizes(format))
    if largest > MAX_FACTOR:
        raise ValueError(
            f"format {format} has a factor of {largest} entries and the tree search affords {MAX_FACTOR}; "
            "use the method flips for it"
        )
    return format


def factor_sizes(format: Format) -> tuple[int, int, int]:
    """Entries of A, B and C: mk, kn, mn."""
    m, k, n = format
    return m * k, k * n, m * n


def opening(format: Format) -> Tensor:
    """The matrix multiplication tensor of a format, [mk, kn, mn] bool."""
    return tensor_of(moves_of(classical(format, Ring.F2)), factor_sizes(format))


def tensor_of(moves: Moves, sizes: tuple[int, int, int]) -> Tensor:
    """The sum over F2 of the rank-one tensors of moves, [d0, d1, d2] bool."""
    u, v, w = (_bits(moves[:, mode], size).astype(np.int64) for mode, size in enumerate(sizes))
    return (np.einsum("ta,tb,tc->abc", u, v, w) & 1).astype(bool)


def moves_of(scheme: Scheme) -> Moves:
    """The terms of a scheme over F2 as moves."""
    weights = [1 << np.arange(len(factor)) for factor in scheme.factors]
    return np.stack([w @ factor for w, factor in zip(weights, scheme.factors, strict=True)], axis=1)


def scheme_of(format: Format, moves: Moves) -> Scheme:
    """The scheme over F2 whose terms are the moves of a finished game."""
    factors = (_bits(moves[:, mode], size).T for mode, size in enumerate(factor_sizes(format)))
    return Scheme(format, Ring.F2, *(factor.astype(np.int64) for factor in factors))


def random_basis(sizes: tuple[int, int, int], rng: np.random.Generator) -> Basis:
    """An invertible matrix over F2 for each of the three factor spaces."""
    a, b, c = (_random_invertible(size, rng) for size in sizes)
    return a, b, c


def change_basis(moves: Moves, basis: Basis) -> Moves:
    """Moves whose factor vectors are multiplied by the matrices of a basis."""
    columns = []
    for mode, matrix in enumerate(basis):
        moved = _bits(moves[:, mode], len(matrix)).astype(np.int64) @ matrix.T & 1
        columns.append(moved @ (1 << np.arange(len(matrix))))
    return np.stack(columns, axis=1)


def inverse_basis(basis: Basis) -> Basis:
    """The basis that undoes a basis."""
    a, b, c = (inverse(matrix) for matrix in basis)
    return a, b, c


def _bits(masks: NDArray[np.int64], size: int) -> Tensor:
    return (masks[:, None] >> np.arange(size) & 1).astype(bool)


def _random_invertible(size: int, rng: np.random.Generator) -> Tensor:
    """A product of a random permuted unit lower and unit upper triangular matrix; always invertible."""
    lower = np.tril(rng.integers(0, 2, (size, size)), -1) + np.eye(size, dtype=np.int64)
    upper = np.triu(rng.integers(0, 2, (size, size)), 1) + np.eye(size, dtype=np.int64)
    return (lower[rng.permutation(size)] @ upper & 1).astype(bool)


def inverse(matrix: Tensor) -> Tensor:
    """The inverse over F2 of an invertible matrix [d, d] bool."""
    size = len(matrix)
    rows = np.concatenate([matrix, np.eye(size, dtype=bool)], axis=1)
    for column in range(size):
        pivot = column + int(rows[column:, column].argmax())
        rows[[column, pivot]] = rows[[pivot, column]]
        others = rows[:, column].copy()
        others[column] = False
        rows[others] ^= rows[column]
    return rows[:, size:]
