"""Terms that share a factor, kept apart in the other two, so that fused products of ternary schemes stay ternary.

Fused, the other factors of terms are added up with the coefficients of an inner scheme: where supports are disjoint, no
two coefficients meet. For a pair a(x)b1(x)c1 + a(x)b2(x)c2 the vectors (b1, b2) may first be replaced by (b1, b2) G and
(c1, c2) by (c1, c2) G^-T, which leaves the sum as it is; a flip is the case of an elementary G.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Factor, Scheme
from search.composition.directions import normalise

# A 2 x 2 matrix of determinant 1 or -1, row by row.
Mix = tuple[int, int, int, int]

_MIXES: list[Mix] = [(a, b, c, d) for a, b, c, d in itertools.product((1, 0, -1), repeat=4) if abs(a * d - b * c) == 1]


def others(scheme: Scheme, mode: int, terms: Sequence[int] | slice = slice(None)) -> tuple[Factor, Factor]:
    """The factors of terms in the two modes beside ``mode``, the first of them times the shared one's scalars."""
    scales = normalise(scheme.factors[mode][:, terms], scheme.ring.modulus)[1]
    first, second = (scheme.factors[i][:, terms] for i in range(3) if i != mode)
    return first * scales, second


def mixed(first: Factor, second: Factor, mix: Mix) -> tuple[Factor, Factor]:
    """Two pairs of columns after the change of basis."""
    a, b, c, d = mix
    determinant = a * d - b * c
    # The determinant is its own inverse.
    inverse_transposed = determinant * np.array([[d, -c], [-b, a]])
    return first @ np.array([[a, b], [c, d]]), second @ inverse_transposed


def disjoint_classes(
    labels: NDArray[np.int64], first: Factor, second: Factor
) -> tuple[NDArray[np.int64], dict[tuple[int, ...], Mix]]:
    """Split classes of terms into parts with pairwise disjoint supports in both other factors.

    Args:
        labels: [r] int64, the class of each term.
        first: [rows, r] ternary factors in one other mode, with ``second`` in the other one.
        second: [rows, r].

    Returns:
        The new labels, and the change of basis of each pair (i, j), i < j, that is disjoint only after one.
    """
    result = np.arange(len(labels))
    mixes: dict[tuple[int, ...], Mix] = {}
    for label in np.unique(labels):
        parts: list[list[int]] = []
        for term in np.flatnonzero(labels == label).tolist():
            for part in parts:
                if all(apart(first[:, [t, term]]) and apart(second[:, [t, term]]) for t in part):
                    part.append(term)
                    break
            else:
                parts.append([term])
        for part in parts:
            result[part] = part[0]
        single = [part[0] for part in parts if len(part) == 1]
        while single:
            term = single.pop(0)
            for partner in single:
                pair = [term, partner]
                mix = _untangle(first[:, pair], second[:, pair])
                if mix is not None:
                    result[partner] = result[term]
                    mixes[term, partner] = mix
                    single.remove(partner)
                    break
    return result, mixes


def _untangle(first: Factor, second: Factor) -> Mix | None:
    for mix in _MIXES:
        moved = mixed(first, second, mix)
        if all(apart(pair) and abs(pair).max() <= 1 for pair in moved):
            return mix
    return None


def apart(pair: Factor) -> bool:
    """Whether two columns, [rows, 2], have disjoint supports."""
    return not (pair[:, 0] * pair[:, 1]).any()
