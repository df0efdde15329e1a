"""Random walk on the orbits of the cyclic shift with transpose over F2, for square formats.

In trace form, trace(A B C) = sum a_ij b_jk c_ki, the tensor is invariant under a(x)b(x)c -> b(x)c(x)a and under
a(x)b(x)c -> c^T(x)b^T(x)a^T, which generate a group of order 6 (named as a choice of symmetry by Moosbauer-Poole 2025,
arXiv 2502.04514). A scheme that both map to itself consists of

* orbits of six products abc, bca, cab, c^Tb^Ta^T, b^Ta^Tc^T, a^Tc^Tb^T,
* orbits of three that are their own transpose: aba^T with b = b^T, in its three turns,
* cubes xxx, invariant where x = x^T, else in pairs with the transposed one.

An orbit of six is two rows, abc and its transpose c^Tb^Ta^T, one of three is one row. Slot ``4 * row + place`` holds
a factor, and ``4 * row + 3`` the first slot of the row's transpose, its own for an orbit of three. All slots share one
hash table, as in ``search.walks.walk_symmetric``, and what is done to rows is done to their transposes:

* Two rows of orbits of six flip as usual.
* abc with b = b^T flips with its own transpose: a becomes a + c^T.
* aba^T, of three, with ab'c, of six: b becomes b + b' + b'^T, and c becomes c + a^T.

Reductions are in ``search.walks.reduce_z3t``, plus transitions and exchanges in ``search.walks.rare_z3t``. Letters in
shapes: ``S`` slots, ``H`` buckets (a power of two), ``K`` cubes.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, PLUS_LEFT, RANK, STEPS, STUCK
from search.walks.rare_z3t import exchange_z3t, plus_z3t
from search.walks.reduce_z3t import tidy_z3t
from search.walks.unsigned import HASH, NONE, STAR, U0, U1, U2, U3, U7, U13, U17, U32, U64

# Steps between exchanges, and trials each time, as most find no orbits that fit. A trial looks through all rows, which
# once in so many flips is lost in their time. Neither number is tuned: with Z3A on 4x4x4 (12 walks of a million steps)
# and 5x5x5 (8 of two million) the lowest ranks with 64 or 1024 steps, with one trial and without any exchange differ no
# more than by chance.
EXCHANGE = 256
TRIALS = 4


@kernel
def walk_z3t(
    value, cubes, links, active, place, best, best_cubes, counters, rng, budget, target, plus_interval, margin
):
    """Continue a walk for at most ``budget`` steps; stop at once when its rank falls to ``target``.

    A step is a flip of two orbits or of one with its transpose, a draw of equal factors that do not allow one, which
    changes nothing, or a plus.

    Args:
        value: [S + H] uint64. Factor of every slot and transpose of every row; zero in the bucket heads that follow.
        cubes: [K] uint64. The cubes, zeros after them.
        links: [2 * (S + H)] uint32. Successor and predecessor of every slot and bucket head.
        active: [S] uint32. Slots that have an equal one beside them, in the first ``counters[ACTIVE]`` places.
        place: [S] uint32. Place of every slot in ``active``.
        best: [S] uint64. The rows of the scheme of rank ``counters[BEST]`` at the latest plus or, before one, of the
            first.
        best_cubes: [K] uint64. Its cubes, zeros after them.
        counters: [8] int64. Ranks count products; a negative ``ACTIVE`` asks for the table to be built.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        budget: steps.
        target: rank at which to stop.
        plus_interval: mean number of steps between plus transitions; each is uniform in 1/2..3/2 of it.
        margin: a plus leads to at most this many orbits of six more than the lowest rank has.
    """
    slots = np.uint64(active.size)
    buckets = np.uint64(value.size - active.size)
    shift = U64
    while (U1 << (U64 - shift)) < buckets:
        shift -= U1
    cubic = 0
    while cubic < cubes.size and cubes[cubic] != U0:
        cubic += 1
    rows = (counters[RANK] - cubic) // 3
    alive = np.uint64(max(counters[ACTIVE], 0))
    dirty = counters[ACTIVE] < 0
    plus_left = counters[PLUS_LEFT]
    steps, flips = 0, 0
    x = rng[0]
    counters[STUCK] = 0
    while True:
        if dirty:
            rows, cubic, left_alive = tidy_z3t(value, cubes, links, active, place, rows)
            alive = np.uint64(left_alive)
            dirty = False
        rank = 3 * rows + cubic
        if rank < counters[BEST]:
            counters[BEST] = rank
            counters[BEST_AT] = counters[STEPS] + steps
            for part in range(4 * rows):
                best[part] = value[part]
            for part in range(cubes.size):
                best_cubes[part] = cubes[part]

        # Exchanges come at fixed steps, so that it does not matter how a walk is cut into calls.
        pause = EXCHANGE - (counters[STEPS] + steps) % EXCHANGE
        until = min(budget, steps + min(plus_left, pause)) if rank > target else steps
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
            mode = slot & U3
            row = slot - mode
            pair = value[row + U3]
            found = False
            mate, turned, other, pair_other = slot, mode, row, pair
            for _side in range(2):
                mate = np.uint64(links[U2 * slot + side])
                turned = mate & U3
                other = mate - turned
                if value[mate] == value[slot] and other != row:
                    pair_other = value[other + U3]
                    if pair_other != other:
                        found = pair != row or mode != U1
                    else:
                        found = pair != row and turned != U1
                if found:
                    break
                side ^= U1
            if not found:
                idle += 1
                continue
            ahead = U1 + ((random >> U1) & U1)
            if pair_other == other:
                mode, row, pair, turned, other, pair_other = turned, other, pair_other, mode, row, pair
            if pair == row:
                ahead = U1 + (mode >> U1)  # to place 1
            y, y_other = mode + ahead, turned + ahead
            if y >= U3:
                y -= U3
            if y_other >= U3:
                y_other -= U3
            z, z_other = U3 - mode - y, U3 - turned - y_other
            # The factors in these slots change, and so do their transposes.
            slot, slot_2 = row + y, other + z_other
            slot_3, slot_4 = pair_other + U2 - z_other, pair + U2 - y
            new = value[slot] ^ value[other + y_other]
            new_2 = value[slot_2] ^ value[row + z]
            new_3 = value[slot_3] ^ value[pair + U2 - z]
            new_4 = value[slot_4] ^ value[pair_other + U2 - y_other]
            changes = 4
            if pair == row:
                new ^= value[pair_other + U2 - y_other]
                changes = 3
            elif pair == other:
                changes = 2
            for _change in range(changes):
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
                if near != head and new != U0:
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
                    pair = value[row + U3]
                    while value[near] == new:
                        turned = near & U3
                        twin = near - turned
                        y = turned + U1 if turned < U2 else U0
                        if value[twin + y] == ahead_value or value[twin + U3 - turned - y] == behind_value:
                            if twin != row or ahead_value == behind_value:
                                dirty = True
                        if twin == pair and twin != row and mode + turned != U2:
                            dirty = True
                        near = np.uint64(links[U2 * near])
                elif left or right:
                    alive -= U1
                    last = active[alive]
                    active[place[slot]] = last
                    place[last] = place[slot]
                    place[slot] = NONE
                if new == U0:
                    dirty = True
                slot, slot_2, slot_3 = slot_2, slot_3, slot_4
                new, new_2, new_3 = new_2, new_3, new_4
            if dirty:
                break
        flips += steps - begun - idle
        plus_left -= steps - begun
        if dirty:
            continue

        if (counters[STEPS] + steps) % EXCHANGE == 0 and steps > begun and rank > target:
            for _trial in range(TRIALS):
                if not dirty:
                    dirty, x = exchange_z3t(value, rows, x)
        if dirty:
            continue
        if steps >= budget or rank <= target:
            break
        if plus_left > 0 and alive > U0:
            continue
        if rank == counters[BEST]:
            for part in range(4 * rows):
                best[part] = value[part]
            for part in range(cubes.size):
                best_cubes[part] = cubes[part]
        # Where no flip is left a plus may exceed the margin, else the walk has ended.
        drawn = x
        limit = counters[BEST] + 6 * margin + (0 if alive > U0 else 12)
        stuck = alive == U0
        if rank + 6 <= limit and rows > 1:
            more, x = plus_z3t(value, active.size, rows, x)
            if more > rows:
                rows, stuck, dirty = more, False, True
        if stuck:
            counters[STUCK] = 1
            x = drawn  # so that another call ends alike
            break
        steps += alive == U0
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        plus_left = plus_interval // 2 + np.int64((((x * STAR) >> U32) * np.uint64(plus_interval)) >> U32) + 1
    counters[RANK] = 3 * rows + cubic
    counters[ACTIVE] = np.int64(alive)
    counters[PLUS_LEFT] = plus_left
    counters[STEPS] += steps
    counters[FLIPS] += flips
    rng[0] = x
