"""Random walk in the flip graph over F3, where every flip is legal and 2 has an inverse.

Walking blindly gets lost all the same: nearly all schemes over F3 have dense factors, of which few are equal. So a flip
takes the sign with which no two equal entries meet, as over Z, and flips (and plus transitions) that add equal entries
with either sign are rare.

The table is that of ``search.walks.walk_f2``; a factor is two masks here, of its non-zero entries and of those that are
2 = -1. The lowest non-zero entry of every factor is kept at 1, so that equality up to sign is equality of masks; the
sign of a whole term stands in the spare slot ``4 * row + 3`` of ``sign``. Rows that agree in two modes are merged at
once.

Two entries of equal sign add up to the opposite sign, of opposite sign to zero: with ``odd = s ^ s'`` and
``twice = v & v' & ~odd`` the sum of (v, s) and (v', s') is ``v'' = (v ^ v') | twice``,
``s'' = (odd & (v ^ v')) | (twice & ~s)``.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, PLUS_LEFT, RANK, STEPS, STUCK
from search.walks.rare_f3 import plus_f3, reduce_f3, split_f3
from search.walks.unsigned import HASH, NONE, STAR, TURN, U0, U1, U2, U3, U4, U7, U13, U17, U32, U56, U64

# A flip that adds equal entries with either sign is made once in 2**20 times that it comes up.
WRAP = np.uint64((1 << 20) - 1)


@kernel
def walk_f3(
    value, sign, links, active, place, best, counters, rng, budget, target, plus_interval, margin, split, reduce
):
    """Continue a walk for at most ``budget`` steps; stop at once when its rank falls to ``target``.

    Calls add up as those of ``walk_f2`` do.

    Args:
        value: [S + 3*H] uint64. Non-zero entries of every slot; zero in the bucket heads that follow the slots.
        sign: [S + 3*H] uint64. Entries of every slot that are 2; in slot ``4 * row + 3`` one for a negative term.
        links: [2 * (S + 3*H)] uint32. As for ``walk_f2``.
        active: [S] uint32. As for ``walk_f2``.
        place: [S] uint32. As for ``walk_f2``.
        best: [2 * S] uint64. Value and then sign, as for ``walk_f2``.
        counters: [8] int64. As for ``walk_f2``; of the steps only the flips that were made count as ``FLIPS``.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        budget: steps; a step is an attempted flip or, where no pair exists, a plus.
        target: rank at which to stop.
        plus_interval: mean number of steps between plus transitions; each is uniform in 1/2..3/2 of it.
        margin: a plus needs a rank below the lowest one plus this margin.
        split: how many of 256 plus transitions are splits instead.
        reduce: whether full reductions are looked for before each plus, 0 or 1.
    """
    slots = np.uint64(active.size)
    buckets = np.uint64((value.size - active.size) // 3)
    shift = U64
    while (U1 << (U64 - shift)) < buckets:
        shift -= U1
    rank = np.uint64(counters[RANK])
    alive = np.uint64(max(counters[ACTIVE], 0))
    dirty = counters[ACTIVE] < 0
    plus_left = counters[PLUS_LEFT]
    steps, flips = 0, 0
    x = rng[0]
    counters[STUCK] = 0
    while True:
        # After a change of rank: build the table anew and merge rows that agree in two modes. The earlier of two such
        # rows takes the sum of the third factors and the later one goes, as does a row with a zero factor.
        while dirty:
            dirty = False
            alive = U0
            gone = U0
            for head in range(slots, np.uint64(value.size)):
                links[U2 * head] = head
                links[U2 * head + U1] = head
            for cell in range(U0, U4 * rank):
                slot = np.uint64(cell)
                mode = slot & U3
                if mode == U3:
                    continue
                row = slot - mode
                if mode == U0:  # the whole row in normal form, before any of its factors is compared
                    for part in range(row, row + U3):
                        if sign[part] & value[part] & (~value[part] + U1):
                            sign[part] ^= value[part]
                            sign[row + U3] ^= U1
                new, minus = value[slot], sign[slot]
                if new == U0:
                    gone, dirty = row, True
                    break
                head = slots + mode * buckets + (((new ^ (minus * TURN)) * HASH) >> shift)
                near = np.uint64(links[U2 * head])
                while near != head and (value[near] != new or sign[near] != minus):
                    near = np.uint64(links[U2 * near])
                place[slot] = NONE
                if near != head:
                    mate = near
                    while value[mate] == new and sign[mate] == minus:
                        other = mate - mode
                        same_a = value[row] == value[other] and sign[row] == sign[other]
                        same_b = value[row + U1] == value[other + U1] and sign[row + U1] == sign[other + U1]
                        same_c = value[row + U2] == value[other + U2] and sign[row + U2] == sign[other + U2]
                        if same_a + same_b + same_c >= 2:
                            third = U2 if same_a and same_b else (U1 if same_a else U0)
                            new = value[row + third]
                            minus = sign[row + third] ^ (new * (sign[row + U3] ^ sign[other + U3]))
                            odd, lone = minus ^ sign[other + third], new ^ value[other + third]
                            twice = new & value[other + third] & ~odd
                            value[other + third] = lone | twice
                            sign[other + third] = (odd & lone) | (twice & ~minus)
                            gone, dirty = row, True
                            break
                        mate = np.uint64(links[U2 * mate])
                    if dirty:
                        break
                    place[slot] = alive
                    active[alive] = slot
                    alive += U1
                    if place[near] == NONE:
                        place[near] = alive
                        active[alive] = near
                        alive += U1
                after = np.uint64(links[U2 * near])
                links[U2 * slot] = after
                links[U2 * slot + U1] = near
                links[U2 * near] = slot
                links[U2 * after + U1] = slot
            if dirty:
                rank -= U1
                for part in range(U4):
                    value[gone + part] = value[U4 * rank + part]
                    sign[gone + part] = sign[U4 * rank + part]
        if np.int64(rank) < counters[BEST]:
            counters[BEST] = np.int64(rank)
            counters[BEST_AT] = counters[STEPS] + steps
            for part in range(U4 * rank):
                best[part] = value[part]
                best[slots + part] = sign[part]

        until = min(budget, steps + plus_left) if np.int64(rank) > target else steps
        begun = steps
        while steps < until and alive > U0:
            steps += 1
            x ^= x << U13
            x ^= x >> U7
            x ^= x << U17
            random = x * STAR
            slot = np.uint64(active[((random >> U32) * alive) >> U32])
            side = random & U1
            mate = np.uint64(links[U2 * slot + side])
            if value[mate] != value[slot] or sign[mate] != sign[slot]:
                mate = np.uint64(links[U2 * slot + (side ^ U1)])
            # e a b c + e' a b' c' = e a (b + s b') c + e' a b' (c' - e e' s c) for either sign s.
            mode = slot & U3
            row, other = slot - mode, mate - mode
            y = mode + U1 + ((random >> U1) & U1)
            if y >= U3:
                y -= U3
            z = U3 - mode - y
            turn = (random >> U2) & U1
            ends = turn ^ U1 ^ sign[row + U3] ^ sign[other + U3]
            new, second = value[row + y], value[other + z]
            minus, minus2 = sign[row + y], sign[other + z]
            both, both2 = new & value[other + y], second & value[row + z]
            odd = minus ^ sign[other + y] ^ (value[other + y] * turn)
            odd2 = minus2 ^ sign[row + z] ^ (value[row + z] * ends)
            if (both & ~odd) | (both2 & ~odd2):
                if not ((both & odd) | (both2 & odd2)):  # the other sign
                    odd ^= value[other + y]
                    odd2 ^= value[row + z]
                elif (random >> U3) & WRAP:
                    continue
            flips += 1
            twice, lone = both & ~odd, new ^ value[other + y]
            minus = (odd & lone) | (twice & ~minus)
            new = lone | twice
            twice, lone = both2 & ~odd2, second ^ value[row + z]
            minus2 = (odd2 & lone) | (twice & ~minus2)
            second = lone | twice
            turn = U1 if minus & new & (~new + U1) else U0
            minus ^= new * turn
            sign[row + U3] ^= turn
            turn = U1 if minus2 & second & (~second + U1) else U0
            minus2 ^= second * turn
            sign[other + U3] ^= turn
            slot, mode = row + y, y
            for _half in range(2):
                old, old_minus = value[slot], sign[slot]
                after, before = np.uint64(links[U2 * slot]), np.uint64(links[U2 * slot + U1])
                links[U2 * before] = after
                links[U2 * after + U1] = before
                left = value[before] == old and sign[before] == old_minus
                right = value[after] == old and sign[after] == old_minus
                if left != right:
                    lone = before if left else after
                    one, two = np.uint64(links[U2 * lone]), np.uint64(links[U2 * lone + U1])
                    if (value[one] != old or sign[one] != old_minus) and (value[two] != old or sign[two] != old_minus):
                        alive -= U1
                        last = active[alive]
                        active[place[lone]] = last
                        place[last] = place[lone]
                        place[lone] = NONE
                value[slot], sign[slot] = new, minus
                head = slots + mode * buckets + (((new ^ (minus * TURN)) * HASH) >> shift)
                near = np.uint64(links[U2 * head])
                while near != head and (value[near] != new or sign[near] != minus):
                    near = np.uint64(links[U2 * near])
                after = np.uint64(links[U2 * near])
                links[U2 * slot] = after
                links[U2 * slot + U1] = near
                links[U2 * near] = slot
                links[U2 * after + U1] = slot
                if near != head:
                    if not (left or right):
                        place[slot] = alive
                        active[alive] = slot
                        alive += U1
                    if place[near] == NONE:
                        place[near] = alive
                        active[alive] = near
                        alive += U1
                    row = slot - mode
                    while value[near] == new and sign[near] == minus:
                        twin = near - mode
                        same_a = value[row] == value[twin] and sign[row] == sign[twin]
                        same_b = value[row + U1] == value[twin + U1] and sign[row + U1] == sign[twin + U1]
                        same_c = value[row + U2] == value[twin + U2] and sign[row + U2] == sign[twin + U2]
                        if same_a + same_b + same_c >= 2 and twin != row:
                            dirty = True
                        near = np.uint64(links[U2 * near])
                elif left or right:
                    alive -= U1
                    last = active[alive]
                    active[place[slot]] = last
                    place[last] = place[slot]
                    place[slot] = NONE
                slot, new, minus, mode = other + z, second, minus2, z
            if dirty:
                break
        plus_left -= steps - begun
        if dirty:
            continue

        if steps >= budget or np.int64(rank) <= target:
            break
        if np.int64(rank) == counters[BEST]:
            for part in range(U4 * rank):
                best[part] = value[part]
                best[slots + part] = sign[part]
        if reduce:
            fewer = reduce_f3(value, sign, links, active, alive, rank)
            if fewer < rank:
                rank = fewer
                dirty = True
                continue
        # Plus or split. Where no flip is left the rank may exceed the margin, else the walk has ended.
        drawn = x
        limit = counters[BEST] + margin + (0 if alive > U0 else 2)
        stuck = alive == U0
        if np.int64(rank) < limit and U4 * rank < slots:
            x ^= x << U13
            x ^= x >> U7
            x ^= x << U17
            if alive > U0 and (x * STAR) >> U56 < np.uint64(split):
                more, x = split_f3(value, sign, links, active, alive, rank, x)
            else:
                more, x = plus_f3(value, sign, rank, x)
            dirty = more > rank
            stuck = stuck and not dirty
            rank = more
        if stuck:
            counters[STUCK] = 1
            x = drawn  # so that another call ends alike
            break
        steps += alive == U0
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        plus_left = plus_interval // 2 + np.int64((((x * STAR) >> U32) * np.uint64(plus_interval)) >> U32) + 1
    counters[RANK] = np.int64(rank)
    counters[ACTIVE] = np.int64(alive)
    counters[PLUS_LEFT] = plus_left
    counters[STEPS] += steps
    counters[FLIPS] += flips
    rng[0] = x
