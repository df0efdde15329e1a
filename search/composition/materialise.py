"""From recipes to schemes, each proved by the exact Brent check."""

from __future__ import annotations

from collections.abc import Callable

from catalog.known import classical
from catalog.scheme import Ring, Scheme
from catalog.transform import concatenate, kron, orient, reduce_mod
from catalog.verify import require_exact
from search.composition.directions import tidy
from search.composition.fusion import fuse
from search.composition.projection import apply, best_index
from search.composition.recipes import (
    Classical,
    Concatenated,
    Fused,
    Kronecker,
    Permuted,
    Projected,
    Recipe,
    Stored,
    Uneven,
)
from search.composition.uneven import uneven_product

Fetch = Callable[[str], Scheme]


def materialise(recipe: Recipe, ring: Ring, fetch: Fetch) -> Scheme:
    """Make the scheme of a recipe; its rank is the promised one or lower.

    Args:
        recipe: what to make.
        ring: of the result; stored schemes are reduced or embedded into it.
        fetch: gives the stored scheme of an id.

    Raises:
        ValueError: a stored scheme has no image in the ring.
        NotExactError: the result violates a Brent equation.
    """
    made: dict[int, Scheme] = {}

    def make(node: Recipe) -> Scheme:
        if id(node) not in made:
            made[id(node)] = _combine(node, ring, fetch, make)
        return made[id(node)]

    return require_exact(make(recipe))


def into(scheme: Scheme, ring: Ring) -> Scheme:
    """The image of a scheme in a ring: itself, reduced modulo the characteristic, or from Z into Q.

    Raises:
        ValueError: there is none.
    """
    if scheme.ring is ring:
        return scheme
    if ring is Ring.Q and scheme.ring is Ring.Z:
        return Scheme(scheme.format, ring, *scheme.factors)
    return tidy(reduce_mod(scheme, ring))


def _combine(node: Recipe, ring: Ring, fetch: Fetch, make: Callable[[Recipe], Scheme]) -> Scheme:
    match node:
        case Stored(id=identity):
            return into(fetch(identity), ring)
        case Classical(format=format):
            return classical(format, ring)
        case Permuted(format=format, source=source):
            return orient(make(source), format)
        case Concatenated(axis=axis, left=left, right=right):
            return concatenate(make(left), make(right), axis)
        case Kronecker(outer=outer, inner=inner):
            return kron(make(outer), make(inner))
        case Projected(axis=axis, source=source, along=along):
            scheme = make(source)
            return apply(scheme, along or best_index(scheme, axis))
        case Fused(outer=outer, inner=inner, groups=groups, parts=parts):
            return fuse(make(outer), inner, groups, {part.format: make(part) for part in parts})
        case Uneven(outer=outer, sizes=sizes, needs=needs, parts=parts):
            return uneven_product(make(outer), sizes, needs, {part.format: make(part) for part in parts})
    raise AssertionError(node)
