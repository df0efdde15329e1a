"""Compiled inner loops of ``search.lifts.gf3``. Letters in shapes: e equations, x unknowns, w = ceil(x / 64) words.

A number modulo 3 is a bit of two planes, first whether it is not zero, then whether it is 2. The elimination works on
64 unknowns at a time as in ``search.lifts.gf2_kernels``, with tables of the 81 sums of four pivot rows.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel


@kernel
def eliminate_strip(strip, used, moves, pivots):
    """Gauss-Jordan elimination of 64 unknowns, earlier ones first.

    Args:
        strip: [2, e] uint64. Bit j of a row is its coefficient of unknown j; reduced in place.
        used: [e] uint8. Rows that are pivots already; the new ones are marked.
        moves: [2, e] uint64, all zero. Entry j says how often the new row holds the pivot row of unknown j as it was
            before. A row that becomes a pivot here starts from nothing, every other row from itself.
        pivots: [64] int64. Receives the pivot row of every unknown, -1 for a free one.
    """
    one = np.uint64(1)
    value, sign = strip[0], strip[1]
    move, turn = moves[0], moves[1]
    for unknown in range(64):
        bit = one << np.uint64(unknown)
        row = -1
        for i in range(value.size):
            if used[i] == 0 and (value[i] & bit) != 0:
                row = i
                break
        pivots[unknown] = row
        if row < 0:
            continue
        used[row] = 1
        move[row] |= bit
        if (sign[row] & bit) != 0:
            sign[row] ^= value[row]
            turn[row] ^= move[row]
        v, s, m, t = value[row], sign[row], move[row], turn[row]
        value[row], sign[row], move[row], turn[row] = 0, 0, 0, 0
        for i in range(value.size):
            if (value[i] & bit) != 0:
                # Add the pivot row where the entry is 2, subtract it where it is 1.
                minus, minus_turn = s, t
                if (sign[i] & bit) == 0:
                    minus, minus_turn = s ^ v, t ^ m
                odd, lone = minus ^ sign[i], v ^ value[i]
                twice = v & value[i] & ~odd
                value[i] = lone | twice
                sign[i] = (odd & lone) | (twice & ~minus)
                odd, lone = minus_turn ^ turn[i], m ^ move[i]
                twice = m & move[i] & ~odd
                move[i] = lone | twice
                turn[i] = (odd & lone) | (twice & ~minus_turn)
        value[row], sign[row], move[row], turn[row] = v, s, m, t


@kernel
def apply_moves(value, sign, strip, moves, pivots, word, sums, signs):
    """Carry the elimination of one strip over to the other columns.

    The column of a pivot has become a unit vector, which need not be kept: its place receives ``moves`` instead.

    Args:
        value: [e, w] uint64, entries that are not zero, changed in place.
        sign: [e, w] uint64, entries that are 2, changed in place.
        strip: [2, e] uint64, from ``eliminate_strip``.
        moves: [2, e] uint64, from ``eliminate_strip``.
        pivots: [64] int64, from ``eliminate_strip``.
        word: which 64 unknowns the strip holds.
        sums: [1296, w] uint64, overwritten. Row 81 * g + s holds the sum of the pivot rows of the four unknowns of
            group g, as often as the digits of s to base 3 say, the lowest first.
        signs: [1296, w] uint64, overwritten likewise.
    """
    one, low = np.uint64(1), np.uint64(15)
    words = value.shape[1]
    digits = np.zeros(16, dtype=np.int64)
    for s in range(16):
        digits[s] = (s & 1) + 3 * (s >> 1 & 1) + 9 * (s >> 2 & 1) + 27 * (s >> 3)
    kept = np.uint64(0)
    for unknown in range(64):
        base = unknown // 4 * 81
        part = 1
        for _ in range(unknown % 4):
            part *= 3
        if part == 1:
            sums[base] = 0
            signs[base] = 0
        row = pivots[unknown]
        if row >= 0:
            kept |= one << np.uint64(unknown)
        for s in range(2 * part):
            left_v, left_s = sums[base + s], signs[base + s]
            out_v, out_s = sums[base + part + s], signs[base + part + s]
            if row < 0:
                out_v[:] = left_v
                out_s[:] = left_s
                continue
            right_v, right_s = value[row], sign[row]
            for j in range(words):
                odd, lone = left_s[j] ^ right_s[j], left_v[j] ^ right_v[j]
                twice = left_v[j] & right_v[j] & ~odd
                out_v[j] = lone | twice
                out_s[j] = (odd & lone) | (twice & ~left_s[j])
    for unknown in range(64):
        if pivots[unknown] >= 0:
            value[pivots[unknown]] = 0
            sign[pivots[unknown]] = 0
    for i in range(value.shape[0]):
        move, turn = moves[0, i], moves[1, i]
        if move != 0:
            target_v, target_s = value[i], sign[i]
            for group in range(16):
                down = np.uint64(4 * group)
                s = digits[np.int64((move >> down) & low)] + digits[np.int64((turn >> down) & low)]
                if s != 0:
                    source_v, source_s = sums[81 * group + s], signs[81 * group + s]
                    for j in range(words):
                        odd, lone = target_s[j] ^ source_s[j], target_v[j] ^ source_v[j]
                        twice = target_v[j] & source_v[j] & ~odd
                        target_v[j] = lone | twice
                        target_s[j] = (odd & lone) | (twice & ~source_s[j])
        value[i, word] = (strip[0, i] & ~kept) | move
        sign[i, word] = (strip[1, i] & ~kept) | turn


@kernel
def products(value, sign, vector, out):
    """Multiply by a vector over F3.

    Args:
        value: [e, w] uint64, entries that are not zero.
        sign: [e, w] uint64, entries that are 2.
        vector: [2, w] uint64, the same of the vector.
        out: [e] int8, receives the product in {0, 1, 2}.
    """
    one = np.uint64(1)
    for i in range(value.shape[0]):
        total_v, total_s = np.uint64(0), np.uint64(0)
        for j in range(value.shape[1]):
            v = value[i, j] & vector[0, j]
            s = (sign[i, j] ^ vector[1, j]) & v
            odd, lone = total_s ^ s, total_v ^ v
            twice = total_v & v & ~odd
            total_v = lone | twice
            total_s = (odd & lone) | (twice & ~s)
        total = 0
        while total_v != 0:
            lowest = total_v & (~total_v + one)
            total += 2 if (total_s & lowest) != 0 else 1
            total_v ^= lowest
        out[i] = total % 3
