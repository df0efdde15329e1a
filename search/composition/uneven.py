"""Products over blocks of different sizes, so that a size need not be a multiple of the outer scheme's.

A term of the outer scheme multiplies combinations of blocks of A and B. Its inner product needs only as many rows as
the largest block among those of A that enter it and among those of C that take it, whichever is less, and so for the
other two dimensions; all else of the padded product is zero or is not wanted (recombination with peeled blocks, as in
Drevet, Islam, Schost 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Factor, Format, Scheme

BlockSizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

_MODES = ((0, 1), (1, 2), (0, 2))
# For each dimension the two modes that have it, and where.
_HOLDERS = (((0, 0), (2, 0)), ((0, 1), (1, 0)), ((1, 1), (2, 1)))
# Placements of the larger blocks that are tried per size of one dimension.
_PLACEMENTS = 6


@dataclass(frozen=True)
class Splits:
    """Ways to cut one dimension into as many blocks as the outer scheme has there.

    Attributes:
        totals: [p] int64, the dimension that is cut.
        blocks: the block sizes of each way.
        needs: [p, r] int64, the size that the inner product of each term needs.
    """

    totals: NDArray[np.int64]
    blocks: list[tuple[int, ...]]
    needs: NDArray[np.int64]


def splits(outer: Scheme, dimension: int, largest: int) -> Splits:
    """Every cut of 1..``largest`` into blocks whose sizes differ by at most one; equal needs are listed once.

    Args:
        outer: the outer scheme.
        dimension: 0, 1, 2 for m, k, n.
        largest: largest size to cut.
    """
    parts = outer.format[dimension]
    held = [_support(outer, mode, side) for mode, side in _HOLDERS[dimension]]
    seen: dict[tuple[int, bytes], tuple[tuple[int, ...], NDArray[np.int64]]] = {}
    for total in range(parts, largest + 1):
        floor, more = divmod(total, parts)
        for chosen in itertools.islice(itertools.combinations(range(parts), more), _PLACEMENTS):
            blocks = tuple(floor + (i in chosen) for i in range(parts))
            need = _need(held, blocks)
            seen.setdefault((total, need.tobytes()), (blocks, need))
    return Splits(
        np.array([total for total, _ in seen], dtype=np.int64),
        [blocks for blocks, _ in seen.values()],
        np.array([need for _, need in seen.values()], dtype=np.int64).reshape(-1, outer.rank),
    )


def cheapest(cuts: Sequence[Splits], ranks: NDArray[np.int64]) -> Iterator[tuple[Format, BlockSizes, int]]:
    """Formats whose rank an uneven product improves, with the block sizes and the new rank.

    Args:
        cuts: of an outer scheme along m, k and n.
        ranks: [N+1, N+1, N+1] int64, those of inner products and those to beat; index 0 unused.
    """
    found: dict[Format, tuple[int, BlockSizes]] = {}
    across, deep = cuts[1].needs[:, None, :], cuts[2].needs[None, :, :]
    for total, blocks, need in zip(cuts[0].totals.tolist(), cuts[0].blocks, cuts[0].needs, strict=True):
        costs = ranks[need, across, deep].sum(axis=2)
        for y, z in np.argwhere(costs < ranks[total][np.ix_(cuts[1].totals, cuts[2].totals)]).tolist():
            format = Format(total, int(cuts[1].totals[y]), int(cuts[2].totals[z]))
            cost = int(costs[y, z])
            if format not in found or cost < found[format][0]:
                found[format] = cost, (blocks, cuts[1].blocks[y], cuts[2].blocks[z])
    for format, (cost, sizes) in found.items():
        yield format, sizes, cost


def needs(outer: Scheme, sizes: BlockSizes) -> tuple[Format, ...]:
    """The format of the inner product of every term, given the block sizes along m, k, n."""
    columns = [
        _need([_support(outer, mode, side) for mode, side in _HOLDERS[dimension]], sizes[dimension])
        for dimension in range(3)
    ]
    return tuple(Format(*need) for need in np.array(columns).T.tolist())


def uneven_product(
    outer: Scheme, sizes: BlockSizes, needed: Sequence[Format], parts: Mapping[Format, Scheme]
) -> Scheme:
    """The product scheme; ``parts`` has an inner scheme over the ring of ``outer`` for every format in ``needed``."""
    whole = Format(*(sum(blocks) for blocks in sizes))
    starts = [np.concatenate([[0], np.cumsum(blocks)]) for blocks in sizes]
    common = [lcm(1, *(s.denominators[i] for s in parts.values())) for i in range(3)]
    columns: list[list[Factor]] = [[], [], []]
    for term, need in enumerate(needed):
        part = parts[need]
        for mode, (p, q) in enumerate(_MODES):
            left = outer.factors[mode][:, term].reshape(outer.format[p], outer.format[q])
            right = part.factors[mode].reshape(need[p], need[q], -1) * (common[mode] // part.denominators[mode])
            out = np.zeros((whole[p], whole[q], part.rank), dtype=np.int64)
            for i, j in np.argwhere(left).tolist():
                rows, cols = min(need[p], sizes[p][i]), min(need[q], sizes[q][j])
                top, side = starts[p][i], starts[q][j]
                out[top : top + rows, side : side + cols] = left[i, j] * right[:rows, :cols]
            columns[mode].append(out.reshape(-1, part.rank))
    denominators = tuple(a * b for a, b in zip(outer.denominators, common, strict=True))
    return Scheme(whole, outer.ring, *(np.concatenate(c, axis=1) for c in columns), denominators=denominators)


def _support(outer: Scheme, mode: int, side: int) -> NDArray[np.bool_]:
    """[blocks, r]: which rows (side 0) or columns (side 1) of blocks enter the factor of each term."""
    p, q = _MODES[mode]
    return (outer.factors[mode].reshape(outer.format[p], outer.format[q], -1) != 0).any(axis=1 - side)


def _need(held: Sequence[NDArray[np.bool_]], blocks: Sequence[int]) -> NDArray[np.int64]:
    sizes = np.array(blocks, dtype=np.int64)[:, None]
    first, second = ((support * sizes).max(axis=0) for support in held)
    return np.minimum(first, second)
