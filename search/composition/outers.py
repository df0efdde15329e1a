"""Outer schemes of fused and of uneven products: which ones are tried, and what they give."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Scheme
from search.composition import fused_ranks, uneven
from search.composition.fusion import Buds
from search.composition.leaves import Leaf
from search.composition.ranks import Step, Table
from search.composition.recipes import Recipe

# Schemes up to this volume are outer ones. Fused products cost little to try, so that many outer schemes of a format
# take part; of uneven products as many as the volume goes into the effort, within limits.
_VOLUME, _FUSING = 216, 64
_EFFORT, _MOST, _LEAST = 400, 12, 2


@dataclass(frozen=True)
class Fusing:
    """An outer scheme whose terms may be fused."""

    recipe: Recipe
    buds: Buds

    @property
    def signature(self) -> Hashable:
        """Equal for outer schemes that give the same ranks, but for how their classes overlap."""
        return self.recipe.format, self.buds.signature


@dataclass(frozen=True)
class Cutting:
    """An outer scheme over blocks of different sizes."""

    recipe: Recipe
    scheme: Scheme
    cuts: Sequence[uneven.Splits]

    @property
    def signature(self) -> Hashable:
        """Equal for outer schemes that give the same ranks."""
        return self.recipe.format, *(cut.needs.tobytes() for cut in self.cuts)


def fusing(leaves: Sequence[Leaf], size: int, ternary: bool) -> list[Fusing]:
    """The outer schemes of fused products, of each format those of least rank."""
    shelf = _Shelf()
    for recipe, scheme in _eligible(leaves, size):
        if shelf.count(recipe.format) < _FUSING:
            outer = Fusing(recipe, Buds(scheme, ternary))
            shelf.put(recipe.format, outer.signature, outer)
    return shelf.all()


def cutting(leaves: Sequence[Leaf], size: int) -> list[Cutting]:
    """The outer schemes of uneven products, of each format those of least rank and then of fewest non-zeros."""
    shelf = _Shelf()
    for recipe, scheme in sorted(_eligible(leaves, size), key=lambda pair: (pair[0].rank, _weight(pair[1]))):
        if shelf.count(recipe.format) < min(_MOST, max(_LEAST, _EFFORT // recipe.format.volume)):
            outer = Cutting(recipe, scheme, [uneven.splits(scheme, d, size) for d in range(3)])
            shelf.put(recipe.format, outer.signature, outer)
    return shelf.all()


def fuse(table: Table, outer: Fusing, lines: fused_ranks.Lines) -> bool:
    """Offer the fused products of one outer scheme with inner products of every format that fits."""
    format, changed = outer.recipe.format, False
    for inner, rank, groups in fused_ranks.cheapest(format, outer.buds, table.ranks, lines):
        whole = Format(*(a * b for a, b in zip(format, inner, strict=True)))
        parts = tuple(sorted({group.format(inner) for group in groups}))
        changed |= table.offer(rank, Step(whole, "fused", parts, outer=outer.recipe, groups=tuple(groups)))
    return changed


def cut(table: Table, outer: Cutting) -> bool:
    """Offer the products of one outer scheme over blocks of different sizes."""
    changed = False
    for format, sizes, rank in uneven.cheapest(outer.cuts, table.ranks):
        if rank < table.rank(format):
            needed = uneven.needs(outer.scheme, sizes)
            parts = tuple(sorted(set(needed)))
            changed |= table.offer(rank, Step(format, "uneven", parts, outer=outer.recipe, sizes=sizes, needs=needed))
    return changed


def inner_ranks(table: Table, format: Format) -> NDArray[np.int64]:
    """The ranks that uneven products with outer schemes of a format depend on."""
    size = len(table.ranks) - 1
    return table.ranks[tuple(slice(-(-size // extent) + 1) for extent in format)]


class _Shelf:
    """A few outer schemes of every format, in any order of its sizes, no two of one signature."""

    def __init__(self) -> None:
        self._held: dict[Format, dict[Hashable, Any]] = {}

    def count(self, format: Format) -> int:
        return len(self._held.setdefault(format.sorted, {}))

    def put(self, format: Format, signature: Hashable, outer: Any) -> None:
        self._held[format.sorted].setdefault(signature, outer)

    def all(self) -> list[Any]:
        return [outer for format in sorted(self._held) for outer in self._held[format].values()]


def _eligible(leaves: Sequence[Leaf], size: int) -> list[tuple[Recipe, Scheme]]:
    chosen = []
    for leaf in sorted(leaves, key=lambda leaf: leaf.recipe.rank):
        format = leaf.recipe.format
        if leaf.scheme is not None and format.volume <= _VOLUME and max(format) <= size and min(format) >= 2:
            chosen.append((leaf.recipe, leaf.scheme))
    return chosen


def _weight(scheme: Scheme) -> int:
    return sum(int(np.count_nonzero(factor)) for factor in scheme.factors)
