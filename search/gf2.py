"""Linear systems over F2, bit-packed: eliminate a matrix once, then solve for many right-hand sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_ONE = np.uint64(1)


@dataclass(frozen=True)
class Elimination:
    """The Gauss-Jordan elimination of one matrix [e, x], kept so that its row operations can be replayed.

    Attributes:
        shape: e equations, x unknowns.
        rows: [rank] the pivot row of each step.
        columns: [rank] the pivot column of each step; the other unknowns are free.
        operations: [rank, ceil(e / 64)] uint64. Bit i of step p is set when row i had the pivot row added to it.
    """

    shape: tuple[int, int]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    operations: Bits

    @property
    def rank(self) -> int:
        """Rank of the matrix over F2."""
        return len(self.rows)

    def solve(self, rhs: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """The solution whose free unknowns are all zero, [x] bool, or None when there is none.

        Args:
            rhs: [e] bool, the right-hand side.
        """
        bits = _pack(rhs[None, :])[0]
        words, offsets = self.rows >> 6, (self.rows & 63).astype(np.uint64)
        for word, offset, operation in zip(words.tolist(), offsets, self.operations, strict=True):
            if bits[word] >> offset & _ONE:
                bits ^= operation
        pivots = (bits[words] >> offsets & _ONE).astype(bool)
        if int(np.bitwise_count(bits).sum()) != int(pivots.sum()):
            return None
        solution = np.zeros(self.shape[1], dtype=bool)
        solution[self.columns[pivots]] = True
        return solution


def eliminate(columns: NDArray[np.bool_]) -> Elimination:
    """Eliminate a matrix given by its columns; earlier columns become pivots before later ones.

    Args:
        columns: [x, e] bool, row j is column j of the matrix.
    """
    unknowns, equations = columns.shape
    # packed[w, i] holds unknowns 64w .. 64w+63 of equation i, so that one column is one contiguous stretch.
    packed = np.ascontiguousarray(_pack(np.ascontiguousarray(columns.T)).T)
    used = np.zeros(equations, dtype=bool)
    pivot_rows, pivot_columns, operations = [], [], []
    for column in range(unknowns):
        word, offset = column >> 6, np.uint64(column & 63)
        column_bits = (packed[word] >> offset & _ONE).astype(bool)
        candidates = column_bits & ~used
        row = int(candidates.argmax())
        if not candidates[row]:
            continue
        used[row] = True
        column_bits[row] = False
        # A pivot row is zero in every earlier column, hence in all earlier words.
        packed[word:] ^= np.where(column_bits, packed[word:, row, None], np.uint64(0))
        pivot_rows.append(row)
        pivot_columns.append(column)
        operations.append(_pack(column_bits[None, :])[0])
        if len(pivot_rows) == equations:
            break
    return Elimination(
        (equations, unknowns),
        np.array(pivot_rows, dtype=np.int64),
        np.array(pivot_columns, dtype=np.int64),
        np.array(operations, dtype=np.uint64).reshape(len(operations), (equations + 63) // 64),
    )


def _pack(bits: NDArray[np.bool_]) -> Bits:
    """[n, b] bool to [n, ceil(b / 64)] uint64, bit i of the row in word i // 64."""
    count, length = bits.shape
    octets = np.zeros((count, (length + 63) // 64 * 8), dtype=np.uint8)
    octets[:, : (length + 7) // 8] = np.packbits(bits, axis=1, bitorder="little")
    return octets.view("<u8").astype(np.uint64)
