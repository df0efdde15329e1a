"""The least ranks that composition reaches: a fixed point over all formats up to a size.

Ranks first: a table of the best rank per format and the step that gives it, closed under role permutation,
concatenation, Kronecker product, projection, fused products and products over uneven blocks. Schemes are made on
demand (``search.composition.materialise``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from catalog.scheme import Format
from search.composition import outers
from search.composition.fused_ranks import line_costs
from search.composition.leaves import Leaf, projected
from search.composition.ranks import Step, Table

LARGEST = 16


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
    derived = [small for leaf in own for small in projected(leaf)]
    for leaf in [*own, *derived]:
        if max(leaf.recipe.format) <= size:
            table.offer(leaf.recipe.rank, Step(leaf.recipe.format, "leaf", outer=leaf.recipe))
    fusing = outers.fusing([*own, *derived], size, ternary)
    cutting = outers.cutting([*own, *derived], size)
    done: dict[int, bytes] = {}
    while True:
        while any([_concatenate(table), _kron(table), _project(table)]):
            pass
        changed, lines = False, line_costs(table.ranks)
        for number, outer in enumerate(cutting):
            # Inner products of uneven blocks are small, and their ranks soon settle.
            inner = outers.inner_ranks(table, outer.recipe.format).tobytes()
            if done.get(number) != inner:
                done[number] = inner
                changed |= outers.cut(table, outer)
        for one in fusing:
            changed |= outers.fuse(table, one, lines)
        if not changed:
            return table


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
