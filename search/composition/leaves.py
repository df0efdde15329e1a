"""What a closure starts from: schemes of the catalog, and their projections."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import AXES
from search.composition.materialise import into
from search.composition.projection import project
from search.composition.recipes import Projected, Recipe, Stored

# How often a leaf is projected, and the largest scheme that is.
_DEPTH, _PROJECTED_VOLUME = 3, 216


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


def projected(leaf: Leaf) -> list[Leaf]:
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
    for axis in AXES:
        if getattr(scheme.format, axis) > 2:
            along, result = project(scheme, axis)
            small.append(Leaf(Projected(axis, leaf.recipe, along, scheme.rank - result.rank), result))
    return small
