"""The heat map: for every format and ring our least rank beside the best known one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalog.bounds import SOURCES, best_known_source
from catalog.rows import Row
from catalog.scheme import Format, Ring


@dataclass(frozen=True)
class Over:
    """A ring as a rank names it.

    Attributes:
        key: in addresses.
        name: for people.
        ring: that the best known rank is of.
        ternary: whether coefficients must lie in {-1, 0, 1}.
        holding: rings whose schemes hold over this one.
    """

    key: str
    name: str
    ring: Ring
    ternary: bool
    holding: tuple[Ring, ...]

    def takes(self, row: Row) -> bool:
        """Whether a scheme is one over this ring."""
        return row.ring in self.holding and (row.ternary or not self.ternary)


OVER = (
    Over("F2", "F2", Ring.F2, False, (Ring.F2, Ring.Z)),
    Over("ternary", "Z, ternary", Ring.Z, True, (Ring.Z,)),
    Over("Z", "Z", Ring.Z, False, (Ring.Z,)),
    Over("Q", "Q", Ring.Q, False, (Ring.Z, Ring.Q)),
)


@dataclass(frozen=True)
class Cell:
    """One format over one ring.

    Attributes:
        format: sizes in ascending order.
        over: the ring.
        row: our best scheme; None where the catalog has none.
        known: the best known rank; None beyond the table.
        sources: who has it.
    """

    format: Format
    over: Over
    row: Row | None
    known: int | None
    sources: tuple[str, ...]

    @property
    def gap(self) -> int | None:
        """How far our rank lies above the best known one."""
        return None if self.row is None or self.known is None else self.row.rank - self.known

    @property
    def mark(self) -> str:
        """The gap as a sign, so that no colour is needed to read it."""
        if self.gap is None:
            return ""
        return "=" if self.gap == 0 else f"+{self.gap}" if self.gap > 0 else f"\N{MINUS SIGN}{-self.gap}"

    @property
    def shade(self) -> str:
        """Class of the colour: lower than known, equal, and three steps of the gap relative to the known rank."""
        if self.gap is None or not self.known:
            return "none" if self.row is None else "unknown"
        if self.gap <= 0:
            return "equal" if self.gap == 0 else "lower"
        share = self.gap / self.known
        return "near" if share <= 0.02 else "middle" if share <= 0.06 else "far"

    @property
    def words(self) -> str:
        """The cell as a sentence."""
        if self.row is None:
            return f"{self.format} over {self.over.name}: no scheme here, best known rank {self.known}"
        text = f"{self.format} over {self.over.name}: rank {self.row.rank}"
        if self.gap is None:
            return f"{text}, no known rank in the table"
        if self.gap == 0:
            return f"{text}, equal to the best known"
        where = "above" if self.gap > 0 else "below"
        return f"{text}, {abs(self.gap)} {where} the best known {self.known}"


def cells_of(format: Format, rows: Iterable[Row]) -> tuple[Cell, ...]:
    """A format's cell for each of ``OVER``; ``rows`` are those of the format in any order of its sizes."""
    rows = list(rows)
    cells = []
    for over in OVER:
        known = best_known_source(format, over.ring, ternary=over.ternary)
        row = min((row for row in rows if over.takes(row)), key=lambda row: row.merit, default=None)
        sources = () if known is None else tuple(SOURCES.get(key, key) for key in known.sources)
        cells.append(Cell(format.sorted, over, row, None if known is None else known.rank, sources))
    return tuple(cells)


@dataclass(frozen=True)
class Map:
    """The heat map of one ring: a line for each pair of the two smaller sizes, a column for each largest size."""

    over: Over
    columns: tuple[int, ...]
    lines: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def maps(rows_by_format: Mapping[Format, Sequence[Row]]) -> list[Map]:
    """A heat map for each of ``OVER`` over the formats that there are schemes of, and those between them."""
    pairs = sorted({(f.m, f.k) for f in rows_by_format})
    columns = tuple(sorted({f.n for f in rows_by_format}))
    every = {
        Format(m, k, n): cells_of(Format(m, k, n), rows_by_format.get(Format(m, k, n), ()))
        for m, k in pairs
        for n in columns
        if n >= k
    }
    return [
        Map(
            over,
            columns,
            tuple(
                (f"{m}x{k}", tuple(every[Format(m, k, n)][number] if n >= k else None for n in columns))
                for m, k in pairs
            ),
        )
        for number, over in enumerate(OVER)
    ]
