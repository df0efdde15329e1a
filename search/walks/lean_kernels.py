"""Kernels of the walk for few additions: greedy elimination of common subexpressions and moves of equal rank.

A ternary factor is two masks, of its positive and of its negative entries. The cost of a scheme is the number of
additions of the planes of all three modes, each after its own greedy elimination; by transposition (Tellegen) a
program for the rows of W costs r - m*n more than one for its columns, whatever the scheme, so the sum is the right
measure up to a constant.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.unsigned import STAR, U1, U7, U13, U17, U32


@kernel
def planes_cost(plus, minus, width, coefficients, counts, x):
    """Additions of the planes of one mode after greedy elimination, ties broken at random.

    Args:
        plus: [r] int64. Positive entries of every factor.
        minus: [r] int64. Negative entries.
        width: entries of a factor.
        coefficients: [r, L] int8, scratch; L bounds the values, inputs and sums.
        counts: [L, L, 2] int16, scratch.
        x: state of the xorshift generator.

    Returns:
        The additions, and the generator's state.
    """
    rows = 0
    size = coefficients.shape[1]
    additions = 0
    for term in range(plus.size):
        both = plus[term] | minus[term]
        if both & (both - 1) == 0:
            continue
        # Equal planes up to sign are one.
        fresh = True
        for other in range(term):
            if plus[other] == plus[term] and minus[other] == minus[term]:
                fresh = False
                break
            if plus[other] == minus[term] and minus[other] == plus[term]:
                fresh = False
                break
        if not fresh:
            continue
        for i in range(size):
            coefficients[rows, i] = 0
        for i in range(width):
            coefficients[rows, i] = ((plus[term] >> i) & 1) - ((minus[term] >> i) & 1)
            additions += coefficients[rows, i] != 0
        additions -= 1
        rows += 1
    counts[:] = 0
    for row in range(rows):
        for i in range(width):
            if coefficients[row, i]:
                for j in range(i + 1, width):
                    if coefficients[row, j]:
                        counts[i, j, int(coefficients[row, i] != coefficients[row, j])] += 1
    values = width
    while values < size:
        most, ties, left, right, turned = 1, 0, 0, 0, 0
        for i in range(values):
            for j in range(i + 1, values):
                for sign in range(2):
                    count = counts[i, j, sign]
                    if count > most:
                        most, ties, left, right, turned = count, 1, i, j, sign
                    elif count == most and most > 1:
                        ties += 1
                        x ^= x << U13
                        x ^= x >> U7
                        x ^= x << U17
                        if (((x * STAR) >> U32) * np.uint64(ties)) >> U32 == 0:
                            left, right, turned = i, j, sign
        if most < 2:
            break
        additions -= most - 1
        for row in range(rows):
            a, b = coefficients[row, left], coefficients[row, right]
            if a == 0 or b == 0 or int(a != b) != turned:
                continue
            coefficients[row, left] = 0
            coefficients[row, right] = 0
            counts[left, right, turned] -= 1
            for other in range(values):
                c = coefficients[row, other]
                if c:
                    counts[min(left, other), max(left, other), int(a != c)] -= 1
                    counts[min(right, other), max(right, other), int(b != c)] -= 1
                    counts[other, values, int(a != c)] += 1
            coefficients[row, values] = a
        values += 1
    return additions, x


@kernel
def lean_walk(plus, minus, sizes, best, costs, rng, steps, hot, cold):
    """Anneal a ternary scheme among those of equal rank: flips and elementary changes of basis.

    Args:
        plus: [3, r] int64. Positive entries of the factors, changed in place.
        minus: [3, r] int64. Negative entries.
        sizes: [3] int64. The format m, k, n.
        best: [2, 3, r] int64. The masks of the scheme of least cost so far, kept up to date.
        costs: [2] int64. Cost of the scheme and of the best one; negative where it is to be found first.
        rng: [1] uint64. Non-zero state of a xorshift generator.
        steps: moves to try.
        hot: temperature at the first step, in additions.
        cold: temperature at the last step.
    """
    rank = plus.shape[1]
    longest = max(sizes[0] * sizes[1], sizes[1] * sizes[2], sizes[0] * sizes[2])
    coefficients = np.zeros((rank, 4 * longest), np.int8)
    counts = np.zeros((4 * longest, 4 * longest, 2), np.int16)
    rows = np.array([sizes[0], sizes[1], sizes[0]])
    columns = np.array([sizes[1], sizes[2], sizes[2]])
    x = rng[0]
    cost = np.zeros(3, np.int64)
    for mode in range(3):
        cost[mode], x = planes_cost(plus[mode], minus[mode], rows[mode] * columns[mode], coefficients, counts, x)
    if costs[0] < 0:
        costs[0] = cost.sum()
        costs[1] = costs[0]
        best[0], best[1] = plus, minus
    pairs = np.zeros((3 * rank * rank, 3), np.int64)
    old_plus, old_minus, old_cost = plus.copy(), minus.copy(), cost.copy()
    stale = True
    found = 0
    for step in range(steps):
        if stale:
            found = 0
            for mode in range(3):
                for i in range(rank):
                    for j in range(i + 1, rank):
                        same = plus[mode, i] == plus[mode, j] and minus[mode, i] == minus[mode, j]
                        turned = plus[mode, i] == minus[mode, j] and minus[mode, i] == plus[mode, j]
                        if same or turned:
                            pairs[found, 0], pairs[found, 1], pairs[found, 2] = mode, i, j
                            found += 1
            stale = False
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        draw = np.int64(random >> U32)
        legal = True
        untouched = np.int64(-1)
        if found and (random & np.uint64(3)) != 0:
            mode, i, j = pairs[draw % found]
            if (random >> np.uint64(4)) & U1:
                i, j = j, i
            y = (mode + 1 + np.int64((random >> np.uint64(5)) & U1)) % 3
            z = 3 - mode - y
            untouched = mode
            # e a b c + a b' c' = e a (b + t b') c + e a b' (e c' - t c), with e the sign between the two factors.
            turn = (random >> np.uint64(6)) & U1 == U1
            opposite = plus[mode, i] != plus[mode, j] or minus[mode, i] != minus[mode, j]
            bp, bn = (minus[y, j], plus[y, j]) if turn else (plus[y, j], minus[y, j])
            cp, cn = (minus[z, j], plus[z, j]) if opposite else (plus[z, j], minus[z, j])
            dp, dn = (plus[z, i], minus[z, i]) if turn else (minus[z, i], plus[z, i])
            legal = (plus[y, i] & bp) | (minus[y, i] & bn) | (cp & dp) | (cn & dn) == 0
            if legal:
                p, n = plus[y, i] | bp, minus[y, i] | bn
                plus[y, i], minus[y, i] = p & ~n, n & ~p
                p2, n2 = cp | dp, cn | dn
                plus[z, j], minus[z, j] = p2 & ~n2, n2 & ~p2
                plus[mode, j], minus[mode, j] = plus[mode, i], minus[mode, i]
                legal = p != n and p2 != n2
        else:
            axis = draw % 3
            size = sizes[axis]
            if size < 2:
                continue
            p = (draw // 3) % size
            q = (p + 1 + (draw // 193) % (size - 1)) % size
            turn = (random >> np.uint64(6)) & U1 == U1
            untouched = (axis + 1) % 3
            for part in range(2):
                # Axis m is the rows of U and W, k the columns of U and rows of V, n the columns of V and W.
                mode = (0, 0, 1)[axis] if part == 0 else (2, 1, 2)[axis]
                by_rows = (axis == 0) or (axis == 1 and part == 1)
                source, target = (p, q) if part == 0 else (q, p)
                stride = 1
                if by_rows:
                    stride = int(columns[mode])
                line = 0
                for entry in range(columns[mode] if by_rows else rows[mode]):
                    line |= 1 << (entry * (1 if by_rows else columns[mode]))
                for term in range(rank):
                    ap = ((plus[mode, term] >> (source * stride)) & line) << (target * stride)
                    an = ((minus[mode, term] >> (source * stride)) & line) << (target * stride)
                    if turn == (part == 0):
                        ap, an = an, ap
                    if (plus[mode, term] & ap) | (minus[mode, term] & an):
                        legal = False
                        break
                    up, un = plus[mode, term] | ap, minus[mode, term] | an
                    plus[mode, term], minus[mode, term] = up & ~un, un & ~up
                if not legal:
                    break
        if legal:
            for mode in range(3):
                if mode != untouched:
                    cost[mode], x = planes_cost(
                        plus[mode], minus[mode], rows[mode] * columns[mode], coefficients, counts, x
                    )
            change = cost.sum() - old_cost.sum()
            if change > 0:
                temperature = hot * (cold / hot) ** (step / steps)
                x ^= x << U13
                x ^= x >> U7
                x ^= x << U17
                legal = np.float64(np.int64((x * STAR) >> U32)) / 4294967296.0 < np.exp(-change / temperature)
        if legal:
            stale = True
            old_plus[:], old_minus[:], old_cost[:] = plus, minus, cost
            costs[0] = cost.sum()
            if costs[0] < costs[1]:
                costs[1] = costs[0]
                best[0], best[1] = plus, minus
        else:
            plus[:], minus[:], cost[:] = old_plus, old_minus, old_cost
    rng[0] = x
