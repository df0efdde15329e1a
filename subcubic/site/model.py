"""What pages are made of: a sheet for each scheme, a group for each format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from catalog.canonical import digest
from catalog.errors import CatalogError, DamagedError
from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.rows import Row, summarise
from catalog.scheme import Format, Scheme
from catalog.store import Catalog
from subcubic.additions_verb import fewest_of
from subcubic.listing import gap
from subcubic.site import measured
from subcubic.site.measured import Measured
from subcubic.site.ranks import Cell, cells_of

# Schemes that every command knows by name, and what they were published in.
_BUILT_IN = (
    ("strassen", strassen, "Volker Strassen", "Numerische Mathematik 13, 1969"),
    ("winograd", winograd, "Shmuel Winograd", "Linear Algebra and its Applications 4, 1971"),
)
# Digits of an id that an address has, unless two schemes share them.
_DIGITS = 16


@dataclass(frozen=True)
class Sheet:
    """A scheme and what its page says.

    Attributes:
        row: its line in listings.
        scheme: the scheme.
        made: where it comes from.
        name: of its files, without suffix; letters, digits and hyphens.
        gap: how far its rank lies above the best known one; None where none is known.
        measured: rows, newest first.
        best: the row of the largest ratio.
        fewest: additions of the best program that a search has recorded; None where none has.
    """

    row: Row
    scheme: Scheme
    made: Provenance
    name: str
    gap: int | None
    measured: tuple[Measured, ...]
    best: Measured | None
    fewest: int | None = None


@dataclass(frozen=True)
class Group:
    """The schemes of one format in any order of its sizes.

    Attributes:
        format: sizes in ascending order.
        cells: best ranks for each of ``ranks.OVER``.
        sheets: best first for each ring.
        elsewhere: measured rows of schemes of this format that have no page.
    """

    format: Format
    cells: tuple[Cell, ...]
    sheets: tuple[Sheet, ...]
    elsewhere: tuple[Measured, ...]


@dataclass(frozen=True)
class Content:
    """All that a site shows.

    Attributes:
        sheets: in the order of a listing.
        groups: by format.
        users: sheets that were made from a scheme, by its id.
        notes: what was left out, and why.
    """

    sheets: tuple[Sheet, ...]
    groups: dict[Format, Group]
    users: dict[str, list[Sheet]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def named(self, identity: str) -> Sheet | None:
        """The sheet of an id, if there is one."""
        return self._by_id.get(identity)

    @cached_property
    def _by_id(self) -> dict[str, Sheet]:
        return {sheet.row.id: sheet for sheet in self.sheets}


def gather(catalog: Catalog, results: Path | None) -> Content:
    """Read a catalog and the results beside it; what is damaged is left out with a note.

    Args:
        catalog: to show. Strassen's scheme and Winograd's form, which every command knows, are shown too.
        results: folder of documents of results; None for none.

    Raises:
        CatalogError: the catalog cannot be read at all, or was written by a newer version.
    """
    damaged: list[DamagedError] = list(catalog.damaged())
    rows = {row.id: row for row in catalog.rows()}
    found = {entry.id: (rows[entry.id], entry.scheme, entry.provenance) for entry in catalog.entries(damaged)}
    for name, make, discoverer, citation in _BUILT_IN:
        identity = digest(make())
        if identity not in found:
            made = Provenance(
                "formula", source=f"built-in {name}", discoverer=discoverer, citation=citation, created_utc=""
            )
            found[identity] = (summarise(identity, make(), made), make(), made)
    notes = [str(damage) for damage in damaged]
    speeds = measured.gather(catalog, results, notes)
    fewest: dict[str, int] = {}
    with suppress(CatalogError):  # of which there is a note already
        fewest = fewest_of(catalog.measurements())
    ordered = sorted(found.values(), key=lambda item: (item[0].format.sorted, item[0].ring.value, *item[0].merit))
    names = _names([row for row, _, _ in ordered])
    sheets = tuple(
        Sheet(
            row,
            scheme,
            made,
            name,
            gap(row),
            tuple(timed := speeds.get(row.id, [])),
            measured.best(timed),
            fewest.get(row.id),
        )
        for (row, scheme, made), name in zip(ordered, names, strict=True)
    )
    elsewhere = [item for identity, items in speeds.items() if identity not in found for item in items]
    users: dict[str, list[Sheet]] = {}
    for sheet in sheets:
        for parent in sheet.made.parents:
            users.setdefault(parent, []).append(sheet)
    return Content(sheets, _groups(sheets, elsewhere), users, tuple(notes))


def _groups(sheets: Iterable[Sheet], elsewhere: Sequence[Measured]) -> dict[Format, Group]:
    by_format: dict[Format, list[Sheet]] = {}
    for sheet in sheets:
        by_format.setdefault(sheet.row.format.sorted, []).append(sheet)
    others: dict[str, list[Measured]] = {}
    for item in elsewhere:
        others.setdefault("x".join(sorted(item.format.split("x"), key=lambda size: (len(size), size))), []).append(item)
    return {
        format: Group(
            format, cells_of(format, [s.row for s in members]), tuple(members), tuple(others.get(str(format), ()))
        )
        for format, members in by_format.items()
    }


def _names(rows: Sequence[Row]) -> list[str]:
    """Names for addresses that stay the same as the catalog grows."""
    sharing = Counter(row.id[:_DIGITS] for row in rows)
    return [
        f"{row.format}-r{row.rank}-{row.ring}-{row.id if sharing[row.id[:_DIGITS]] > 1 else row.id[:_DIGITS]}"
        for row in rows
    ]
