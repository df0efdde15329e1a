"""The index of a catalog: all rows and where they stand. A cache, rebuilt from the shards whenever it is not right.

The file begins with a block that HDF5 leaves alone and that holds the SHA-256 of the rest, so that a damaged index
is noticed before it is parsed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catalog import hdf
from catalog.files import write_durably
from catalog.rows import Row, from_table, to_table
from catalog.shards import Generator, Shard, require_known_format

_USERBLOCK = 512
_MAGIC = b"subcubic index sha256 "
_SHARDS = np.dtype([("name", "S67"), ("measurements", "u1")])
_PLACES = np.dtype([("shard", "<u4"), ("position", "<u4")])


@dataclass(frozen=True)
class Index:
    """Rows of all schemes and their places.

    Attributes:
        shards: name of each indexed shard file, and whether it holds measurements.
        rows: row of each scheme by id.
        places: shard name and position in it by id.
    """

    shards: dict[str, bool] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)

    def with_shards(self, added: Iterable[Shard]) -> Index:
        """The index with more shards. Of a scheme that stands in two shards the older provenance is shown."""
        shards, rows, places = dict(self.shards), dict(self.rows), dict(self.places)
        for shard in added:
            shards[shard.path.name] = not shard.rows
            for position, row in enumerate(shard.rows):
                place = (shard.path.name, position)
                known = rows.get(row.id)
                if known is None or (row.created, place) < (known.created, places[row.id]):
                    rows[row.id], places[row.id] = row, place
        return Index(shards, rows, places)


def encode(index: Index, generator: Generator) -> bytes:
    """The index as the bytes of its file."""
    names = sorted(index.shards)
    number = {name: position for position, name in enumerate(names)}
    rows = list(index.rows.values())
    datasets = {
        "shards": np.array([(name.encode(), index.shards[name]) for name in names], dtype=_SHARDS),
        "schemes": to_table(rows),
        "texts": hdf.json_bytes([[row.source, row.method, row.created] for row in rows]),
        "places": np.array([(number[shard], at) for shard, at in (index.places[r.id] for r in rows)], dtype=_PLACES),
    }
    body = hdf.pack(datasets, generator.attributes("index"), _USERBLOCK)[_USERBLOCK:]
    return (_MAGIC + hashlib.sha256(body).hexdigest().encode()).ljust(_USERBLOCK, b"\0") + body


def decode(path: Path, data: bytes) -> Index:
    """The inverse of ``encode``.

    Raises:
        ValueError: the bytes are not those of an index.
        NewerFormatError: its format has a newer major version.
    """
    body = data[_USERBLOCK:]
    if data[:_USERBLOCK].rstrip(b"\0") != _MAGIC + hashlib.sha256(body).hexdigest().encode():
        raise ValueError("its SHA-256 differs from what was written")
    datasets, attributes = hdf.unpack(data)
    require_known_format(path, attributes)
    try:
        rows = from_table(datasets["schemes"], hdf.json_value(datasets["texts"]))
        shards = [(name.decode(), bool(kind)) for name, kind in datasets["shards"].tolist()]
        places = [(shards[number][0], position) for number, position in datasets["places"].tolist()]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"its tables do not fit together: {error}") from None
    return Index(
        dict(shards),
        {row.id: row for row in rows},
        {row.id: place for row, place in zip(rows, places, strict=True)},
    )


def write(path: Path, index: Index, generator: Generator) -> None:
    """Write the index file.

    Raises:
        OSError: it could not be written.
    """
    write_durably(path, encode(index, generator))
