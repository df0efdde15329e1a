"""The table of best ranks that a closure fills, and the step that each of them rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format
from catalog.transform import Axis
from search.composition.fusion import Group
from search.composition.recipes import Classical, Concatenated, Fused, Kronecker, Permuted, Projected, Recipe, Uneven
from search.composition.uneven import BlockSizes


@dataclass(frozen=True)
class Step:
    """How the best rank of a format arises from those of others; ``format`` is the orientation in which it does."""

    format: Format
    kind: str
    parts: tuple[Format, ...] = ()
    axis: Axis = "m"
    outer: Recipe | None = None
    groups: tuple[Group, ...] = ()
    sizes: BlockSizes | None = None
    needs: tuple[Format, ...] = ()


@dataclass
class Table:
    """Best ranks of all formats with sizes 1..N.

    Attributes:
        ranks: [N+1, N+1, N+1] int64, symmetric; index 0 unused.
    """

    ranks: NDArray[np.int64]
    steps: dict[Format, Step] = field(default_factory=dict)
    _made: dict[Format, Recipe] = field(default_factory=dict)

    def rank(self, format: Format) -> int:
        """The best rank of a format, its sizes in any order."""
        return int(self.ranks[format])

    def formats(self) -> list[Format]:
        """All formats with sizes 2..N ascending, in lexicographic order."""
        sizes = range(2, len(self.ranks))
        return [Format(a, b, c) for a in sizes for b in sizes if b >= a for c in sizes if c >= b]

    def recipe(self, format: Format) -> Recipe:
        """How to make a scheme of the best rank, in the orientation asked for."""
        if format not in self._made:
            step = self.steps.get(format.sorted)
            if step is None:
                made: Recipe = Classical(format)
            elif step.format != format:
                made = Permuted(format, self.recipe(step.format))
            else:
                made = self._resolve(step)
            self._made[format] = made
        return self._made[format]

    def _resolve(self, step: Step) -> Recipe:
        parts = tuple(self.recipe(part) for part in step.parts)
        match step.kind:
            case "concatenate":
                return Concatenated(step.axis, *parts)
            case "kron":
                return Kronecker(*parts)
            case "project":
                return Projected(step.axis, parts[0])
        assert step.outer is not None
        if step.kind == "leaf":
            return step.outer
        if step.sizes is not None:
            return Uneven(step.outer, step.sizes, step.needs, parts)
        inner = Format(*(a // b for a, b in zip(step.format, step.outer.format, strict=True)))
        return Fused(step.outer, inner, step.groups, parts)

    def offer(self, rank: int, step: Step) -> bool:
        """Take a step if it lowers the rank of its format; whether it did."""
        if rank >= self.ranks[step.format]:
            return False
        a, b, c = step.format
        for order in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
            self.ranks[order] = rank
        self.steps[step.format.sorted] = step
        self._made.clear()
        return True
