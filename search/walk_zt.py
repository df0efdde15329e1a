"""Random walk in the flip graph over Z whose coefficients stay in {-1, 0, 1}.

The table is that of ``search.walk_f2``; a factor is two masks here, of its non-zero entries and of its negative ones.
The lowest non-zero entry of every factor is kept positive, so that equality up to sign is equality of masks; the sign
of a whole term stands in the spare slot ``4 * row + 3`` of ``sign``. A flip, a plus or a merge that would leave
{-1, 0, 1} is not made. Two rows may therefore agree in two modes for a while, until their sum fits.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walk_f2 import _0, _1, _2, _3, _4, _7, _13, _17, _32, _64, _HASH, _NONE, _STAR
from search.walk_f2 import ACTIVE, BEST, BEST_AT, FLIPS, PLUS_LEFT, RANK, STEPS, STUCK

_16 = np.uint64(16)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)


@kernel
def walk_zt(value, sign, links, active, place, best, counters, rng, budget, target, plus_interval, margin):
    """Continue a walk for at most ``budget`` steps; stop at once when its rank falls to ``target``.

    Two calls of N steps leave exactly what one call of 2N steps leaves.

    Args:
        value: [S + 3*H] uint64. Non-zero entries of every slot; zero in the bucket heads that follow the slots.
        sign: [S + 3*H] uint64. Negative entries of every slot; in slot ``4 * row + 3`` one for a negative term.
        links: [2 * (S + 3*H)] uint32. As for ``walk_f2``.
        active: [S] uint32. As for ``walk_f2``.
        place: [S] uint32. As for ``walk_f2``.
        best: [2 * S] uint64. Value and then sign of the latest scheme of rank ``counters[BEST]``.
        counters: [8] int64. As for ``walk_f2``; of the steps only the legal flips count as ``FLIPS``.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        budget: steps; a step is an attempted flip or, where no pair exists, a plus.
        target: rank at which to stop.
        plus_interval: mean number of steps between plus transitions; each is uniform in 1/2..3/2 of it.
        margin: a plus needs a rank below the lowest one plus this margin.
    """
    slots = np.uint64(active.size)
    buckets = np.uint64((value.size - active.size) // 3)
    shift = _64
    while (_1 << (_64 - shift)) < buckets:
        shift -= _1
    rank = np.uint64(counters[RANK])
    alive = np.uint64(max(counters[ACTIVE], 0))
    dirty = counters[ACTIVE] < 0
    plus_left = counters[PLUS_LEFT]
    steps, flips = 0, 0
    x = rng[0]
    counters[STUCK] = 0
    while True:
        while dirty:  # build the table anew and merge what can be merged
            dirty = False
            alive = _0
            gone = _0
            for head in range(slots, np.uint64(value.size)):
                links[_2 * head] = head
                links[_2 * head + _1] = head
            for slot in range(_4 * rank):
                mode = slot & _3
                if mode == _3:
                    continue
                row = slot - mode
                new, minus = value[slot], sign[slot]
                if new == _0:
                    gone, dirty = row, True
                    break
                lowest = new & (~new + _1)
                if minus & lowest:
                    minus ^= new
                    sign[slot] = minus
                    sign[row + _3] ^= _1
                head = slots + mode * buckets + (((new ^ (minus * _TURN)) * _HASH) >> shift)
                near = np.uint64(links[_2 * head])
                while near != head and (value[near] != new or sign[near] != minus):
                    near = np.uint64(links[_2 * near])
                place[slot] = _NONE
                if near != head:
                    place[slot] = alive
                    active[alive] = slot
                    alive += _1
                    if place[near] == _NONE:
                        place[near] = alive
                        active[alive] = near
                        alive += _1
                after = np.uint64(links[_2 * near])
                links[_2 * slot] = after
                links[_2 * slot + _1] = near
                links[_2 * near] = slot
                links[_2 * after + _1] = slot
                if mode != _2:
                    continue
                # The row is in normal form now: look along its three buckets for a row that it can be merged with.
                for own in range(row, row + _3):
                    for side in range(_2):
                        mate = np.uint64(links[_2 * own + side])
                        while value[mate] == value[own] and sign[mate] == sign[own] and not dirty:
                            other = mate - (own - row)
                            same_a = value[row] == value[other] and sign[row] == sign[other]
                            same_b = value[row + _1] == value[other + _1] and sign[row + _1] == sign[other + _1]
                            same_c = value[row + _2] == value[other + _2] and sign[row + _2] == sign[other + _2]
                            if same_a + same_b + same_c >= 2:
                                third = _2 if same_a and same_b else (_1 if same_a else _0)
                                new = value[row + third]
                                minus = sign[row + third] ^ (new * (sign[row + _3] ^ sign[other + _3]))
                                common = new & value[other + third]
                                if common & ~(minus ^ sign[other + third]) == _0:
                                    value[other + third] ^= new
                                    sign[other + third] = (sign[other + third] | minus) & value[other + third]
                                    gone, dirty = row, True
                            mate = np.uint64(links[_2 * mate + side])
                if dirty:
                    break
            if dirty:
                rank -= _1
                for mode in range(_4):
                    value[gone + mode] = value[_4 * rank + mode]
                    sign[gone + mode] = sign[_4 * rank + mode]
        if np.int64(rank) < counters[BEST]:
            counters[BEST] = np.int64(rank)
            counters[BEST_AT] = counters[STEPS] + steps

        until = min(budget, steps + plus_left) if np.int64(rank) > target else steps
        begun = steps
        while steps < until and alive > _0:
            steps += 1
            x ^= x << _13
            x ^= x >> _7
            x ^= x << _17
            random = x * _STAR
            slot = np.uint64(active[((random >> _32) * alive) >> _32])
            side = random & _1
            mate = np.uint64(links[_2 * slot + side])
            if value[mate] != value[slot] or sign[mate] != sign[slot]:
                mate = np.uint64(links[_2 * slot + (side ^ _1)])
            # e a b c + e' a b' c' = e a (b + s b') c + e' a b' (c' - e e' s c) for either sign s.
            mode = slot & _3
            row, other = slot - mode, mate - mode
            y = mode + _1 + ((random >> _1) & _1)
            if y >= _3:
                y -= _3
            z = _3 - mode - y
            turn = (random >> _2) & _1
            minus = sign[other + y] ^ (value[other + y] * turn)
            clash = value[row + y] & value[other + y] & ~(sign[row + y] ^ minus)
            turn ^= _1 ^ sign[row + _3] ^ sign[other + _3]
            minus2 = sign[row + z] ^ (value[row + z] * turn)
            clash |= value[row + z] & value[other + z] & ~(sign[other + z] ^ minus2)
            if clash != _0:
                continue
            flips += 1
            new = value[row + y] ^ value[other + y]
            minus = (sign[row + y] | minus) & new
            second = value[other + z] ^ value[row + z]
            minus2 = (sign[other + z] | minus2) & second
            if new == _0 or second == _0:  # a merge that had not fitted before
                value[row + y], sign[row + y] = new, minus
                value[other + z], sign[other + z] = second, minus2
                dirty = True
                break
            if minus & new & (~new + _1):
                minus ^= new
                sign[row + _3] ^= _1
            if minus2 & second & (~second + _1):
                minus2 ^= second
                sign[other + _3] ^= _1
            slot, mode = row + y, y
            for _half in range(2):
                old, old_minus = value[slot], sign[slot]
                after, before = np.uint64(links[_2 * slot]), np.uint64(links[_2 * slot + _1])
                links[_2 * before] = after
                links[_2 * after + _1] = before
                left = value[before] == old and sign[before] == old_minus
                right = value[after] == old and sign[after] == old_minus
                if left != right:
                    lone = before if left else after
                    one, two = np.uint64(links[_2 * lone]), np.uint64(links[_2 * lone + _1])
                    if (value[one] != old or sign[one] != old_minus) and (value[two] != old or sign[two] != old_minus):
                        alive -= _1
                        last = active[alive]
                        active[place[lone]] = last
                        place[last] = place[lone]
                        place[lone] = _NONE
                value[slot], sign[slot] = new, minus
                head = slots + mode * buckets + (((new ^ (minus * _TURN)) * _HASH) >> shift)
                near = np.uint64(links[_2 * head])
                while near != head and (value[near] != new or sign[near] != minus):
                    near = np.uint64(links[_2 * near])
                after = np.uint64(links[_2 * near])
                links[_2 * slot] = after
                links[_2 * slot + _1] = near
                links[_2 * near] = slot
                links[_2 * after + _1] = slot
                if near != head:
                    if not (left or right):
                        place[slot] = alive
                        active[alive] = slot
                        alive += _1
                    if place[near] == _NONE:
                        place[near] = alive
                        active[alive] = near
                        alive += _1
                    row = slot - mode
                    while value[near] == new and sign[near] == minus:
                        twin = near - mode
                        same_a = value[row] == value[twin] and sign[row] == sign[twin]
                        same_b = value[row + _1] == value[twin + _1] and sign[row + _1] == sign[twin + _1]
                        same_c = value[row + _2] == value[twin + _2] and sign[row + _2] == sign[twin + _2]
                        if same_a + same_b + same_c >= 2 and twin != row:
                            third = _2 if same_a and same_b else (_1 if same_a else _0)
                            turned = sign[row + third] ^ (value[row + third] * (sign[row + _3] ^ sign[twin + _3]))
                            common = value[row + third] & value[twin + third]
                            if common & ~(turned ^ sign[twin + third]) == _0:
                                dirty = True
                        near = np.uint64(links[_2 * near])
                elif left or right:
                    alive -= _1
                    last = active[alive]
                    active[place[slot]] = last
                    place[last] = place[slot]
                    place[slot] = _NONE
                slot, new, minus, mode = other + z, second, minus2, z
            if dirty:
                break
        plus_left -= steps - begun
        if dirty:
            continue

        if np.int64(rank) == counters[BEST]:
            for slot in range(_4 * rank):
                best[slot] = value[slot]
                best[slots + slot] = sign[slot]
        if steps >= budget or np.int64(rank) <= target:
            break
        # Plus: e a b c + e' a' b' c' = e t (a + s a') (t b) c + e' a' b' (c' - e e' s t c) + e s t a' (b' - t b) c.
        limit = counters[BEST] + margin + (0 if alive > _0 else 2)
        stuck = alive == _0
        if np.int64(rank) < limit and _4 * rank < slots:
            for _trial in range(64):
                x ^= x << _13
                x ^= x >> _7
                x ^= x << _17
                row = _4 * ((((x * _STAR) >> _32) * rank) >> _32)
                x ^= x << _13
                x ^= x >> _7
                x ^= x << _17
                random = x * _STAR
                other = _4 * (((random >> _32) * rank) >> _32)
                mode = (random & _7) % _3
                y, z = (mode + _1) % _3, (mode + _2) % _3
                s, t = (random >> _4) & _1, (random >> _7) & _1
                ends = sign[row + _3] ^ sign[other + _3]
                va, vb, vc = value[row + mode], value[row + y], value[row + z]
                wa, wb, wc = value[other + mode], value[other + y], value[other + z]
                sa, sb, sc = sign[other + mode], sign[row + y], sign[row + z]
                minus = sa ^ (wa * s)
                minus2 = sc ^ (vc * (_1 ^ ends ^ s ^ t))
                minus3 = sb ^ (vb * (_1 ^ t))
                clash = va & wa & ~(sign[row + mode] ^ minus)
                clash |= vc & wc & ~(sign[other + z] ^ minus2)
                clash |= vb & wb & ~(sign[other + y] ^ minus3)
                if clash == _0 and va != wa and vb != wb and vc != wc:
                    extra = _4 * rank
                    value[extra + mode], sign[extra + mode] = wa, sa
                    value[extra + y], sign[extra + y] = wb ^ vb, (sign[other + y] | minus3) & (wb ^ vb)
                    value[extra + z], sign[extra + z] = vc, sc
                    sign[extra + _3] = sign[row + _3] ^ s ^ t
                    value[other + z], sign[other + z] = wc ^ vc, (sign[other + z] | minus2) & (wc ^ vc)
                    value[row + mode], sign[row + mode] = va ^ wa, (sign[row + mode] | minus) & (va ^ wa)
                    # t (t b) = b: the sign t of this row's factor and of its term cancel.
                    rank += _1
                    stuck, dirty = False, True
                    break
        if stuck:
            counters[STUCK] = 1
            break
        steps += alive == _0
        x ^= x << _13
        x ^= x >> _7
        x ^= x << _17
        plus_left = plus_interval // 2 + np.int64((((x * _STAR) >> _32) * np.uint64(plus_interval)) >> _32) + 1
    counters[RANK] = np.int64(rank)
    counters[ACTIVE] = np.int64(alive)
    counters[PLUS_LEFT] = plus_left
    counters[STEPS] += steps
    counters[FLIPS] += flips
    rng[0] = x
