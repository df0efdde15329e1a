"""Random walk in the flip graph over F2 (Kauers-Moosbauer 2022) with plus transitions (Arai et al. 2023).

A factor is one 64-bit mask. Slot ``4 * row + mode`` holds the factor of one rank-one term in one mode (0 for A, 1 for
B, 2 for C). Slots with equal factors stand side by side in a doubly linked bucket of a hash table of their mode, and
``active`` lists the slots that have such a neighbour. So a flip is sampled, applied and entered in the table in O(1),
whatever the rank, and the state of a walk stays in the nearest caches. Letters in shapes: ``S`` slots, ``H``
buckets of one mode (a power of two).

Everything is one function on flat arrays: a call inside a numba kernel with this many arrays costs more than the flip
itself. Unsigned index types spare the test for negative indices; they are never mixed with signed ones, of which
numba would make floating point numbers.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, PLUS_LEFT, RANK, STEPS, STUCK
from search.walks.rare_f2 import plus_f2, reduce_f2, split_f2
from search.walks.unsigned import HASH, NONE, STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32, U56, U64


@kernel
def walk_f2(value, links, active, place, best, counters, rng, budget, target, plus_interval, margin, split, reduce):
    """Continue a walk for at most ``budget`` steps; stop at once when its rank falls to ``target``.

    Two calls of N steps walk exactly as one call of 2N steps does.

    Args:
        value: [S + 3*H] uint64. Factor of every slot; zero in the bucket heads that follow the slots.
        links: [2 * (S + 3*H)] uint32. Successor and predecessor of every slot and bucket head.
        active: [S] uint32. Slots that have an equal one beside them, in the first ``counters[ACTIVE]`` places.
        place: [S] uint32. Place of every slot in ``active``.
        best: [S] uint64. The scheme of rank ``counters[BEST]`` at the latest plus or, before one, the first.
        counters: [8] int64. See the names above; a negative ``ACTIVE`` asks for the table to be built.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        budget: steps; a step is a flip or, where none exists, a plus.
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
                new = value[slot]
                if new == U0:
                    gone, dirty = row, True
                    break
                head = slots + mode * buckets + ((new * HASH) >> shift)
                near = np.uint64(links[U2 * head])
                while near != head and value[near] != new:
                    near = np.uint64(links[U2 * near])
                place[slot] = NONE
                if near != head:
                    mate = near
                    while value[mate] == new:
                        other = mate - mode
                        same_a = value[row] == value[other]
                        same_b = value[row + U1] == value[other + U1]
                        same_c = value[row + U2] == value[other + U2]
                        if same_a + same_b + same_c >= 2:
                            third = U2 if same_a and same_b else (U1 if same_a else U0)
                            value[other + third] ^= value[row + third]
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
                for part in range(U3):
                    value[gone + part] = value[U4 * rank + part]
        if np.int64(rank) < counters[BEST]:
            counters[BEST] = np.int64(rank)
            counters[BEST_AT] = counters[STEPS] + steps
            for part in range(U4 * rank):
                best[part] = value[part]

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
            if value[mate] != value[slot]:
                mate = np.uint64(links[U2 * slot + (side ^ U1)])
            # a b c + a b' c' = a (b + b') c + a b' (c' - c), where a is the factor in ``mode``.
            mode = slot & U3
            row, other = slot - mode, mate - mode
            y = mode + U1 + ((random >> U1) & U1)
            if y >= U3:
                y -= U3
            z = U3 - mode - y
            new = value[row + y] ^ value[other + y]
            second = value[other + z] ^ value[row + z]
            slot, mode = row + y, y
            for _half in range(2):
                # Take the slot out of its bucket. A single equal neighbour may lose its only partner.
                old = value[slot]
                after, before = np.uint64(links[U2 * slot]), np.uint64(links[U2 * slot + U1])
                links[U2 * before] = after
                links[U2 * after + U1] = before
                left, right = value[before] == old, value[after] == old
                if left != right:
                    lone = before if left else after
                    if value[links[U2 * lone]] != old and value[links[U2 * lone + U1]] != old:
                        alive -= U1
                        last = active[alive]
                        active[place[lone]] = last
                        place[last] = place[lone]
                        place[lone] = NONE
                # Put it behind the first equal slot, or at the head of the bucket of its new factor.
                value[slot] = new
                head = slots + mode * buckets + ((new * HASH) >> shift)
                near = np.uint64(links[U2 * head])
                while near != head and value[near] != new:
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
                    while value[near] == new:
                        twin = near - mode
                        same_a = value[row] == value[twin]
                        same_b = value[row + U1] == value[twin + U1]
                        same_c = value[row + U2] == value[twin + U2]
                        if same_a + same_b + same_c >= 2 and twin != row:
                            dirty = True
                        near = np.uint64(links[U2 * near])
                elif left or right:
                    alive -= U1
                    last = active[alive]
                    active[place[slot]] = last
                    place[last] = place[slot]
                    place[slot] = NONE
                slot, new, mode = other + z, second, z
            if dirty:
                break
        flips += steps - begun
        plus_left -= steps - begun
        if dirty:
            continue

        if steps >= budget or np.int64(rank) <= target:
            break
        if np.int64(rank) == counters[BEST]:
            for part in range(U4 * rank):
                best[part] = value[part]
        if reduce:
            fewer = reduce_f2(value, links, active, alive, rank)
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
                more, x = split_f2(value, links, active, alive, rank, x)
            else:
                more, x = plus_f2(value, rank, x)
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
