"""How large the terms are that a block scheme may mix into an element of C.

An element of any block is computed from the rows of A, columns of B and inner indices at the same places of all blocks,
and from nothing else. So its rounding is small beside their products even where it is large beside the element, and an
error that is not small there is a mistake.
"""

from __future__ import annotations

from typing import Any

from evaluate.operands import widen


class Mixing:
    """Sizes of mixed terms.

    Args:
        xp: numpy or cupy.
        a: [M, K], stored as ``dtype``.
        b: [K, N], stored as ``dtype``.
        dtype: a key of ``evaluate.operands.DTYPES``.
        rows: [R] rows of C that are asked for.
        blocks: blocks along M, K and N.
    """

    def __init__(self, xp: Any, a: Any, b: Any, dtype: str, rows: Any, blocks: tuple[int, int, int]) -> None:
        self.xp, self.b, self.dtype, self.blocks = xp, b, dtype, blocks
        self.left = self._folded(lambda lines: a[lines], a.shape[0], rows, blocks[0])

    def sizes(self, columns: slice) -> Any:
        """[R, columns] the root of the sum of squares of all terms that may be mixed into each element, in fp64."""
        total, indices = self.b.shape[1], self.xp.arange(columns.start, columns.stop)
        right = self._folded(lambda lines: self.b[:, lines].T, total, indices, self.blocks[2])
        return self.xp.sqrt(self.left @ right.T)

    def _folded(self, take: Any, total: int, lines: Any, count: int) -> Any:
        """[lines, inner places] squares summed over all blocks; what is not finite counts as zero."""
        xp, height = self.xp, -(-total // count)
        depth = -(-self.b.shape[0] // self.blocks[1])
        result = xp.zeros((len(lines), depth))
        for block in range(count):
            mates = lines % height + block * height
            values = widen(xp, take(xp.minimum(mates, total - 1)), self.dtype)
            squares = xp.where(xp.isfinite(values) & (mates < total)[:, None], values, 0) ** 2
            for start in range(0, squares.shape[1], depth):
                part = squares[:, start : start + depth]
                result[:, : part.shape[1]] += part
        return result
