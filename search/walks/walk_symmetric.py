"""Random walk on the orbits of the cyclic shift over F2, for square formats (Moosbauer-Poole 2025, arXiv 2502.04514).

In trace form, trace(A B C) = sum a_ij b_jk c_ki, the three factors of a term are n x n matrices of one space, and
a(x)b(x)c -> b(x)c(x)a maps the tensor to itself. A scheme that this shift maps to itself consists of orbits {a(x)b(x)c,
b(x)c(x)a, c(x)a(x)b}, three products each, and of invariant cubes x(x)x(x)x. The flips, reductions and plus transitions
of ``search.walks.walk_f2`` are done to whole orbits: two of them are turned until they share a factor in the same
place.

A factor is one 64-bit mask, entry (i, j) in bit i * n + j. Slot ``4 * row + place`` holds one factor of one orbit. All
slots share one hash table, whatever their place, as any place of one orbit can be turned to any of another. Everything
else is as in ``search.walks.walk_f2``. Letters in shapes: ``S`` slots, ``H`` buckets (a power of two), ``K`` cubes.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, PLUS_LEFT, RANK, STEPS, STUCK
from search.walks.rare_symmetric import exchange_cubes, plus_symmetric
from search.walks.unsigned import HASH, NONE, STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32, U56, U64


@kernel
def walk_symmetric(
    value, cubes, links, active, place, best, best_cubes, counters, rng, budget, target, plus_interval, margin, exchange
):
    """Continue a walk for at most ``budget`` steps; stop at once when its rank falls to ``target``.

    A step is a flip of two orbits, a draw of two equal factors of one orbit, which changes nothing, or a plus.

    Args:
        value: [S + H] uint64. Factor of every slot; zero in the bucket heads that follow the slots.
        cubes: [K] uint64. The cubes, zeros after them.
        links: [2 * (S + H)] uint32. Successor and predecessor of every slot and bucket head.
        active: [S] uint32. Slots that have an equal one beside them, in the first ``counters[ACTIVE]`` places.
        place: [S] uint32. Place of every slot in ``active``.
        best: [S] uint64. The orbits of the scheme of rank ``counters[BEST]`` at the latest plus or, before one, of the
            first.
        best_cubes: [K] uint64. Its cubes, zeros after them.
        counters: [8] int64. Ranks count products; a negative ``ACTIVE`` asks for the table to be built.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        budget: steps.
        target: rank at which to stop.
        plus_interval: mean number of steps between plus transitions; each is uniform in 1/2..3/2 of it.
        margin: a plus leads to at most this many orbits more than the lowest rank has.
        exchange: how many of 256 plus transitions are exchanges of orbits and cubes instead.
    """
    slots = np.uint64(active.size)
    buckets = np.uint64(value.size - active.size)
    shift = U64
    while (U1 << (U64 - shift)) < buckets:
        shift -= U1
    cubic = U0
    while cubic < np.uint64(cubes.size) and cubes[cubic] != U0:
        cubic += U1
    orbits = (np.uint64(counters[RANK]) - cubic) // U3
    alive = np.uint64(max(counters[ACTIVE], 0))
    dirty = counters[ACTIVE] < 0
    plus_left = counters[PLUS_LEFT]
    steps, flips = 0, 0
    x = rng[0]
    counters[STUCK] = 0
    while True:
        # After a change of rank: build the table anew and merge orbits that agree in two places. The earlier of two
        # such orbits takes the sum of the third factors and the later one goes, as does one with a zero factor. An
        # orbit of three equal factors is three times one cube, hence that cube.
        while dirty:
            dirty = False
            alive = U0
            gone = U0
            for head in range(slots, np.uint64(value.size)):
                links[U2 * head] = head
                links[U2 * head + U1] = head
            for cell in range(U0, U4 * orbits):
                slot = np.uint64(cell)
                mode = slot & U3
                if mode == U3:
                    continue
                row = slot - mode
                new = value[slot]
                if new == U0:
                    gone, dirty = row, True
                    break
                if value[row] == value[row + U1] and value[row] == value[row + U2]:
                    found = U0
                    while found < cubic and cubes[found] != new:
                        found += U1
                    if found < cubic:
                        cubic -= U1
                        cubes[found] = cubes[cubic]
                        cubes[cubic] = U0
                        gone, dirty = row, True
                        break
                    if cubic < np.uint64(cubes.size):
                        cubes[cubic] = new
                        cubic += U1
                        gone, dirty = row, True
                        break
                head = slots + ((new * HASH) >> shift)
                near = np.uint64(links[U2 * head])
                while near != head and value[near] != new:
                    near = np.uint64(links[U2 * near])
                place[slot] = NONE
                if near != head:
                    mate = near
                    while value[mate] == new:
                        turned = mate & U3
                        other = mate - turned
                        if other != row:
                            next_mine = row + (mode + U1 if mode < U2 else U0)
                            next_other = other + (turned + U1 if turned < U2 else U0)
                            last_mine = row + U3 - mode - (next_mine - row)
                            last_other = other + U3 - turned - (next_other - other)
                            if value[next_mine] == value[next_other]:
                                value[last_other] ^= value[last_mine]
                                gone, dirty = row, True
                                break
                            if value[last_mine] == value[last_other]:
                                value[next_other] ^= value[next_mine]
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
                orbits -= U1
                for part in range(U3):
                    value[gone + part] = value[U4 * orbits + part]
        rank = np.int64(U3 * orbits + cubic)
        if rank < counters[BEST]:
            counters[BEST] = rank
            counters[BEST_AT] = counters[STEPS] + steps
            for part in range(U4 * orbits):
                best[part] = value[part]
            for part in range(cubes.size):
                best_cubes[part] = cubes[part]

        until = min(budget, steps + plus_left) if rank > target else steps
        begun = steps
        idle = 0
        while steps < until and alive > U0:
            steps += 1
            x ^= x << U13
            x ^= x >> U7
            x ^= x << U17
            random = x * STAR
            slot = np.uint64(active[((random >> U32) * alive) >> U32])
            side = random & U1
            mate = np.uint64(links[U2 * slot + side])
            mode = slot & U3
            row = slot - mode
            turned = mate & U3
            other = mate - turned
            if value[mate] != value[slot] or other == row:
                mate = np.uint64(links[U2 * slot + (side ^ U1)])
                turned = mate & U3
                other = mate - turned
                if value[mate] != value[slot] or other == row:
                    idle += 1
                    continue
            # a b c + a b' c' = a (b + b') c + a b' (c' - c), where a is the factor in ``slot`` and in ``mate``.
            ahead = U1 + ((random >> U1) & U1)
            y, y_other = mode + ahead, turned + ahead
            if y >= U3:
                y -= U3
            if y_other >= U3:
                y_other -= U3
            z_slot = other + U3 - turned - y_other
            new = value[row + y] ^ value[other + y_other]
            second = value[z_slot] ^ value[row + U3 - mode - y]
            slot = row + y
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
                head = slots + ((new * HASH) >> shift)
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
                    mode = slot & U3
                    row = slot - mode
                    y = mode + U1 if mode < U2 else U0
                    ahead_value, behind_value = value[row + y], value[row + U3 - mode - y]
                    while value[near] == new:
                        turned = near & U3
                        twin = near - turned
                        y = turned + U1 if turned < U2 else U0
                        if value[twin + y] == ahead_value or value[twin + U3 - turned - y] == behind_value:
                            if twin != row or ahead_value == behind_value:
                                dirty = True
                        near = np.uint64(links[U2 * near])
                elif left or right:
                    alive -= U1
                    last = active[alive]
                    active[place[slot]] = last
                    place[last] = place[slot]
                    place[slot] = NONE
                slot, new = z_slot, second
            if dirty:
                break
        flips += steps - begun - idle
        plus_left -= steps - begun
        if dirty:
            continue

        if steps >= budget or rank <= target:
            break
        if rank == counters[BEST]:
            for part in range(U4 * orbits):
                best[part] = value[part]
            for part in range(cubes.size):
                best_cubes[part] = cubes[part]
        # Where no flip is left a plus may exceed the margin, else the walk has ended.
        drawn = x
        limit = counters[BEST] + 3 * margin + (0 if alive > U0 else 6)
        exchanges = False
        if exchange:
            x ^= x << U13
            x ^= x >> U7
            x ^= x << U17
            exchanges = (x * STAR) >> U56 < np.uint64(exchange)
        if exchanges:
            state = np.int64(orbits), np.int64(cubic), limit - rank, x
            more, cubic_now, dirty, x = exchange_cubes(value, cubes, active.size, *state)
            orbits, cubic = np.uint64(more), np.uint64(cubic_now)
        if not dirty and rank + 3 <= limit and U4 * orbits < slots:
            dirty, x = plus_symmetric(value, orbits, x)
            orbits += np.uint64(dirty)
        stuck = alive == U0 and not dirty
        if stuck:
            counters[STUCK] = 1
            x = drawn  # so that another call ends alike
            break
        steps += alive == U0
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        plus_left = plus_interval // 2 + np.int64((((x * STAR) >> U32) * np.uint64(plus_interval)) >> U32) + 1
    counters[RANK] = np.int64(U3 * orbits + cubic)
    counters[ACTIVE] = np.int64(alive)
    counters[PLUS_LEFT] = plus_left
    counters[STEPS] += steps
    counters[FLIPS] += flips
    rng[0] = x
