"""Where a product is not finite, and where a block scheme may make it so.

An infinity or NaN of A makes its row of C not finite, one of B its column. A scheme adds blocks before it multiplies
them, so it may spoil the same row or column of other blocks too; nothing else may be touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evaluate.cut import Cut


@dataclass(frozen=True)
class Spoiled:
    """Rows and columns of C that are not finite because A or B is not.

    Attributes:
        rows: [M] whether the row of A holds an infinity or a NaN.
        columns: [N] whether the column of B does.
        mates_of_rows: [M] whether a row at the same place of any block does.
        mates_of_columns: [N] whether a column at the same place of any block does.
    """

    rows: Any
    columns: Any
    mates_of_rows: Any
    mates_of_columns: Any

    @classmethod
    def of(cls, xp: Any, a: Any, b: Any, dtype: str, cuts: tuple[Cut, Cut]) -> Spoiled | None:
        """Those of C = A B cut into blocks; None where all is finite.

        Args:
            xp: numpy or cupy.
            a: [M, K], stored as ``dtype``.
            b: [K, N], stored as ``dtype``.
            dtype: a key of ``evaluate.operands.DTYPES``.
            cuts: along M and N.
        """
        rows, columns = (_spoiled(xp, x, dtype, axis) for x, axis in ((a, 1), (b, 0)))
        if not (bool(rows.any()) or bool(columns.any())):
            return None
        return cls(rows, columns, _mates(xp, rows, cuts[0]), _mates(xp, columns, cuts[1]))

    def masks(self, xp: Any, rows: Any, columns: slice) -> tuple[Any, Any]:
        """Of a part of C which elements are finite, and which may come out otherwise all the same."""
        finite = ~(self.rows[rows][:, None] | self.columns[columns][None, :])
        return finite, self.mates_of_rows[rows][:, None] | self.mates_of_columns[columns][None, :]


def _spoiled(xp: Any, stored: Any, dtype: str, axis: int) -> Any:
    """[lines] which rows (axis 1) or columns (axis 0) hold something that is not finite."""
    if dtype == "bf16":  # the exponent has only ones
        return ((stored & xp.uint16(0x7F80)) == xp.uint16(0x7F80)).any(axis=axis)
    return ~xp.isfinite(stored).all(axis=axis)


def _mates(xp: Any, lines: Any, cut: Cut) -> Any:
    padded = xp.zeros(cut.side * cut.blocks, dtype=bool)
    padded[: len(lines)] = lines
    return xp.tile(padded.reshape(cut.blocks, cut.side).any(axis=0), cut.blocks)[: len(lines)]
