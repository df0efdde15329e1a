"""How a scheme is composed of others: a tree whose leaves are stored schemes or standard algorithms.

A recipe promises a rank before any scheme exists; ``search.composition.materialise`` makes the scheme and proves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.scheme import Format
from catalog.transform import Axis
from search.composition.fusion import Group
from search.composition.projection import Projection
from search.composition.uneven import BlockSizes


@dataclass(frozen=True)
class Stored:
    """A scheme of the catalog, by its id."""

    format: Format
    rank: int
    id: str


@dataclass(frozen=True)
class Classical:
    """The standard algorithm."""

    format: Format

    @property
    def rank(self) -> int:
        """One product per term, m*k*n."""
        return self.format.volume


@dataclass(frozen=True)
class Permuted:
    """A role permutation of ``source``."""

    format: Format
    source: Recipe

    @property
    def rank(self) -> int:
        """That of the source."""
        return self.source.rank


@dataclass(frozen=True)
class Concatenated:
    """Two schemes side by side along one dimension."""

    axis: Axis
    left: Recipe
    right: Recipe

    @property
    def format(self) -> Format:
        """The formats joined."""
        return self.left.format._replace(
            **{self.axis: getattr(self.left.format, self.axis) + getattr(self.right.format, self.axis)}
        )

    @property
    def rank(self) -> int:
        """The ranks add up."""
        return self.left.rank + self.right.rank


@dataclass(frozen=True)
class Kronecker:
    """One level of ``outer`` whose block products are done by ``inner``."""

    outer: Recipe
    inner: Recipe

    @property
    def format(self) -> Format:
        """The formats multiply."""
        return Format(*(a * b for a, b in zip(self.outer.format, self.inner.format, strict=True)))

    @property
    def rank(self) -> int:
        """The ranks multiply."""
        return self.outer.rank * self.inner.rank


@dataclass(frozen=True)
class Projected:
    """One dimension of ``source`` reduced by one; without ``along``, by the index that kills most terms."""

    axis: Axis
    source: Recipe
    along: Projection | None = None
    killed: int = 0

    @property
    def format(self) -> Format:
        """One slice less."""
        return self.source.format._replace(**{self.axis: getattr(self.source.format, self.axis) - 1})

    @property
    def rank(self) -> int:
        """What the source has, less the terms known to vanish."""
        return self.source.rank - self.killed


@dataclass(frozen=True)
class Fused:
    """A product in which terms of ``outer`` that share a factor are one inner product.

    Attributes:
        outer: leaf or projected leaf, whose terms the groups number.
        inner: format of the inner product of a single term.
        groups: the partition of the outer terms.
        parts: inner recipes, one for each format that the groups need.
    """

    outer: Recipe
    inner: Format
    groups: tuple[Group, ...]
    parts: tuple[Recipe, ...]

    @property
    def format(self) -> Format:
        """The formats multiply."""
        return Format(*(a * b for a, b in zip(self.outer.format, self.inner, strict=True)))

    @property
    def rank(self) -> int:
        """The ranks of the inner products, added up over the groups."""
        ranks = {part.format: part.rank for part in self.parts}
        return sum(ranks[group.format(self.inner)] for group in self.groups)


@dataclass(frozen=True)
class Uneven:
    """A product over blocks of different sizes: every term of ``outer`` takes the smallest inner product that will do.

    Attributes:
        outer: leaf or projected leaf.
        sizes: of the blocks along m, k and n.
        parts: inner recipes, one for each format that the terms need.
        needs: format of the inner product of every term.
    """

    outer: Recipe
    sizes: BlockSizes
    needs: tuple[Format, ...]
    parts: tuple[Recipe, ...]

    @property
    def format(self) -> Format:
        """The block sizes added up."""
        return Format(*(sum(sizes) for sizes in self.sizes))

    @property
    def rank(self) -> int:
        """The ranks of the inner products, added up over the terms."""
        ranks = {part.format: part.rank for part in self.parts}
        return sum(ranks[need] for need in self.needs)


Recipe = Stored | Classical | Permuted | Concatenated | Kronecker | Projected | Fused | Uneven


def children(recipe: Recipe) -> tuple[Recipe, ...]:
    """The recipes that a recipe is made of."""
    match recipe:
        case Permuted(source=source) | Projected(source=source):
            return (source,)
        case Concatenated(left=first, right=second) | Kronecker(outer=first, inner=second):
            return first, second
        case Fused(outer=outer, parts=parts) | Uneven(outer=outer, parts=parts):
            return outer, *parts
    return ()


def nodes(recipe: Recipe) -> Iterator[Recipe]:
    """Every node of the tree once, a recipe before what it is made of."""
    seen, todo = set(), [recipe]
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            todo += reversed(children(node))


def leaf_ids(recipe: Recipe) -> tuple[str, ...]:
    """Ids of the stored schemes that a recipe rests on, sorted, each once."""
    return tuple(sorted({node.id for node in nodes(recipe) if isinstance(node, Stored)}))


def describe(recipe: Recipe, depth: int = 2) -> str:
    """A recipe in short, e.g. ``2x2x2:7 * 2x2x3:11``; below ``depth`` levels only formats and ranks stand."""
    match recipe:
        case Permuted(source=source):
            return describe(source, depth)
        case Stored(id=identity):
            return f"{_short(recipe)} [{identity[:8]}]"
        case Classical():
            return f"classical {recipe.format}"
    if depth == 0:
        return _short(recipe)
    match recipe:
        case Concatenated(axis=axis, left=left, right=right):
            return f"{_inside(left, depth)} +{axis} {_inside(right, depth)}"
        case Kronecker(outer=outer, inner=inner):
            return f"{_inside(outer, depth)} * {_inside(inner, depth)}"
        case Projected(axis=axis, source=source, along=along):
            return f"{_inside(source, depth)} minus {along or axis}"
        case Fused(outer=outer, inner=inner, groups=groups):
            fused = sum(len(group.terms) > 1 for group in groups)
            return f"{_inside(outer, depth)} fused with {inner} ({fused} groups)"
        case Uneven(outer=outer, sizes=sizes):
            blocks = "x".join("(" + ",".join(map(str, part)) + ")" for part in sizes)
            return f"{_inside(outer, depth)} over blocks {blocks}"
    raise AssertionError(recipe)


def lineage(recipe: Recipe) -> list[str]:
    """One line for every distinct composite in a recipe, the recipe itself first: ``format:rank = composition``."""
    lines = []
    for node in nodes(recipe):
        if isinstance(node, Fused | Uneven):
            used = ", ".join(describe(part, 0) for part in node.parts)
            lines.append(f"{_short(node)} = {describe(node, 1)} using {used}")
        elif not isinstance(node, Stored | Classical | Permuted):
            lines.append(f"{_short(node)} = {describe(node, 1)}")
    return list(dict.fromkeys(lines))


def _short(recipe: Recipe) -> str:
    return f"{recipe.format}:{recipe.rank}"


def _inside(recipe: Recipe, depth: int) -> str:
    text = describe(recipe, depth - 1)
    while isinstance(recipe, Permuted):
        recipe = recipe.source
    simple = depth == 1 or isinstance(recipe, Stored | Classical)
    return text if simple else f"({text})"
