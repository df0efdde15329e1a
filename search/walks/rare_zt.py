"""Moves over Z that a walk makes once in many flips: plus transitions, splits and full reductions.

They work on the arrays of ``search.walks.walk_zt`` between its flips, when buckets and the list of active slots are in
order; afterwards the table is built anew. What would leave {-1, 0, 1} is not made.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.dependence import holds_over_z, remainder, sharing
from search.walks.unsigned import STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32


@kernel
def plus_zt(value, sign, rank, x):
    """Add one product to two terms that differ in every mode (Arai-Ichikawa-Hukushima 2023).

    e a b c + e' a' b' c' = e t (a + s a') (t b) c + e' a' b' (c' - e e' s t c) + e s t a' (b' - t b) c, in a random
    order of the modes.

    Args:
        value: [S + 3*H] uint64, with room for a row.
        sign: [S + 3*H] uint64.
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
        mode = (random & U7) % U3
        # Three cyclic orders; the mirrored ones are those of the same rows the other way round.
        y, z = (mode + U1) % U3, (mode + U2) % U3
        s, t = (random >> U4) & U1, (random >> U7) & U1
        ends = sign[row + U3] ^ sign[other + U3]
        va, vb, vc = value[row + mode], value[row + y], value[row + z]
        wa, wb, wc = value[other + mode], value[other + y], value[other + z]
        sa, sb, sc = sign[other + mode], sign[row + y], sign[row + z]
        minus = sa ^ (wa * s)
        minus2 = sc ^ (vc * (U1 ^ ends ^ s ^ t))
        minus3 = sb ^ (vb * (U1 ^ t))
        clash = va & wa & ~(sign[row + mode] ^ minus)
        clash |= vc & wc & ~(sign[other + z] ^ minus2)
        clash |= vb & wb & ~(sign[other + y] ^ minus3)
        if clash == U0 and va != wa and vb != wb and vc != wc:
            extra = U4 * rank
            value[extra + mode], sign[extra + mode] = wa, sa
            value[extra + y], sign[extra + y] = wb ^ vb, (sign[other + y] | minus3) & (wb ^ vb)
            value[extra + z], sign[extra + z] = vc, sc
            sign[extra + U3] = sign[row + U3] ^ s ^ t
            value[other + z], sign[other + z] = wc ^ vc, (sign[other + z] | minus2) & (wc ^ vc)
            value[row + mode], sign[row + mode] = va ^ wa, (sign[row + mode] | minus) & (va ^ wa)
            # t (t b) = b: the sign t of this row's factor and of its term cancel.
            return rank + U1, x
    return rank, x


@kernel
def split_zt(value, sign, links, active, alive, rank, x):
    """Add one product: a factor of two terms that share another one is split by a third factor at random.

    e a b c + e' a' b c' = e (a - s d) b c + e s d b (c + e e' s s' c') + e' (a' - s' d) b c', with signs that fit.

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
    for _trial in range(64):
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
        turns = random >> U2
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        third = U4 * ((((x * STAR) >> U32) * rank) >> U32) + a
        part, part_minus = value[third], sign[third]
        va, wa, vc, wc = value[row + a], value[other + a], value[row + c], value[other + c]
        sa, ta, sc, tc = sign[row + a], sign[other + a], sign[row + c], sign[other + c]
        if (part == va and part_minus == sa) or (part == wa and part_minus == ta) or (vc == wc and sc == tc):
            continue
        ends = sign[row + U3] ^ sign[other + U3]
        for _signs in range(4):
            s, s2 = turns & U1, (turns >> U1) & U1
            turns += U1
            minus, minus2 = part_minus ^ (part * (U1 ^ s)), part_minus ^ (part * (U1 ^ s2))
            minus3 = tc ^ (wc * (ends ^ s ^ s2))
            if (va & part & ~(sa ^ minus)) | (wa & part & ~(ta ^ minus2)) | (vc & wc & ~(sc ^ minus3)):
                continue
            extra = U4 * rank
            value[extra + mode], sign[extra + mode] = value[slot], sign[slot]
            value[extra + a], sign[extra + a] = part, part_minus
            value[extra + c], sign[extra + c] = vc ^ wc, (sc | minus3) & (vc ^ wc)
            sign[extra + U3] = sign[row + U3] ^ s
            value[row + a], sign[row + a] = va ^ part, (sa | minus) & (va ^ part)
            value[other + a], sign[other + a] = wa ^ part, (ta | minus2) & (wa ^ part)
            return rank + U1, x
    return rank, x


@kernel
def reduce_zt(value, sign, links, active, alive, rank):
    """Remove one product by a linear dependence among terms that share a factor (Kauers-Moosbauer 2022).

    A relation modulo 3 with coefficients h_i = 1 or -1 often is one over Z: sum h_i b_i = 0 in terms e_i a b_i c_i.
    Any of them, k, may go: the other c_i become c_i - e_i e_k h_i h_k c_k, and one for which these fit does.

    Args:
        value: [S + 3*H] uint64.
        sign: [S + 3*H] uint64.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        alive: active slots.
        rank: products.

    Returns:
        The rank after the move, one less, or as it was when no such terms were found.
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
                if not holds_over_z(value, sign, rows, count, y, used, against):
                    continue
                for k in range(U0, count):
                    if not used >> k & U1:
                        continue
                    gone = rows[k]
                    new = value[gone + z]
                    ends = U1 ^ sign[gone + U3] ^ (against >> k & U1)
                    clash = U0
                    for o in range(U0, count):
                        if used >> o & U1 and o != k:
                            slot = rows[o] + z
                            minus = sign[gone + z] ^ (new * (ends ^ sign[rows[o] + U3] ^ (against >> o & U1)))
                            clash |= value[slot] & new & ~(sign[slot] ^ minus)
                    if clash != U0:
                        continue
                    for o in range(U0, count):
                        if used >> o & U1 and o != k:
                            slot = rows[o] + z
                            minus = sign[gone + z] ^ (new * (ends ^ sign[rows[o] + U3] ^ (against >> o & U1)))
                            value[slot] ^= new
                            sign[slot] = (sign[slot] | minus) & value[slot]
                    for part in range(U4):
                        value[gone + part] = value[U4 * (rank - U1) + part]
                        sign[gone + part] = sign[U4 * (rank - U1) + part]
                    return rank - U1
    return rank
