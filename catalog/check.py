"""Check of a catalog's shards: every byte by its SHA-256, every scheme by its digest and the Brent equations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from catalog import shards as sharding
from catalog.errors import CatalogError, DamagedError
from catalog.files import TEMPORARY_PREFIX, reason
from catalog.verify import first_violation


@dataclass(frozen=True)
class Bad:
    """A file of the catalog that is not as it should be."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Report:
    """Outcome of a check.

    Attributes:
        shards: sound shard files.
        schemes: sound schemes in them; one that stands in two shards counts once.
        measurements: measurements in them.
        bad: what is not as it should be, with its reason.
        index_rebuilt: the index did not fit the shards and was made anew.
    """

    shards: int
    schemes: int
    measurements: int
    bad: tuple[Bad, ...]
    index_rebuilt: bool = False


def check_shards(folder: Path) -> Report:
    """Check every file of a shard folder.

    Raises:
        CatalogError: the folder cannot be read, or a shard was written by a newer version.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise CatalogError(f"cannot read {folder}: {reason(error)}") from None
    bad: list[Bad] = []
    sound, measurements, ids = 0, 0, set()
    for name in names:
        path = folder / name
        if name.startswith(TEMPORARY_PREFIX):
            continue
        try:
            shard = sharding.read(path)
            for position, row in enumerate(shard.rows):
                _check_scheme(shard, position)
                ids.add(row.id)
        except FileNotFoundError:
            continue  # compacted by another process since the folder was listed
        except DamagedError as error:
            bad.append(Bad(path, error.reason))
        else:
            sound += 1
            measurements += len(shard.measurements)
    return Report(sound, len(ids), measurements, tuple(bad))


def _check_scheme(shard: sharding.Shard, position: int) -> None:
    stored = shard.stored(position)
    violation = first_violation(stored.scheme)
    if violation is not None:
        raise DamagedError(shard.path, f"scheme {stored.row.id[:12]} is not exact: {violation}")
