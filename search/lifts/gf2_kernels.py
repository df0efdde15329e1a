"""Compiled inner loops of ``search.lifts.gf2``. Letters in shapes: e equations, x unknowns, w = ceil(x / 64) words.

The elimination works on 64 unknowns at a time, the way the method of the four Russians does (Albrecht, Bard, Hart,
ACM TOMS 37, 2010): the strip of those unknowns is eliminated alone, and what was done to every row is kept as one
word. All other columns follow by looking up eight sums of pivot rows for each row.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel


@kernel
def eliminate_strip(strip, used, moves, pivots):
    """Gauss-Jordan elimination of 64 unknowns, earlier ones first.

    Args:
        strip: [e] uint64. Bit j of a row is its coefficient of unknown j; reduced in place.
        used: [e] uint8. Rows that are pivots already; the new ones are marked.
        moves: [e] uint64, all zero. Bit j is set when the new row holds the pivot row of unknown j as it was before.
            A row that becomes a pivot here starts from nothing, every other row from itself.
        pivots: [64] int64. Receives the pivot row of every unknown, -1 for a free one.
    """
    one = np.uint64(1)
    for unknown in range(64):
        bit = one << np.uint64(unknown)
        row = -1
        for i in range(strip.size):
            if used[i] == 0 and (strip[i] & bit) != 0:
                row = i
                break
        pivots[unknown] = row
        if row < 0:
            continue
        used[row] = 1
        moves[row] ^= bit
        value, move = strip[row], moves[row]
        strip[row] = 0
        moves[row] = 0
        for i in range(strip.size):
            if (strip[i] & bit) != 0:
                strip[i] ^= value
                moves[i] ^= move
        strip[row] = value
        moves[row] = move


@kernel
def apply_moves(matrix, strip, moves, pivots, word, sums):
    """Carry the elimination of one strip over to the other columns.

    The column of a pivot has become a unit vector, which need not be kept: its place receives ``moves`` instead.

    Args:
        matrix: [e, w] uint64, changed in place.
        strip: [e] uint64, from ``eliminate_strip``.
        moves: [e] uint64, from ``eliminate_strip``.
        pivots: [64] int64, from ``eliminate_strip``.
        word: which 64 unknowns the strip holds.
        sums: [2048, w] uint64, overwritten. Row 256 * b + s holds the sum of the pivot rows in the bits s of byte b.
    """
    one, low = np.uint64(1), np.uint64(255)
    words = matrix.shape[1]
    kept = np.uint64(0)
    for unknown in range(64):
        base = unknown // 8 * 256
        half = 1 << (unknown % 8)
        if half == 1:
            sums[base] = 0
        row = pivots[unknown]
        if row >= 0:
            kept |= one << np.uint64(unknown)
            for s in range(half):
                for j in range(words):
                    sums[base + half + s, j] = sums[base + s, j] ^ matrix[row, j]
        else:
            for s in range(half):
                for j in range(words):
                    sums[base + half + s, j] = sums[base + s, j]
    for unknown in range(64):
        if pivots[unknown] >= 0:
            matrix[pivots[unknown]] = 0
    for i in range(matrix.shape[0]):
        move = moves[i]
        if move != 0:
            target = matrix[i]
            for byte in range(8):
                s = (move >> np.uint64(8 * byte)) & low
                if s != 0:
                    source = sums[256 * byte + np.int64(s)]
                    for j in range(words):
                        target[j] ^= source[j]
        matrix[i, word] = (strip[i] & ~kept) | moves[i]


@kernel
def parities(matrix, vector, out):
    """Multiply by a vector over F2.

    Args:
        matrix: [e, w] uint64.
        vector: [w] uint64.
        out: [e] uint8, receives the product.
    """
    for i in range(matrix.shape[0]):
        row = matrix[i]
        total = np.uint64(0)
        for j in range(vector.size):
            total ^= row[j] & vector[j]
        for shift in (32, 16, 8, 4, 2, 1):
            total ^= total >> np.uint64(shift)
        out[i] = total & np.uint64(1)
