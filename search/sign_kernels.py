"""The compiled walk of ``search.signs``."""

from __future__ import annotations

from search.compiled import kernel


@kernel
def walk_signs(signs, sums, target, products, equations, moves, choices, both):
    """Change signs along pairs of moves, as long as no more equations fail than before.

    Letters in shapes: s signs, p products, e equations, d moves, t trials.

    Args:
        signs: [s] int8 of -1 and 1, changed in place.
        sums: [e] int32, the sum of the products of every equation; kept up to date.
        target: [e] int32, what the sums should be.
        products: [p, 3] int32, the three signs that a product consists of.
        equations: [p] int32, the equation that a product belongs to.
        moves: [d, s] int8 of -1 and 1, what the signs are multiplied by.
        choices: [t, 2] int32, the two moves of every trial.
        both: [s] int8, overwritten.

    Returns:
        How many equations fail.
    """
    failing = 0
    for e in range(sums.size):
        failing += sums[e] != target[e]
    for trial in range(choices.shape[0]):
        if failing == 0:
            break
        first, second = moves[choices[trial, 0]], moves[choices[trial, 1]]
        for s in range(signs.size):
            both[s] = first[s] * second[s]
        before = failing
        for p in range(equations.size):
            a, b, c = products[p, 0], products[p, 1], products[p, 2]
            if both[a] * both[b] * both[c] < 0:
                e = equations[p]
                failing -= sums[e] != target[e]
                sums[e] -= 2 * signs[a] * signs[b] * signs[c]
                failing += sums[e] != target[e]
        if failing <= before:
            for s in range(signs.size):
                signs[s] *= both[s]
            continue
        failing = before
        for p in range(equations.size):
            a, b, c = products[p, 0], products[p, 1], products[p, 2]
            if both[a] * both[b] * both[c] < 0:
                sums[equations[p]] += 2 * signs[a] * signs[b] * signs[c]
    return failing
