"""Which stored schemes a search can start from: those of its format, of its rungs, and of one slice more."""

from __future__ import annotations

from catalog.rows import Row
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import AXES

# `search --from` takes this word for all of them.
EVERYTHING = "catalog"
# Schemes of one format, those of least rank.
_EACH = 16


def starts(catalog: Catalog, format: Format, ring: str) -> list[str]:
    """Ids of the stored schemes that lead to a format by one move or several.

    Args:
        catalog: the catalog in use.
        format: what is searched.
        ring: as on the command line. A scheme over Z is one over F2 and F3 too, a ternary search needs ternary ones.
    """
    from search.ladder import formats_below
    from search.rungs import Goal

    larger = [format._replace(**{axis: getattr(format, axis) + 1}) for axis in AXES]
    rungs = formats_below(format, Goal(Ring.F2, ring))[:-1]
    # Rungs first and the format itself last: what is projected and what is there already are the starts of the top.
    wanted = dict.fromkeys(size.sorted for size in (*rungs, *larger, format))
    found: list[str] = []
    for size in wanted:
        rows = [row for row in catalog.rows(size) if _suits(row, ring) and row.rank < row.format.volume]
        least = min((row.rank for row in rows), default=0)
        found += [row.id for row in rows if row.rank == least][:_EACH]
    return found


def _suits(row: Row, ring: str) -> bool:
    if ring == "ZT":
        return row.ternary
    return row.ring is Ring.Z or row.ring.value == ring in ("F2", "F3")
