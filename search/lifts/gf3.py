"""Linear systems over F3 on two bit planes: eliminate a matrix once, then solve for many right-hand sides.

The counterpart of ``search.lifts.gf2``. Letters in shapes: e equations, x unknowns, w = ceil(x / 64) words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.lifts.gf2 import Bits, pack

Residues = NDArray[np.int64]


@dataclass(frozen=True)
class Elimination3:
    """The Gauss-Jordan elimination of one matrix over F3, in the space of that matrix.

    Attributes:
        shape: e equations, x unknowns.
        rows: [rank] the pivot row of each step.
        columns: [rank] the pivot column of each step; the other unknowns are free.
        planes: [2, e, w] uint64, where an entry is not zero and where it is 2. In a free column stands the reduced
            matrix. In a pivot column stands what the right-hand side of the pivot row contributes to the reduced
            right-hand side of every row.
    """

    shape: tuple[int, int]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    planes: Bits

    @property
    def rank(self) -> int:
        """Rank of the matrix over F3."""
        return len(self.rows)

    def solve(self, rhs: Residues) -> Residues | None:
        """The solution whose free unknowns are all zero, [x] of -1, 0 and 1, or None when there is none.

        Args:
            rhs: [e] integers, the right-hand side modulo 3.
        """
        solution, defect = self.reduce(rhs)
        return None if defect.any() else solution

    def reduce(self, rhs: Residues) -> tuple[Residues, Residues]:
        """Solve the pivot rows; returns the solution, [x] of -1, 0 and 1, and by how much each equation misses, [e].

        Args:
            rhs: [e] integers, the right-hand side modulo 3.
        """
        image = np.zeros(self.shape[1], dtype=np.int64)
        image[self.columns] = rhs[self.rows]
        reduced = self._times(image)
        solution = np.zeros(self.shape[1], dtype=np.int64)
        solution[self.columns] = reduced[self.rows]
        defect = (reduced + rhs) % 3
        defect[self.rows] = 0
        return centred(solution), defect

    def kernel(self, free: Residues) -> Residues:
        """The solution of the homogeneous system with given free unknowns, [x] of -1, 0 and 1.

        Args:
            free: [x] integers, the values of the free unknowns; those of the others are not looked at.
        """
        solution = free.copy()
        solution[self.columns] = 0
        solution[self.columns] = -self._times(solution)[self.rows]
        return centred(solution)

    def _times(self, vector: Residues) -> Residues:
        from search.lifts.gf3_kernels import products

        out = np.empty(self.shape[0], dtype=np.int8)
        products(*self.planes, np.concatenate(planes(vector[None]), axis=0), out)
        return out.astype(np.int64)


def eliminate3(matrix: Bits, unknowns: int, should_stop: Callable[[], bool] = lambda: False) -> Elimination3 | None:
    """Eliminate a packed matrix over F3 in place; earlier columns become pivots before later ones.

    Args:
        matrix: [2, e, w] uint64 as from ``planes``; overwritten.
        unknowns: x.
        should_stop: asked after every 64 unknowns.

    Returns:
        The elimination, or None when it was told to stop.
    """
    from search.lifts.gf3_kernels import apply_moves, eliminate_strip

    _, equations, words = matrix.shape
    used = np.zeros(equations, dtype=np.uint8)
    sums, signs = np.empty((2, 16 * 81, words), dtype=np.uint64)
    pivots = np.empty(64, dtype=np.int64)
    rows: list[int] = []
    columns: list[int] = []
    for word in range(words):
        if should_stop():
            return None
        strip = matrix[:, :, word].copy()
        moves = np.zeros((2, equations), dtype=np.uint64)
        eliminate_strip(strip, used, moves, pivots)
        apply_moves(*matrix, strip, moves, pivots, word, sums, signs)
        found = np.flatnonzero(pivots >= 0)
        rows += pivots[found].tolist()
        columns += (64 * word + found).tolist()
    return Elimination3((equations, unknowns), np.array(rows, np.int64), np.array(columns, np.int64), matrix)


def planes(numbers: Residues) -> Bits:
    """[n, x] integers modulo 3 to [2, n, w] uint64, where they are not zero and where they are 2."""
    return np.stack([pack(numbers % 3 != 0), pack(numbers % 3 == 2)])


def centred(numbers: Residues) -> Residues:
    """Residues modulo 3 in -1, 0 and 1."""
    return (numbers + 1) % 3 - 1
