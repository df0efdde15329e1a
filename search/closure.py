"""The least ranks that composition reaches: a fixed point over all formats up to a size.

Ranks first: a table of the best rank per format and the step that gives it, closed under role permutation,
concatenation, Kronecker product, projection, fused products and products over uneven blocks. Schemes are made on
demand (``search.recipes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import Axis
from search import fused_ranks, uneven
from search.fusion import Buds
from search.materialise import into
from search.projection import project
from search.ranks import Step, Table
from search.recipes import Projected, Recipe, Stored

LARGEST = 16
# How often the projections of a leaf are projected again, and the largest leaf that is projected at all.
_DEPTH, _PROJECTED_VOLUME = 3, 512
# Outer schemes per format of fused and of uneven products, and the volume up to which schemes are outer ones.
_OUTERS, _UNEVEN_OUTERS, _OUTER_VOLUME = 8, 2, 216
_Lines = tuple[NDArray[np.int64], NDArray[np.int64]]
_AXES: tuple[Axis, ...] = ("m", "k", "n")


@dataclass(frozen=True)
class Leaf:
    """What the closure starts from.

    Attributes:
        recipe: how it is made; its format and rank count.
        scheme: the scheme itself, in the ring of the closure; None for a rank alone, which is never an outer scheme of
            a fused product and loses no terms to a projection.
    """

    recipe: Recipe
    scheme: Scheme | None = None

    @classmethod
    def stored(cls, identity: str, scheme: Scheme, ring: Ring) -> Leaf:
        """A stored scheme as a leaf over a ring, in which it may have fewer terms.

        Raises:
            ValueError: the scheme has no image in the ring.
        """
        image = into(scheme, ring)
        return cls(Stored(image.format, image.rank, identity), image)


@dataclass(frozen=True)
class _Outer:
    """A scheme whose block products others do; without ``cuts`` only on blocks of one size."""

    recipe: Recipe
    scheme: Scheme
    buds: Buds
    cuts: Sequence[uneven.Splits]

    @property
    def format(self) -> Format:
        return self.scheme.format


def close(leaves: Iterable[Leaf], size: int = LARGEST, ternary: bool = False) -> Table:
    """The fixed point over all formats with sizes 1..``size``; formats larger than that may be leaves and project down.

    Args:
        leaves: what there is, all over one ring; the order does not matter to the ranks.
        size: largest size, 2..16.
        ternary: keep to coefficients in {-1, 0, 1}; the leaves have to.

    Raises:
        ValueError: the size lies outside 2..16.
    """
    if not 2 <= size <= LARGEST:
        raise ValueError(f"size {size} of a closure must lie in 2..{LARGEST}")
    grid = np.arange(size + 1, dtype=np.int64)
    table = Table(grid[:, None, None] * grid[:, None] * grid)
    own = sorted(leaves, key=lambda leaf: (leaf.recipe.rank, leaf.recipe.format, repr(leaf.recipe)))
    derived = [small for leaf in own for small in _projected(leaf)]
    for leaf in [*own, *derived]:
        if max(leaf.recipe.format) <= size:
            table.offer(leaf.recipe.rank, Step(leaf.recipe.format, "leaf", outer=leaf.recipe))
    outers = _outers([*own, *derived], size, ternary)
    done: dict[int, bytes] = {}
    while True:
        while any([_concatenate(table), _kron(table), _project(table)]):
            pass
        changed, lines = False, fused_ranks.line_costs(table.ranks)
        for number, outer in enumerate(outers):
            # Inner products of uneven blocks are small, and their ranks soon settle.
            inner = table.ranks[tuple(slice(-(-size // extent) + 1) for extent in outer.format)].tobytes()
            if done.get(number) != inner:
                done[number] = inner
                changed |= _uneven(table, outer)
            changed |= _fuse(table, outer, lines)
        if not changed:
            return table


def _projected(leaf: Leaf) -> list[Leaf]:
    """Projections of a leaf along every dimension, and again of those, each by the pair that kills most terms."""
    found: dict[Format, Leaf] = {}
    wave = [leaf]
    for _ in range(_DEPTH):
        wave = [small for one in wave for small in _projected_once(one)]
        wave = list({one.recipe.format: one for one in sorted(wave, key=lambda one: -one.recipe.rank)}.values())
        for one in wave:
            found.setdefault(one.recipe.format, one)
    return list(found.values())


def _projected_once(leaf: Leaf) -> list[Leaf]:
    scheme, small = leaf.scheme, []
    if scheme is None or scheme.format.volume > _PROJECTED_VOLUME:
        return []
    for axis in _AXES:
        if getattr(scheme.format, axis) > 2:
            along, result = project(scheme, axis)
            small.append(Leaf(Projected(axis, leaf.recipe, along, scheme.rank - result.rank), result))
    return small


def _outers(leaves: Sequence[Leaf], size: int, ternary: bool) -> list[_Outer]:
    """Schemes to be outer ones: few per format, of least rank first, no two with classes of equal sizes."""
    chosen: dict[Format, dict[bytes, _Outer]] = {}
    for leaf in sorted(leaves, key=lambda leaf: leaf.recipe.rank):
        format, scheme = leaf.recipe.format, leaf.scheme
        if scheme is None or format.volume > _OUTER_VOLUME or max(format) > size or not 2 <= min(format) <= size // 2:
            continue
        here = chosen.setdefault(format.sorted, {})
        if len(here) < _OUTERS:
            buds = Buds(scheme, ternary)
            if buds.signature not in here:
                cut = len(here) < _UNEVEN_OUTERS
                cuts = [uneven.splits(scheme, dimension, size) for dimension in range(3)] if cut else []
                here[buds.signature] = _Outer(leaf.recipe, scheme, buds, cuts)
    return [outer for format in sorted(chosen) for outer in chosen[format].values()]


def _concatenate(table: Table) -> bool:
    """Every format as two side by side; the other axes follow by symmetry."""
    changed, ranks = False, table.ranks
    for total in range(2, len(ranks)):
        for left in range(1, total // 2 + 1):
            sums = ranks[left] + ranks[total - left]
            for b, c in np.argwhere(np.triu(sums < ranks[total])).tolist():
                parts = (Format(left, b, c), Format(total - left, b, c))
                changed |= table.offer(int(sums[b, c]), Step(Format(total, b, c), "concatenate", parts, "m"))
    return changed


def _kron(table: Table) -> bool:
    """Every format as a product of two, the outer one with ascending sizes."""
    changed, ranks, size = False, table.ranks, len(table.ranks) - 1
    for outer in (Format(a, b, c) for a in range(1, size + 1) for b in range(a, size + 1) for c in range(b, size + 1)):
        a, b, c = outer
        if max(outer) == 1 or 2 * a > size:
            continue
        whole, inner = ranks[a::a, b::b, c::c], ranks[1 : size // a + 1, 1 : size // b + 1, 1 : size // c + 1]
        products = ranks[outer] * inner
        for x, y, z in (np.argwhere(products < whole) + 1).tolist():
            step = Step(Format(a * x, b * y, c * z), "kron", (outer, Format(x, y, z)))
            changed |= table.offer(int(products[x - 1, y - 1, z - 1]), step)
    return changed


def _project(table: Table) -> bool:
    """Every format has at most the rank of one with a slice more."""
    changed, ranks = False, table.ranks
    for above in range(len(ranks) - 1, 1, -1):
        for b, c in np.argwhere(np.triu(ranks[above] < ranks[above - 1])).tolist():
            step = Step(Format(above - 1, b, c), "project", (Format(above, b, c),), "m")
            changed |= table.offer(int(ranks[above, b, c]), step)
    return changed


def _uneven(table: Table, outer: _Outer) -> bool:
    """Products of one outer scheme over blocks of different sizes."""
    changed = False
    for format, sizes, rank in uneven.cheapest(outer.cuts, table.ranks) if outer.cuts else ():
        if rank < table.rank(format):
            needed = uneven.needs(outer.scheme, sizes)
            parts = tuple(sorted(set(needed)))
            changed |= table.offer(rank, Step(format, "uneven", parts, outer=outer.recipe, sizes=sizes, needs=needed))
    return changed


def _fuse(table: Table, outer: _Outer, lines: _Lines) -> bool:
    """Fused products of one outer scheme with inner products of every format that fits."""
    changed = False
    for inner, rank, groups in fused_ranks.cheapest(outer.format, outer.buds, table.ranks, *lines):
        whole = Format(*(a * b for a, b in zip(outer.format, inner, strict=True)))
        parts = tuple(sorted({group.format(inner) for group in groups}))
        changed |= table.offer(rank, Step(whole, "fused", parts, outer=outer.recipe, groups=tuple(groups)))
    return changed
