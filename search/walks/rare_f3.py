"""Moves over F3 that a walk makes once in many flips: plus transitions, splits and full reductions.

They work on the arrays of ``search.walks.walk_f3`` between its flips, when buckets and the list of active slots are in
order; afterwards the table is built anew. Plus transitions and splits look for a place first where no two equal entries
meet, which keeps factors sparse.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.dependence import remainder, sharing
from search.walks.unsigned import STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32

# Of 64 trials so many look for a sparse result.
SPARSE = 32


@kernel
def plus_f3(value, sign, rank, x):
    """Add one product to two terms that differ in every mode (Arai-Ichikawa-Hukushima 2023).

    e a b c + e' a' b' c' = e (a + s a') b c + e' a' b' (c' - e e' s c) + e s a' (b' - b) c, in a random order of the
    modes.

    Args:
        value: [S + 3*H] uint64, with room for a row.
        sign: [S + 3*H] uint64.
        rank: products.
        x: state of the xorshift generator.

    Returns:
        The rank after the move, one more or as it was, and the generator's state.
    """
    for trial in range(64):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        row = U4 * ((((x * STAR) >> U32) * rank) >> U32)
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        other = U4 * (((random >> U32) * rank) >> U32)
        same_a = value[row] == value[other] and sign[row] == sign[other]
        same_b = value[row + U1] == value[other + U1] and sign[row + U1] == sign[other + U1]
        same_c = value[row + U2] == value[other + U2] and sign[row + U2] == sign[other + U2]
        if same_a or same_b or same_c:
            continue
        mode = (random & U7) % U3
        # Three cyclic orders; the mirrored ones are those of the same rows the other way round.
        y, z = (mode + U1) % U3, (mode + U2) % U3
        turn = (random >> U4) & U1
        ends = turn ^ U1 ^ sign[row + U3] ^ sign[other + U3]
        extra = U4 * rank
        va, vb, vc = value[row + mode], value[row + y], value[row + z]
        wa, wb, wc = value[other + mode], value[other + y], value[other + z]
        sa = sign[other + mode] ^ (wa * turn)
        sb, sc = sign[row + y] ^ vb, sign[row + z] ^ (vc * ends)
        odd, odd2, odd3 = sign[row + mode] ^ sa, sb ^ sign[other + y], sc ^ sign[other + z]
        if ((va & wa & ~odd) | (vb & wb & ~odd2) | (vc & wc & ~odd3)) and trial < SPARSE:
            continue
        value[extra + mode], sign[extra + mode] = wa, sign[other + mode]
        value[extra + z], sign[extra + z] = vc, sign[row + z]
        sign[extra + U3] = sign[row + U3] ^ turn
        lone, twice = va ^ wa, va & wa & ~odd
        value[row + mode], sign[row + mode] = lone | twice, (odd & lone) | (twice & ~sa)
        lone, twice = vb ^ wb, vb & wb & ~odd2
        value[extra + y], sign[extra + y] = lone | twice, (odd2 & lone) | (twice & ~sb)
        lone, twice = vc ^ wc, vc & wc & ~odd3
        value[other + z], sign[other + z] = lone | twice, (odd3 & lone) | (twice & ~sc)
        return rank + U1, x
    return rank, x


@kernel
def split_f3(value, sign, links, active, alive, rank, x):
    """Add one product: a factor of two terms that share another one is split by a third factor at random.

    e a b c + e' a' b c' = e (a - s d) b c + e s d b (c + e e' s s' c') + e' (a' - s' d) b c' for any signs s and s'.

    Args:
        value: [S + 3*H] uint64, with room for a row.
        sign: [S + 3*H] uint64.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        alive: active slots, at least one.
        rank: products.
        x: state of the xorshift generator.

    Returns:
        The rank after the move, one more or as it was, and the generator's state.
    """
    for trial in range(64):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        slot = np.uint64(active[((random >> U32) * alive) >> U32])
        side = random & U1
        mate = np.uint64(links[U2 * slot + side])
        if value[mate] != value[slot] or sign[mate] != sign[slot]:
            mate = np.uint64(links[U2 * slot + (side ^ U1)])
        mode = slot & U3
        row, other = slot - mode, mate - mode
        a = (mode + U1 + ((random >> U1) & U1)) % U3
        c = U3 - mode - a
        s, s2 = (random >> U2) & U1, (random >> U3) & U1
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        third = U4 * ((((x * STAR) >> U32) * rank) >> U32) + a
        part, part_minus = value[third], sign[third]
        va, wa, vc, wc = value[row + a], value[other + a], value[row + c], value[other + c]
        sa, ta, sc, tc = sign[row + a], sign[other + a], sign[row + c], sign[other + c]
        if (part == va and part_minus == sa) or (part == wa and part_minus == ta) or (vc == wc and sc == tc):
            continue
        odd = sa ^ part_minus ^ (part * (U1 ^ s))
        odd2 = ta ^ part_minus ^ (part * (U1 ^ s2))
        odd3 = sc ^ tc ^ (wc * (sign[row + U3] ^ sign[other + U3] ^ s ^ s2))
        if ((va & part & ~odd) | (wa & part & ~odd2) | (vc & wc & ~odd3)) and trial < SPARSE:
            continue
        extra = U4 * rank
        value[extra + mode], sign[extra + mode] = value[slot], sign[slot]
        value[extra + a], sign[extra + a] = part, part_minus
        sign[extra + U3] = sign[row + U3] ^ s
        lone, twice = vc ^ wc, vc & wc & ~odd3
        value[extra + c], sign[extra + c] = lone | twice, (odd3 & lone) | (twice & ~sc)
        lone, twice = va ^ part, va & part & ~odd
        value[row + a], sign[row + a] = lone | twice, (odd & lone) | (twice & ~sa)
        lone, twice = wa ^ part, wa & part & ~odd2
        value[other + a], sign[other + a] = lone | twice, (odd2 & lone) | (twice & ~ta)
        return rank + U1, x
    return rank, x


@kernel
def reduce_f3(value, sign, links, active, alive, rank):
    """Remove one product by a linear dependence among terms that share a factor (Kauers-Moosbauer 2022).

    When the terms e_i a b_i c_i of a set have sum h_i b_i = 0, the last one, k, goes and the others take it up: their
    c_i become c_i - e_i e_k h_i h_k c_k.

    Args:
        value: [S + 3*H] uint64.
        sign: [S + 3*H] uint64.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        alive: active slots.
        rank: products.

    Returns:
        The rank after the move, one less, or as it was when no terms depend on each other.
    """
    rows = np.empty(64, np.uint64)
    basis = np.empty(256, np.uint64)
    for i in range(alive):
        first = np.uint64(active[i])
        mode = first & U3
        count = sharing(value, sign, links, first, rows)
        for side in range(U1, U3 if count >= U3 else U1):
            y = (mode + side) % U3
            z = U3 - mode - y
            size = U0
            for j in range(U0, count):
                rest, used, against = remainder(value[rows[j] + y], sign[rows[j] + y], j, basis, size)
                if rest != U0:
                    size += U1
                    continue
                gone = rows[j]
                new = value[gone + z]
                ends = U1 ^ sign[gone + U3] ^ (against >> j & U1)
                for o in range(U0, j):
                    if used >> o & U1:
                        slot = rows[o] + z
                        minus = sign[gone + z] ^ (new * (ends ^ sign[rows[o] + U3] ^ (against >> o & U1)))
                        odd, lone, twice = minus ^ sign[slot], new ^ value[slot], new & value[slot]
                        twice &= ~odd
                        value[slot], sign[slot] = lone | twice, (odd & lone) | (twice & ~minus)
                for part in range(U4):
                    value[gone + part] = value[U4 * (rank - U1) + part]
                    sign[gone + part] = sign[U4 * (rank - U1) + part]
                return rank - U1
    return rank
