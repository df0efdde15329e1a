"""How large the terms are that a block scheme may mix into an element of C.

An element of any block is computed from the rows of A, columns of B and inner indices at the same places of all blocks,
and from nothing else. So its rounding is small beside their products even where it is large beside the element, and an
error that is not small there is a mistake.
"""

from __future__ import annotations

from typing import Any

from evaluate.cut import Cut
from evaluate.operands import widen


class Mixing:
    """Sizes of mixed terms.

    Args:
        xp: numpy or cupy.
        a: [M, K], stored as ``dtype``.
        b: [K, N], stored as ``dtype``.
        dtype: a key of ``evaluate.operands.DTYPES``.
        rows: [R] rows of C that are asked for.
        cuts: along M, K and N.
    """

    def __init__(self, xp: Any, a: Any, b: Any, dtype: str, rows: Any, cuts: tuple[Cut, Cut, Cut]) -> None:
        self.xp, self.b, self.dtype = xp, b, dtype
        along_m, self.along_k, self.along_n = cuts
        self.left = self._folded(lambda lines: a[lines], along_m, rows)

    def sizes(self, columns: slice) -> Any:
        """[R, columns] the root of the sum of squares of all terms that may be mixed into each element, in fp64."""
        indices = self.xp.arange(columns.start, columns.stop)
        right = self._folded(lambda lines: self.b[:, lines].T, self.along_n, indices)
        return self.xp.sqrt(self.left @ right.T)

    def _folded(self, take: Any, cut: Cut, lines: Any) -> Any:
        """[lines, inner places] squares summed over all blocks; what is not finite counts as zero."""
        xp, depth = self.xp, self.along_k.side
        result = xp.zeros((len(lines), depth))
        for block in range(cut.blocks):
            mates = lines % cut.side + block * cut.side
            values = widen(xp, take(xp.minimum(mates, cut.size - 1)), self.dtype)
            squares = xp.where(xp.isfinite(values) & (mates < cut.size)[:, None], values, 0) ** 2
            for start in range(0, squares.shape[1], depth):
                part = squares[:, start : start + depth]
                result[:, : part.shape[1]] += part
        return result
