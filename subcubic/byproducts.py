"""What a search meets on the way: schemes of smaller formats, kept when they are as good as the best."""

from __future__ import annotations

from catalog.bounds import best_known
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from search.events import Found


class Byproducts:
    """The latest scheme of every smaller format, until it is stored or found to be worse than what is known."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.waiting: dict[tuple[Format, Ring], Found] = {}

    def offer(self, found: Found) -> None:
        """Take a scheme in place of the last one of its format; a search reports ever lower ranks."""
        self.waiting[found.scheme.format, found.scheme.ring] = found

    def worth_storing(self) -> list[Found]:
        """Those that equal or beat the best in the catalog, or the best known rank where it has none."""
        return [found for found in self.waiting.values() if self._is_worth(found)]

    def clear(self) -> None:
        """Forget what waits."""
        self.waiting.clear()

    def _is_worth(self, found: Found) -> bool:
        format, ring, ternary = found.scheme.format, found.scheme.ring, found.scheme.ring is Ring.Z
        stored = min((row.rank for row in self.catalog.rows(format, ring, ternary=ternary)), default=None)
        bar = best_known(format, ring, ternary=ternary) if stored is None else stored
        return found.rank < format.volume and bar is not None and found.rank <= bar
