"""Reading many schemes of a catalog, each shard once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catalog.errors import CatalogError, DamagedError
from catalog.folder import Folder
from catalog.provenance import Provenance
from catalog.scheme import Scheme
from catalog.shards import Shard, Stored


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


def read_entries(
    folder: Folder, places: Mapping[str, tuple[str, int]], damaged: list[DamagedError] | None = None
) -> Iterator[Entry]:
    """Every placed scheme once, shard by shard.

    Args:
        folder: of the catalog.
        places: shard name and position in it by id.
        damaged: where to put what cannot be read, which is then left out; None raises it.

    Raises:
        DamagedError: a shard or a scheme in it is not what was written.
        CatalogError: a shard vanished.
    """
    by_shard: dict[str, list[int]] = {}
    for name, position in places.values():
        by_shard.setdefault(name, []).append(position)
    for name, positions in sorted(by_shard.items()):
        shard = Shard(folder.shards / name)
        for position in sorted(positions):
            try:
                shard = shard if shard.rows else folder.read(name)
                entry = Entry.of(shard.stored(position))
            except FileNotFoundError:
                raise CatalogError(f"shard {name} vanished while it was read; try again") from None
            except DamagedError as error:
                if damaged is None:
                    raise
                damaged.append(error)
                if not shard.rows:  # none of it can be read
                    break
                continue
            yield entry
