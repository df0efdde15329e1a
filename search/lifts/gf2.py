"""Linear systems over F2, bit-packed: eliminate a matrix once, then solve for many right-hand sides.

Letters in shapes: e equations, x unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]


@dataclass(frozen=True)
class Elimination:
    """The Gauss-Jordan elimination of one matrix, in the space of that matrix.

    Attributes:
        shape: e equations, x unknowns.
        rows: [rank] the pivot row of each step.
        columns: [rank] the pivot column of each step; the other unknowns are free.
        matrix: [e, ceil(x / 64)] uint64. In a free column stands the reduced matrix. In a pivot column stands what the
            right-hand side of the pivot row contributes to the reduced right-hand side of every row.
    """

    shape: tuple[int, int]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    matrix: Bits

    @property
    def rank(self) -> int:
        """Rank of the matrix over F2."""
        return len(self.rows)

    def solve(self, rhs: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """The solution whose free unknowns are all zero, [x] bool, or None when there is none.

        Args:
            rhs: [e] bool, the right-hand side.
        """
        solution, defect = self.reduce(rhs)
        return None if defect.any() else solution

    def reduce(self, rhs: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Solve the pivot rows; returns the solution, [x] bool, and by how much each equation misses, [e] bool.

        Args:
            rhs: [e] bool, the right-hand side.
        """
        image = np.zeros(self.shape[1], dtype=bool)
        image[self.columns] = rhs[self.rows]
        reduced = self._times(image)
        solution = np.zeros(self.shape[1], dtype=bool)
        solution[self.columns] = reduced[self.rows]
        defect = reduced ^ rhs
        defect[self.rows] = False
        return solution, defect

    def kernel(self, free: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The solution of the homogeneous system with given free unknowns, [x] bool.

        Args:
            free: [x] bool, the values of the free unknowns; those of the others are not looked at.
        """
        solution = free.copy()
        solution[self.columns] = False
        solution[self.columns] = self._times(solution)[self.rows]
        return solution

    def kernel_basis(self) -> NDArray[np.bool_]:
        """The solutions of the homogeneous system with one free unknown set, [x - rank, x] bool."""
        free = np.setdiff1d(np.arange(self.shape[1]), self.columns)
        basis = np.zeros((len(free), self.shape[1]), dtype=bool)
        for vector, unknown in zip(basis, free.tolist(), strict=True):
            vector[unknown] = True
            vector[self.columns] = self.matrix[self.rows, unknown >> 6] >> np.uint64(unknown & 63) & np.uint64(1)
        return basis

    def _times(self, vector: NDArray[np.bool_]) -> NDArray[np.bool_]:
        from search.lifts.gf2_kernels import parities

        out = np.empty(self.shape[0], dtype=np.uint8)
        parities(self.matrix, pack(vector[None])[0], out)
        return out.astype(bool)


def eliminate(columns: NDArray[np.bool_]) -> Elimination:
    """Eliminate a matrix given by its columns; earlier columns become pivots before later ones.

    Args:
        columns: [x, e] bool, row j is column j of the matrix.
    """
    done = eliminate_packed(pack(np.ascontiguousarray(columns.T)), len(columns))
    assert done is not None
    return done


def eliminate_packed(
    matrix: Bits, unknowns: int, should_stop: Callable[[], bool] = lambda: False
) -> Elimination | None:
    """Eliminate a packed matrix in place; earlier columns become pivots before later ones.

    Args:
        matrix: [e, ceil(x / 64)] uint64, unknown j in bit j % 64 of word j // 64; overwritten.
        unknowns: x.
        should_stop: asked after every 64 unknowns.

    Returns:
        The elimination, or None when it was told to stop.
    """
    from search.lifts.gf2_kernels import apply_moves, eliminate_strip

    equations, words = matrix.shape
    used = np.zeros(equations, dtype=np.uint8)
    sums = np.empty((2048, words), dtype=np.uint64)
    pivots = np.empty(64, dtype=np.int64)
    rows: list[int] = []
    columns: list[int] = []
    for word in range(words):
        if should_stop():
            return None
        strip = matrix[:, word].copy()
        moves = np.zeros(equations, dtype=np.uint64)
        eliminate_strip(strip, used, moves, pivots)
        apply_moves(matrix, strip, moves, pivots, word, sums)
        found = np.flatnonzero(pivots >= 0)
        rows += pivots[found].tolist()
        columns += (64 * word + found).tolist()
    return Elimination((equations, unknowns), np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), matrix)


def pack(bits: NDArray[np.bool_]) -> Bits:
    """[n, b] bool to [n, ceil(b / 64)] uint64, bit i of the row in word i // 64."""
    count, length = bits.shape
    octets = np.zeros((count, (length + 63) // 64 * 8), dtype=np.uint8)
    octets[:, : (length + 7) // 8] = np.packbits(bits, axis=1, bitorder="little")
    return octets.view("<u8").astype(np.uint64)
