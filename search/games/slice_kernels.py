"""The inner loops of the slice-rank bound, compiled.

A tensor over F2 of shape [d0, d1, d2] is held as its three slicings, one after the other, in uint16 words: slicing
i has d_i slices of d_(i+1) rows, each row the bit mask of d_(i+2) entries (indices modulo 3). Every loop that runs
over all 2**d combinations of slices is a tiny function over whole rows: in that form it becomes vector instructions.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel


@kernel
def _add_slice(source, sink, word):
    for c in range(source.size):
        sink[c] = source[c] ^ word


@kernel
def _clear_row(pivot, row):
    for c in range(pivot.size):
        p, r = pivot[c], row[c]
        row[c] = r ^ p if (r & p & -p) != 0 else r


@kernel
def _count_pivots(row, ranks):
    for c in range(row.size):
        ranks[c] += row[c] != 0


@kernel
def combination_ranks(slices, count, height, scratch, ranks):
    """Ranks over F2 of all combinations of slices.

    Args:
        slices: [count * height] uint16, one slicing.
        count: slices in it.
        height: rows of a slice.
        scratch: [>= height, >= 2**count] uint16, overwritten.
        ranks: [>= 2**count] uint16, entry c receives the rank of the sum of the slices in bit mask c.
    """
    size = 1 << count
    for j in range(height):
        scratch[j, 0] = 0
        for i in range(count):
            half = 1 << i
            _add_slice(scratch[j, :half], scratch[j, half : 2 * half], slices[i * height + j])
    ranks[:size] = 0
    for i in range(height):
        for j in range(i + 1, height):
            _clear_row(scratch[i, :size], scratch[j, :size])
        _count_pivots(scratch[i, :size], ranks[:size])


@kernel
def cheapest_basis(ranks, count, height, basis):
    """A basis of combinations with the least sum of ranks, chosen greedily (optimal, since bases form a matroid).

    Args:
        ranks: [>= 2**count] uint16 from ``combination_ranks``.
        count: slices, and size of the basis.
        height: the largest possible rank.
        basis: [>= count] int64, receives the bit masks of the combinations.

    Returns:
        The sum of the ranks of the basis.
    """
    echelon = np.zeros(16, np.int64)
    chosen, total = 0, 0
    for rank in range(height + 1):
        for c in range(1, 1 << count):
            if ranks[c] != rank:
                continue
            rest = c
            for bit in range(count - 1, -1, -1):
                if rest >> bit & 1:
                    if echelon[bit] == 0:
                        echelon[bit] = rest
                        basis[chosen] = c
                        chosen += 1
                        total += rank
                        break
                    rest ^= echelon[bit]
            if chosen == count:
                return total
    return total


@kernel
def tensor_bounds(tensor, sizes, scratch, ranks, bases, bounds):
    """The slice-rank bound of each of the three slicings of a tensor.

    Args:
        tensor: [d0*d1 + d1*d2 + d2*d0] uint16, the three slicings.
        sizes: [3] int64, d0, d1, d2.
        scratch: [max d, 2**max d] uint16, overwritten.
        ranks: [3, 2**max d] uint16, receives the ranks of all combinations of each slicing.
        bases: [3, max d] int64, receives the chosen bases.
        bounds: [3] int64, receives the sums of ranks.
    """
    start = 0
    for mode in range(3):
        count, height = sizes[mode], sizes[(mode + 1) % 3]
        stop = start + count * height
        combination_ranks(tensor[start:stop], count, height, scratch, ranks[mode])
        bounds[mode] = cheapest_basis(ranks[mode], count, height, bases[mode])
        start = stop


@kernel
def subtract_term(tensor, sizes, u, v, w):
    """Add the rank-one tensor u (x) v (x) w, given by bit masks, to all three slicings."""
    d0, d1, d2 = sizes[0], sizes[1], sizes[2]
    second, third = d0 * d1, d0 * d1 + d1 * d2
    for a in range(d0):
        if u >> a & 1:
            for b in range(d1):
                if v >> b & 1:
                    tensor[a * d1 + b] ^= w
    for b in range(d1):
        if v >> b & 1:
            for c in range(d2):
                if w >> c & 1:
                    tensor[second + b * d2 + c] ^= u
    for c in range(d2):
        if w >> c & 1:
            for a in range(d0):
                if u >> a & 1:
                    tensor[third + c * d0 + a] ^= v
