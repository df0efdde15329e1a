"""Rank arithmetic of fused products: what one outer scheme gives with inner products of every format that fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format
from search.composition.fusion import GROWS, Buds, Group

Lines = tuple[NDArray[np.int64], NDArray[np.int64]]

# Terms in one group at most; the class of a factor may be larger and is then cut.
_MOST = 64


def line_costs(ranks: NDArray[np.int64]) -> Lines:
    """Ranks of inner products of t = 0..T terms side by side, which may need several where a size runs out.

    Args:
        ranks: [N+1, N+1, N+1] int64, symmetric.

    Returns:
        [T+1, N+1, N+1, N+1] int64: the rank for t terms whose inner format has size g, the one that grows, and x, y;
        and the number of terms in the first inner product.
    """
    best = np.zeros((_MOST + 1, *ranks.shape), dtype=np.int64)
    first = np.zeros_like(best)
    size = len(ranks) - 1
    for count in range(1, _MOST + 1):
        best[count], first[count] = best[count - 1] + ranks, 1
        for taken in range(2, min(count, size) + 1):
            grown = size // taken
            total = best[count - taken, 1 : grown + 1] + ranks[taken : taken * grown + 1 : taken]
            here, where = best[count, 1 : grown + 1], first[count, 1 : grown + 1]
            where[total < here] = taken
            np.minimum(here, total, out=here)
    return best, first


def cheapest(
    outer: Format, buds: Buds, ranks: NDArray[np.int64], lines: Lines
) -> Iterator[tuple[Format, int, list[Group]]]:
    """Inner formats whose fused product improves a rank, with that rank and the groups.

    Args:
        outer: format of the outer scheme.
        buds: of the outer scheme.
        ranks: [N+1, N+1, N+1] int64, what has to be beaten.
        lines: from ``line_costs``.
    """
    best, first = lines
    size = len(ranks) - 1
    limits = [size // extent for extent in outer]
    most = np.minimum(buds.largest, _MOST)
    # [t, m, k, n] per mode: the axis that grows back in its place.
    costs = [np.moveaxis(best, 1, GROWS[mode] + 1) for mode in range(3)]
    window = (slice(None), *(slice(1, limit + 1) for limit in limits))
    shares = []
    for mode in range(3):
        line = costs[mode][window][1 : most[mode] + 1]
        average = np.minimum.accumulate(line / np.arange(1, len(line) + 1)[:, None, None, None], axis=0)
        shares.append(average[np.minimum(buds.kinds[mode], _MOST) - 1])
    bound = np.tensordot(buds.counts, np.min(shares, axis=0), axes=1)
    goal = ranks[tuple(slice(extent, limit * extent + 1, extent) for extent, limit in zip(outer, limits, strict=True))]
    for place in np.argwhere(np.ceil(bound - 1e-6) < goal).tolist():
        inner = Format(*(index + 1 for index in place))
        rank, groups = buds.partition([costs[mode][:, inner.m, inner.k, inner.n] for mode in range(3)])
        # Without a group of several terms this is a Kronecker product.
        if rank < goal[tuple(place)] and len(groups) < buds.rank:
            cuts = [np.moveaxis(first, 1, GROWS[mode] + 1)[:, inner.m, inner.k, inner.n] for mode in range(3)]
            yield inner, rank, [piece for group in groups for piece in _cut(group, cuts[group.mode])]


def _cut(group: Group, first: NDArray[np.int64]) -> list[Group]:
    if first[len(group.terms)] == len(group.terms):
        return [group]
    pieces, terms = [], group.terms
    while terms:
        taken = int(first[len(terms)])
        pieces.append(Group(group.mode, terms[:taken]))
        terms = terms[taken:]
    return pieces
