"""Reading many schemes of a catalog, each shard once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from catalog.errors import CatalogError, DamagedError
from catalog.folder import Folder, turns
from catalog.provenance import Provenance
from catalog.scheme import Scheme
from catalog.shards import Stored


@dataclass(frozen=True)
class Entry:
    """A scheme of the catalog with its id and provenance."""

    id: str
    scheme: Scheme
    provenance: Provenance

    @classmethod
    def of(cls, stored: Stored) -> Entry:
        """The entry of a scheme as a shard has it."""
        return cls(stored.row.id, stored.scheme, stored.provenance)


def read_entries(folder: Folder, damaged: list[DamagedError] | None = None) -> Iterator[Entry]:
    """Every scheme once, shard by shard.

    Args:
        folder: of the catalog.
        damaged: where to put what cannot be read, which is then left out; None raises it.

    Raises:
        DamagedError: a shard or a scheme in it is not what was written.
        CatalogError: the catalog cannot be read, or its shards change all the time.
    """
    done: set[str] = set()  # ids, also of what is damaged
    afresh = False
    for _ in turns():
        by_shard: dict[str, list[int]] = {}
        for name, position in folder.load(afresh)[0].all_places():
            by_shard.setdefault(name, []).append(position)
        # A compaction by another process may remove shards meanwhile; what they had is in its successors.
        with suppress(FileNotFoundError):
            for name, positions in sorted(by_shard.items()):
                try:
                    shard = folder.read(name)
                except DamagedError as error:
                    if damaged is None:
                        raise
                    damaged.append(error)
                    continue
                if max(positions) >= len(shard.rows):  # the index is whole and yet wrong
                    afresh = True
                    raise FileNotFoundError
                for position in sorted(positions):
                    identity = shard.rows[position].id
                    if identity in done:
                        continue
                    done.add(identity)
                    try:
                        entry = Entry.of(shard.stored(position))
                    except DamagedError as error:
                        if damaged is None:
                            raise
                        damaged.append(error)
                        continue
                    yield entry
            return
    raise CatalogError(f"the shards of {folder.path} change while they are read; try again")
