"""How a dimension of a matrix is cut into blocks, which decides what a scheme may mix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """A dimension in blocks of one size, of which the last ones may be cut off or empty.

    Attributes:
        size: rows or columns of the matrix.
        blocks: their number.
        unit: the size of a block is rounded up to a multiple of it.
    """

    size: int
    blocks: int = 1
    unit: int = 1

    @property
    def side(self) -> int:
        """Rows or columns of a block."""
        least = -(-self.size // self.blocks)
        return -(-least // self.unit) * self.unit
