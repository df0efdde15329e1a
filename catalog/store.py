"""The catalog on disk: proved schemes with their provenance, and measurements of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from catalog import index as indexing
from catalog import shards as sharding
from catalog.canonical import digest
from catalog.check import Bad, Report, check_shards
from catalog.entries import Entry, read_entries
from catalog.errors import CatalogError, DamagedError
from catalog.files import sync_folder
from catalog.folder import Folder, begin_with, turns
from catalog.index import Index, resolve
from catalog.provenance import Provenance, utc_now
from catalog.query import Query, select
from catalog.rows import Row, summarise
from catalog.scheme import Format, Ring, Scheme
from catalog.shards import Generator, Stored
from catalog.verify import require_exact

# A ratio that was measured lies below.
_FASTEST = 1e9
# Schemes of one shard after compaction: small enough to hash and parse at every read.
_COMPACT = 1024


@dataclass(frozen=True)
class Added:
    """What became of a scheme that was added."""

    id: str
    status: Literal["new", "duplicate"]


def default_path() -> Path:
    """``$SUBCUBIC_CATALOG``, else ``subcubic/catalog`` in the user's data folder (XDG base directory specification)."""
    named = os.environ.get("SUBCUBIC_CATALOG")
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "subcubic" / "catalog"


class Catalog:
    """A folder of schemes. Opening one does nothing; the first write makes it.

    Args:
        path: the folder; ``default_path()`` when None.
        generator: version and commit to record in files written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, generator: Generator | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        self.generator = generator or Generator()
        self._folder = Folder(self.path, self.generator)

    @property
    def is_made(self) -> bool:
        """Whether the folder is a catalog, and not one that is missing or holds something else."""
        return self._folder.shards.is_dir() or self._folder.index_path.exists()

    # Writing

    def add(self, scheme: Scheme, provenance: Provenance) -> Added:
        """Prove a scheme by the exact Brent check and keep it; once this returns it survives a power cut.

        Raises:
            NotExactError: a Brent equation is violated; nothing is stored.
            CatalogError: the catalog cannot be written; nothing that was stored is lost.
        """
        return self.add_many([(scheme, provenance)])[0]

    def add_many(self, pairs: Iterable[tuple[Scheme, Provenance]]) -> list[Added]:
        """Add several schemes as one shard: all of them or, when one is not exact, none.

        Raises:
            NotExactError: as ``add``.
            CatalogError: as ``add``.
        """
        proved: dict[str, tuple[Scheme, Provenance]] = {}
        order = []
        for scheme, provenance in pairs:
            identity = digest(require_exact(scheme))
            order.append((identity, identity in proved))
            proved.setdefault(identity, (scheme, provenance))
        index = self._folder.load_for(proved)
        # Rows take the longest, so they are made before the lock is taken.
        fresh = [Stored(summarise(i, *pair), *pair) for i, pair in proved.items() if i not in index]
        if fresh:
            with self._folder.writing():
                index = self._folder.load_for(proved)
                fresh = [item for item in fresh if item.row.id not in index]
                if fresh:
                    path = sharding.write_schemes(self._folder.shards, fresh, self.generator)
                    self._folder.publish(index.with_shards([sharding.read(path)]))
        new = {item.row.id for item in fresh}
        return [Added(i, "new" if i in new and not repeated else "duplicate") for i, repeated in order]

    def record(self, prefix: str, measurement: dict[str, Any]) -> None:
        """Keep a measurement, any JSON object, of the scheme whose id starts with ``prefix``.

        Raises:
            UnknownSchemeError: the prefix names no scheme, or several.
            ValueError: the measurement is no JSON.
            CatalogError: the catalog cannot be written.
        """
        self.record_many([(prefix, measurement)])

    def record_many(self, pairs: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Keep several (id prefix, measurement) pairs as one shard; errors as ``record``."""
        index, now = self._folder.load()[0], utc_now()
        named = [(resolve(index, prefix), {"recorded_utc": now, **measurement}) for prefix, measurement in pairs]
        if named:
            with self._folder.writing():
                path = sharding.write_measurements(self._folder.shards, named, self.generator)
                self._folder.publish(self._folder.load()[0].with_shards([sharding.read(path)]))

    def merge(self, other: Catalog, damaged: list[DamagedError] | None = None) -> list[Added]:
        """Add every scheme of another catalog, proving each anew, and its measurements that are not here yet.

        Args:
            other: the catalog to take from.
            damaged: where to put what of the other catalog is damaged, which is then left out; None raises it.

        Raises:
            NotExactError: a scheme of the other catalog is not exact.
            CatalogError: one of the two catalogs is missing or cannot be read or written.
        """
        # A folder of anything else must not pass for a catalog without schemes.
        if not other.is_made:
            raise CatalogError(f"there is no catalog at {other.path}; name a folder in which there is one named shards")
        if (unread := other.damaged()) and damaged is None:
            raise unread[0]
        added: list[Added] = []
        pairs = ((entry.scheme, entry.provenance) for entry in other.entries(damaged))
        while batch := list(islice(pairs, _COMPACT)):
            added += self.add_many(batch)
        here = {sharding.measurement_key(pair) for pair in self._measured()}
        index = self._folder.load()[0]
        # A measurement of a scheme that did not come along has nothing to belong to.
        fresh = [pair for pair in other._measured(damaged) if pair[0] in index]
        self.record_many(pair for pair in fresh if sharding.measurement_key(pair) not in here)
        if damaged is not None:
            damaged[:] = {str(error): error for error in (*unread, *damaged)}.values()
        return added

    def adopt(self, shards: Iterable[Path]) -> None:
        """Begin with the shards of another catalog, all or none; a catalog that there is already stays as it is.

        Raises:
            DamagedError: a shard differs from what was written.
            CatalogError: the catalog cannot be written.
        """
        begin_with(shards, self.path, self.generator)

    def compact(self) -> int:
        """Merge the shards into few large ones and return how many there are then; damaged shards stay as they are.

        Raises:
            CatalogError: the catalog cannot be read or written; every scheme stays stored.
        """
        with self._folder.writing():
            shards, damaged = self._folder.read_all()
            kept = {shard.path.name: shard for shard in shards}
            places = Index().with_shards(shards).all_places()
            stored = [kept[name].stored(position) for name, position in places]
            pairs = list({sharding.measurement_key(pair): pair for s in shards for pair in s.measurements}.values())
            written = [
                sharding.write_schemes(self._folder.shards, stored[start : start + _COMPACT], self.generator)
                for start in range(0, len(stored), _COMPACT)
            ]
            if pairs:
                written.append(sharding.write_measurements(self._folder.shards, pairs, self.generator))
            self._folder.publish(Index().with_shards(sharding.read(path) for path in written))
            # Until here both generations are on disk; a reader that still knows the old one asks again.
            for shard in shards:
                if shard.path not in written:
                    shard.path.unlink()
            sync_folder(self._folder.shards)
        return len(written) + len(damaged)

    # Reading

    def get(self, prefix: str) -> Entry:
        """The scheme whose id starts with ``prefix``; its digest is checked.

        Raises:
            UnknownSchemeError: no scheme, or more than one, has such an id.
            CatalogError: the scheme's shard is damaged or cannot be read.
        """
        afresh = False
        for _ in turns():
            index, _damaged = self._folder.load(afresh)
            identity = resolve(index, prefix)
            name, position = index.place(identity)
            # A compaction by another process may remove the shard just now; then its successor is asked.
            with suppress(FileNotFoundError):
                shard = self._folder.read(name)
                if shard.has(position, identity):
                    return Entry.of(shard.stored(position))
                afresh = True  # the index is whole and yet wrong
        raise CatalogError(f"shard {name} vanished while it was read; try again")

    def entries(self, damaged: list[DamagedError] | None = None) -> Iterator[Entry]:
        """Every scheme once, shard by shard; errors as ``get``, unless there is a list to put damages in."""
        return read_entries(self._folder, damaged)

    def rows(
        self, format: Format | None = None, ring: Ring | None = None, ternary: bool = False, holding: bool = False
    ) -> list[Row]:
        """The listing, from the index alone.

        Args:
            format: only schemes of this format, in any order of the roles.
            ring: only schemes over this ring.
            ternary: only schemes over Z with coefficients in {-1, 0, 1}.
            holding: also schemes over Z, which hold over every ring.

        Raises:
            CatalogError: the catalog cannot be read, or was written by a newer version.
        """
        index = self._folder.load()[0]
        found = select(index, Query(format, ring, ternary, holding))
        return sorted(index.rows(found), key=lambda row: row.sort_key)

    def listing(self, query: Query, limit: int | None = None) -> tuple[list[Row], int]:
        """The first rows that a query asks for, in its order, and how many there are in all; errors as ``rows``."""
        index = self._folder.load()[0]
        found = select(index, query, self.speeds() if query.sort == "speed" else None)
        return index.rows(found[:limit]), len(found)

    def speeds(self) -> dict[str, float]:
        """The greatest measured ratio of the vendor's time to a scheme's, by id; errors as ``measurements``."""
        found: dict[str, float] = {}
        for identity, measurement in self._measured():
            row = measurement.get("row", measurement)
            ratio = row.get("ratio") if isinstance(row, dict) else None
            if isinstance(ratio, int | float) and 0 < ratio < _FASTEST and row.get("correct", True):
                found[identity] = max(float(ratio), found.get(identity, 0.0))
        return found

    def damaged(self) -> list[DamagedError]:
        """Shards that had to be left out of the listing; ``fsck`` also finds those that are listed."""
        return self._folder.load()[1]

    def measurements(self, prefix: str | None = None) -> list[dict[str, Any]]:
        """Measurements, oldest first, each with its scheme's ``id`` and ``recorded_utc``, of one scheme or of all.

        Raises:
            UnknownSchemeError: the id prefix names no scheme, or several.
            CatalogError: a shard is damaged or cannot be read.
        """
        wanted = None if prefix is None else resolve(self._folder.load()[0], prefix)
        return [{**m, "id": i} for i, m in self._measured() if wanted in (None, i)]

    def fsck(self) -> Report:
        """Check the bytes of every shard and every scheme in it exactly; rebuild the index; sweep old temporaries.

        Raises:
            CatalogError: the catalog cannot be read, or was written by a newer version.
        """
        report = check_shards(self._folder.shards)
        if not self.is_made:
            return report
        fits = self._folder.index_fits()
        try:
            with self._folder.writing():
                if not fits:
                    indexing.write(self._folder.index_path, self._folder.load(afresh=True)[0], self.generator)
        except CatalogError as error:
            # A catalog on a read-only disk can be checked too; its listing is mended in memory at every reading.
            if fits:
                return report
            return replace(report, bad=(*report.bad, Bad(self._folder.index_path, f"it does not fit; {error}")))
        return replace(report, index_rebuilt=not fits)

    def _measured(self, damaged: list[DamagedError] | None = None) -> list[tuple[str, dict[str, Any]]]:
        for _ in turns():
            shards = self._folder.load()[0].shards
            with suppress(FileNotFoundError):  # as in ``entries``
                read, bad = self._folder.read_all(name for name in shards if shards[name])
                if bad and damaged is None:
                    raise bad[0]
                if damaged is not None:
                    damaged += bad
                found = [pair for shard in read for pair in shard.measurements]
                break
        else:
            raise CatalogError(f"the shards of {self.path} change while they are read; try again")
        # A compaction that was killed leaves the same measurement in two shards.
        unique = {sharding.measurement_key(pair): pair for pair in found}.values()
        return sorted(unique, key=lambda pair: str(pair[1].get("recorded_utc", "")))
