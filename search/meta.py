"""Moves between formats (Kauers-Wood 2025, arXiv 2505.05896): where a search of one format can start from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import AXES, Axis, concatenate, extend, kron, orient
from search.directions import tidy
from search.projection import project

Pool = Mapping[tuple[Format, Ring], Sequence[Scheme]]

# Schemes of one format that a move is tried on, those of least rank; of a pair, on either side.
_SINGLES, _PAIRED = 4, 2
_TRIES = 8


@dataclass(frozen=True)
class Start:
    """A scheme within one move of the pool.

    Attributes:
        rank: of the scheme, which may turn out lower when terms merge.
        move: "permute", "project", "extend", "merge" or "kron".
        parents: the schemes of the pool that it is made of.
        make: makes the scheme.
    """

    rank: int
    move: str
    parents: tuple[Scheme, ...]
    make: Callable[[], Scheme]


def project_best(scheme: Scheme, axis: Axis, rng: np.random.Generator | None = None) -> Scheme:
    """One dimension reduced by one, along the direction, over all changes of basis, in which most terms vanish.

    A ternary scheme stays ternary. Directions that kill equally many terms are drawn with ``rng``.

    Raises:
        ValueError: the dimension has size 1.
    """
    return project(scheme, axis, rng, _TRIES)[1]


def merge(first: Scheme, second: Scheme, axis: Axis) -> Scheme:
    """Two schemes side by side along one dimension; terms that agree in two factors become one.

    Raises:
        ValueError: the other sizes or the rings differ.
    """
    return tidy(concatenate(first, second, axis))


def candidates(
    format: Format, ring: Ring, pool: Pool, rng: np.random.Generator | None = None, ternary: bool = False
) -> list[Start]:
    """Every way to reach a format by one move from the schemes of a pool, least rank first.

    Args:
        format: what the schemes shall multiply, in this orientation.
        ring: of all schemes; those of the pool over other rings are passed by.
        pool: schemes by format, in any order of its sizes, and ring.
        rng: draws among equally good projections.
        ternary: only schemes with coefficients in {-1, 0, 1}, from such.
    """
    shelf: dict[Format, list[Scheme]] = {}
    for (_, over), schemes in pool.items():
        for scheme in schemes:
            if over is ring and (scheme.is_ternary or not ternary):
                shelf.setdefault(scheme.format.sorted, []).append(scheme)
    shelf = {size: sorted(schemes, key=lambda scheme: scheme.rank)[:_SINGLES] for size, schemes in shelf.items()}
    starts = [*_from_one(format, shelf, rng), *_from_two(format, shelf)]
    return sorted(starts, key=lambda start: start.rank)


def _from_one(format: Format, shelf: Mapping[Format, list[Scheme]], rng: np.random.Generator | None) -> Iterator[Start]:
    for parent in shelf.get(format.sorted, ()):
        yield Start(parent.rank, "permute", (parent,), partial(orient, parent, format))
    for axis in AXES:
        size = getattr(format, axis)
        larger = format._replace(**{axis: size + 1})
        for parent in shelf.get(larger.sorted, ()):
            # The rank of a projection is known only once it is made, so this one is not made on demand.
            made = project_best(orient(parent, larger), axis, rng)
            yield Start(made.rank, "project", (parent,), partial(orient, made, format))
        smaller = format._replace(**{axis: size - 1})
        for parent in shelf.get(smaller.sorted, ()):
            rank = parent.rank + format.volume - smaller.volume
            yield Start(rank, "extend", (parent,), partial(_extended, parent, smaller, axis))


def _from_two(format: Format, shelf: Mapping[Format, list[Scheme]]) -> Iterator[Start]:
    for axis in AXES:
        size = getattr(format, axis)
        for part in range(1, size // 2 + 1):
            sizes = (format._replace(**{axis: part}), format._replace(**{axis: size - part}))
            for pair in _pairs(shelf, sizes):
                yield Start(pair[0].rank + pair[1].rank, "merge", pair, partial(_merged, pair, sizes, axis))
    divisors = [[d for d in range(1, size + 1) if size % d == 0] for size in format]
    for outer in (Format(*choice) for choice in product(*divisors)):
        sizes = (outer, Format(*(a // b for a, b in zip(format, outer, strict=True))))
        for pair in _pairs(shelf, sizes):
            yield Start(pair[0].rank * pair[1].rank, "kron", pair, partial(_nested, pair, sizes))


def _pairs(shelf: Mapping[Format, list[Scheme]], sizes: tuple[Format, Format]) -> Iterator[tuple[Scheme, Scheme]]:
    first, second = (shelf.get(size.sorted, [])[:_PAIRED] for size in sizes)
    return product(first, second)


def _extended(scheme: Scheme, format: Format, axis: Axis) -> Scheme:
    return extend(orient(scheme, format), axis)


def _merged(pair: tuple[Scheme, Scheme], sizes: tuple[Format, Format], axis: Axis) -> Scheme:
    return merge(orient(pair[0], sizes[0]), orient(pair[1], sizes[1]), axis)


def _nested(pair: tuple[Scheme, Scheme], sizes: tuple[Format, Format]) -> Scheme:
    return kron(orient(pair[0], sizes[0]), orient(pair[1], sizes[1]))
