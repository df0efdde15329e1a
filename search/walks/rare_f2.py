"""Moves over F2 that a walk makes once in many flips: plus transitions, splits and full reductions.

They work on the arrays of ``search.walks.walk_f2`` between its flips, when buckets and the list of active slots are in
order; afterwards the table is built anew.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.unsigned import STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32, U64


@kernel
def plus_f2(value, rank, x):
    """Add one product to two terms that differ in every mode (Arai-Ichikawa-Hukushima 2023).

    a b c + a' b' c' = (a + a') b c + a' b' (c' - c) + a' (b' - b) c in a random order of the modes.

    Args:
        value: [S + 3*H] uint64, with room for a row.
        rank: products.
        x: state of the xorshift generator.

    Returns:
        The rank after the move, one more or as it was, and the generator's state.
    """
    for _trial in range(64):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        row = U4 * ((((x * STAR) >> U32) * rank) >> U32)
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        other = U4 * (((random >> U32) * rank) >> U32)
        same_a = value[row] == value[other]
        same_b = value[row + U1] == value[other + U1]
        same_c = value[row + U2] == value[other + U2]
        if not (same_a or same_b or same_c):
            mode = (random & U7) % U3
            # Three cyclic orders; the mirrored ones are those of the same rows the other way round.
            y, z = (mode + U1) % U3, (mode + U2) % U3
            extra = U4 * rank
            value[extra + mode] = value[other + mode]
            value[extra + y] = value[other + y] ^ value[row + y]
            value[extra + z] = value[row + z]
            value[other + z] ^= value[row + z]
            value[row + mode] ^= value[other + mode]
            return rank + U1, x
    return rank, x


@kernel
def split_f2(value, links, active, alive, rank, x):
    """Add one product: a factor of two terms that share another one is split by a third factor at random.

    a b c + a' b c' = (a + d) b c + d b (c + c') + (a' + d) b c'. A split of one term alone would be merged again at
    once; a split whose part meets its own partner is the plus transition.

    Args:
        value: [S + 3*H] uint64, with room for a row.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        alive: active slots, at least one.
        rank: products.
        x: state of the xorshift generator.

    Returns:
        The rank after the move, one more or as it was, and the generator's state.
    """
    for _trial in range(16):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        slot = np.uint64(active[((random >> U32) * alive) >> U32])
        side = random & U1
        mate = np.uint64(links[U2 * slot + side])
        if value[mate] != value[slot]:
            mate = np.uint64(links[U2 * slot + (side ^ U1)])
        mode = slot & U3
        row, other = slot - mode, mate - mode
        a = (mode + U1 + ((random >> U1) & U1)) % U3
        c = U3 - mode - a
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        part = value[U4 * ((((x * STAR) >> U32) * rank) >> U32) + a]
        if part != value[row + a] and part != value[other + a] and value[row + c] != value[other + c]:
            extra = U4 * rank
            value[extra + mode] = value[slot]
            value[extra + a] = part
            value[extra + c] = value[row + c] ^ value[other + c]
            value[row + a] ^= part
            value[other + a] ^= part
            return rank + U1, x
    return rank, x


@kernel
def reduce_f2(value, links, active, alive, rank):
    """Remove one product by a linear dependence among terms that share a factor (Kauers-Moosbauer 2022).

    When the terms a b_i c_i of a set have sum b_i = 0, the last one is the sum of a b_i c_last over the others, whose
    c_i take c_last up. The pair of equal b_i, which a flip meets by itself, is the smallest such set.

    Args:
        value: [S + 3*H] uint64.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        alive: active slots.
        rank: products.

    Returns:
        The rank after the move, one less, or as it was when no terms depend on each other.
    """
    rows = np.empty(64, np.uint64)
    basis = np.empty(64, np.uint64)
    made_of = np.empty(64, np.uint64)
    for i in range(alive):
        first = np.uint64(active[i])
        shared = value[first]
        if value[np.uint64(links[U2 * first + U1])] == shared:
            continue  # not the first of its bucket
        mode = first & U3
        count = U0
        slot = first
        while value[slot] == shared and count < U64:
            rows[count] = slot - mode
            count += U1
            slot = np.uint64(links[U2 * slot])
        if count < U3:
            continue
        for side in range(2):
            y = (mode + U1 + np.uint64(side)) % U3
            z = U3 - mode - y
            size = U0
            for j in range(count):
                rest = value[rows[j] + y]
                parts = U1 << np.uint64(j)
                for b in range(size):
                    if rest ^ basis[b] < rest:
                        rest ^= basis[b]
                        parts ^= made_of[b]
                if rest != U0:
                    basis[size], made_of[size] = rest, parts
                    size += U1
                    continue
                gone = rows[j]
                for other in range(j):
                    if parts >> np.uint64(other) & U1:
                        value[rows[other] + z] ^= value[gone + z]
                for part in range(U3):
                    value[gone + part] = value[U4 * (rank - U1) + part]
                return rank - U1
    return rank
