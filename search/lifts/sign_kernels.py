"""The compiled descent of ``search.lifts.signs``."""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.unsigned import U1, U7, U13, U17, U32, U64

OPEN, SOLVED = -2, -1
_MINUS = U1 << (U64 - U1)


@kernel
def descend(forms, products, starts, odd, weights, done, values, members, random, decisions, rounds):
    """Restrict the free signs until every equation's products cancel in pairs, whatever signs are left free.

    Letters in shapes: s signs, w words of a form, p products, e equations, c products of the longest equation.

    Args:
        forms: [s, w + 1] uint64, every sign as a sum of free signs, a bit for each. The last word is a hash of the
            other ones without its highest bit, and in that bit the constant. Changed in place.
        products: [p, 3] int32, the three signs that a product consists of, those of an equation next to each other.
        starts: [e + 1] int64, where an equation's products begin.
        odd: [e] int64, 1 where the products should add up to 1, 0 where to nothing.
        weights: [e] int64. Of equations with as many different products the heavier one is decided first.
        done: [e] uint8, equations that hold already; changed in place.
        values: [c + 1] uint64, overwritten.
        members: [c + 1] int64, overwritten.
        random: [1] uint64, non-zero state of a xorshift generator.
        decisions: [1] int64, counts the restrictions that were chosen among several.
        rounds: how many restrictions to make at most.

    Returns:
        An equation that cannot hold any more, or SOLVED, or OPEN after all ``rounds``.
    """
    last = forms.shape[1] - 1
    restriction = np.zeros(last + 1, dtype=np.uint64)
    x = random[0]
    for _ in range(rounds):
        first, second, chosen = -1, -1, -1
        fewest, heaviest = 1 << 62, 0
        for e in range(done.size):
            if done[e] != 0:
                continue
            # What is left of the equation when opposite products have cancelled. A 1 on its right is one more of -1.
            left = 0
            for p in range(starts[e], starts[e + 1] + odd[e]):
                value = _MINUS
                if p < starts[e + 1]:
                    value = forms[products[p, 0], last] ^ forms[products[p, 1], last] ^ forms[products[p, 2], last]
                i = 0
                while i < left and values[i] != value ^ _MINUS:
                    i += 1
                if i < left:
                    left -= 1
                    values[i], members[i] = values[left], members[left]
                else:
                    values[left], members[left] = value, p
                    left += 1
            if left == 0:
                done[e] = 1
                continue
            different, most, common = 0, 0, 0
            for i in range(left):
                count, earlier = 0, 0
                for j in range(left):
                    if values[j] == values[i]:
                        count += 1
                        earlier += j < i
                different += earlier == 0
                if count > most:
                    most, common = count, i
            if 2 * most > left:
                random[0] = x
                return e
            forced = 2 * most == left
            if forced or different < fewest or (different == fewest and weights[e] > heaviest):
                fewest, heaviest, chosen = different, weights[e], e
                x ^= x << U13
                x ^= x >> U7
                x ^= x << U17
                other = np.int64((x >> U32) % np.uint64(left))
                while values[other] == values[common]:
                    other = other + 1 if other + 1 < left else np.int64(0)
                first, second = members[common], members[other]
            if forced:
                break
        random[0] = x
        if chosen < 0:
            return SOLVED
        decisions[0] += not forced
        # The two products shall be opposite; solve that for one of the free signs.
        restriction[:] = 0
        restriction[last] = _MINUS
        for p in (first, second):
            if p == starts[chosen + 1]:
                restriction[last] ^= _MINUS
            else:
                for part in range(3):
                    for j in range(last + 1):
                        restriction[j] ^= forms[products[p, part], j]
        word = 0
        while word < last - 1 and restriction[word] == 0:
            word += 1
        bit = restriction[word] & (~restriction[word] + U1)
        for s in range(forms.shape[0]):
            if (forms[s, word] & bit) != 0:
                for j in range(last + 1):
                    forms[s, j] ^= restriction[j]
    return OPEN
