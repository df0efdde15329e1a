"""The folder of a catalog: which shards it has, its index, and the lock that keeps writers apart.

``shards/<SHA-256>.h5`` are immutable, ``index.h5`` is a cache of them, ``writer.lock`` keeps writers apart. A shard
counts from the moment it has its name; everything else can be lost and is made again. Readers take no lock and write
nothing.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from catalog import index as indexing
from catalog import shards as sharding
from catalog.errors import CatalogError, DamagedError
from catalog.files import TEMPORARY_PREFIX, reason, sync_folder, write_durably
from catalog.index import Index
from catalog.shards import Generator, Shard

# A temporary file of a killed writer is swept by a later one when it is older than any write can take.
STALE_SECONDS = 600.0
LOCK_SECONDS = 120.0
# A compaction by another process may remove a shard between listing and reading it, and the next one its successor.
PATIENCE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 0.2


class Folder:
    """Shards, index and lock of one catalog. Making the object does nothing on disk.

    Args:
        path: the catalog's folder.
        generator: version and commit to record in files written.
    """

    def __init__(self, path: Path, generator: Generator) -> None:
        self.path = path
        self.generator = generator
        self.shards = path / "shards"
        self.index_path = path / "index.h5"
        self._decoded: tuple[tuple[int, ...], Index] = ((), Index())

    def read(self, name: str) -> Shard:
        """Read one shard; errors as ``catalog.shards.read``."""
        return sharding.read(self.shards / name)

    def load(self, afresh: bool = False) -> tuple[Index, list[DamagedError]]:
        """The index, mended in memory where the file does not fit the shards, and the shards that cannot be read.

        Args:
            afresh: make it from the shards alone.

        Raises:
            CatalogError: the folder cannot be read, or a file of it was written by a newer version.
        """
        for _ in turns():
            # The index is read before the folder, so that only a compaction can make it name a shard that is gone.
            index = Index() if afresh else self._stored_index()
            names = self._names()
            if not index.shards.keys() <= names:
                # A scheme of a vanished shard may stand in another one too, which only a fresh index can tell.
                index = Index()
            with suppress(FileNotFoundError):
                read, damaged = self.read_all(names - index.shards.keys())
                return (index.with_shards(read) if read else index), damaged
        raise CatalogError(f"the shards of {self.path} change while they are read; try again")

    def load_for(self, wanted: Iterable[str]) -> Index:
        """The index to add to: a scheme whose shard was damaged after it was listed does not count as stored."""
        index, _ = self.load()
        listed = [(*index.place(identity), identity) for identity in wanted if identity in index]
        for name in {name for name, _, _ in listed}:
            try:
                shard = self.read(name)
            except (DamagedError, FileNotFoundError):
                return self.load(afresh=True)[0]
            if not all(shard.has(position, identity) for there, position, identity in listed if there == name):
                return self.load(afresh=True)[0]
        return index

    def read_all(self, names: Iterable[str] | None = None) -> tuple[list[Shard], list[DamagedError]]:
        """Read some shards, or all: the sound ones and what is wrong with the others.

        Raises:
            FileNotFoundError: a shard is gone.
            CatalogError: as ``load``.
        """
        read, damaged = [], []
        for name in sorted(self._names() if names is None else names):
            try:
                read.append(self.read(name))
            except DamagedError as error:
                damaged.append(error)
        return read, damaged

    def publish(self, index: Index) -> None:
        """Write the index if possible; errors as ``catalog.index.write`` are of no consequence.

        The shard is safe and the index only a cache: the next reader mends it in memory, the next writer on disk.
        """
        with suppress(OSError):
            indexing.write(self.index_path, index, self.generator)

    def index_fits(self) -> bool:
        """Whether the index file is what a fresh one would be."""
        with suppress(OSError, ValueError):
            fresh = self.load(afresh=True)[0]
            return self.index_path.is_file() and indexing.decode(self.index_path, self.index_path.read_bytes()) == fresh
        return False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder, hold the writer's lock, and turn errors of the operating system into one sentence.

        Raises:
            CatalogError: the catalog cannot be written, or another writer holds it for too long.
        """
        # Without locks on this file system, adding stays safe: shards never collide and the index mends itself.
        with _locked(self.path, self.path / "writer.lock"):
            self.shards.mkdir(exist_ok=True)
            self._sweep()
            yield

    def _names(self) -> set[str]:
        try:
            return {name for name in os.listdir(self.shards) if sharding.NAME.fullmatch(name)}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise CatalogError(f"cannot read the catalog {self.path}: {reason(error)}; choose another place") from None

    def _stored_index(self) -> Index:
        try:
            if not self.index_path.is_file():  # a pipe would keep its reader for ever
                return Index()
            # It is only ever replaced by a rename, so what has the same inode, time and size is the same.
            with self.index_path.open("rb") as file:
                facts = os.fstat(file.fileno())
                key = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
                if self._decoded[0] != key:
                    self._decoded = (key, indexing.decode(self.index_path, file.read()))
            return self._decoded[1]
        except CatalogError:
            raise
        except (OSError, ValueError):
            return Index()

    def _sweep(self) -> None:
        """Remove temporaries of killed writers. The age protects those of a writer on a system without locks."""
        oldest = time.time() - STALE_SECONDS
        for folder in (self.path, self.shards):
            for leftover in folder.glob(f"{TEMPORARY_PREFIX}*"):
                if leftover.stat().st_mtime < oldest:
                    leftover.unlink(missing_ok=True)


def turns() -> Iterator[int]:
    """Turns to list and read what another process may replace meanwhile, with ever longer pauses between them.

    They end with the first one that is over after ``PATIENCE_SECONDS``: then something other than a writer is at work.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    for turn in itertools.count():
        yield turn
        if time.monotonic() > until:
            return
        # By chance, so that readers that lost to the same compaction do not meet the next one together.
        time.sleep(random.uniform(0.0, min(_LONGEST_PAUSE_SECONDS, 0.002 * 2 ** min(turn, 10))))


def begin_with(shards: Iterable[Path], path: Path, generator: Generator) -> None:
    """Make a catalog of shards of another one. It is made under another name beside its own, so it is whole or not.

    Args:
        shards: files of the other catalog; each is proved intact by its SHA-256.
        path: where the catalog shall be; what is there already stays as it is.
        generator: version and commit to record in files written.

    Raises:
        DamagedError: a shard differs from what was written; then there is nothing at ``path``.
        CatalogError: as ``Folder.writing``; then there is nothing at ``path``.
    """
    beside = f"{TEMPORARY_PREFIX}{path.name}"
    with _locked(path, path.with_name(f"{beside}.lock")) as held:
        if path.exists():
            return
        # Only one process at a time comes here, so that what others have left was left by a kill.
        for leftover in path.parent.glob(f"{beside}-*") if held else ():
            shutil.rmtree(leftover, ignore_errors=True)
        folder = Folder(path.with_name(f"{beside}-{os.getpid()}-{secrets.token_hex(8)}"), generator)
        try:
            folder.shards.mkdir(parents=True)
            for shard in shards:
                write_durably(folder.shards / shard.name, sharding.intact_bytes(shard))
            folder.publish(folder.load()[0])
            sync_folder(folder.path)
            try:
                folder.path.rename(path)
            except OSError:
                if not path.exists():  # without locks another process may have been faster, and its catalog is whole
                    raise
            sync_folder(path.parent)
        finally:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextmanager
def _locked(catalog: Path, path: Path) -> Iterator[bool]:
    """Hold a lock file, whose folder is made, and turn errors of the operating system into one sentence.

    Yields:
        Whether it is held; there are file systems without locks.

    Raises:
        CatalogError: the catalog cannot be written, or another writer holds the lock for too long.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=LOCK_SECONDS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(NotImplementedError):
            lock.acquire()
        yield lock.is_locked
    except CatalogError:
        raise
    except Timeout:
        raise CatalogError(
            f"another process has been writing to {catalog} for {LOCK_SECONDS:.0f} s; try again when it is done"
        ) from None
    except OSError as error:
        raise CatalogError(
            f"cannot write to the catalog {catalog}: {reason(error)}; "
            "make room or choose another place (nothing stored is lost)"
        ) from error
    finally:
        lock.release()
