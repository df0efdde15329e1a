"""The index of a catalog: all rows and where they stand. A cache, rebuilt from the shards whenever it is not right.

It is held in columns, since a hundred thousand rows as objects take longer to make than a listing may take. The file
begins with a block that HDF5 leaves alone and that holds the SHA-256 of the rest, so that a damaged index is noticed
before it is parsed.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog import hdf
from catalog.errors import UnknownSchemeError
from catalog.files import write_durably
from catalog.rows import TABLE, Row, from_table, require_formats, to_table
from catalog.shards import Generator, Shard, require_known_format

_USERBLOCK = 512
_MAGIC = b"subcubic index sha256 "
_SHARDS = np.dtype([("name", "S67"), ("measurements", "u1")])
_PLACES = np.dtype([("shard", "<u4"), ("position", "<u4")])
_TEXTS = np.dtype([("source", "<u4"), ("method", "<u4"), ("created", "<u4")])


@dataclass(frozen=True, eq=False)
class Index:
    """Rows of all schemes and their places.

    Attributes:
        shards: name of each indexed shard file, and whether it holds measurements.
        table: [schemes] of dtype ``catalog.rows.TABLE``.
        texts: [schemes] source, method and time of each as places in ``words``.
        words: texts, each once.
        places: [schemes] shard, as a place in the sorted names, and position in it.
    """

    shards: dict[str, bool] = field(default_factory=dict)
    table: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=TABLE))
    texts: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=_TEXTS))
    words: tuple[str, ...] = ()
    places: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=_PLACES))

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, identity: object) -> bool:
        return identity in self._positions

    def __iter__(self) -> Iterator[str]:
        """Ids of all schemes."""
        return iter(self._positions)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same, in whatever order."""
        if not isinstance(other, Index) or self.shards != other.shards or len(self) != len(other):
            return NotImplemented if not isinstance(other, Index) else False
        order, others = (np.argsort(index.table["id"]) for index in (self, other))
        columns = (name for name in TABLE.names or () if name != "growth")  # NaN is not equal to itself
        return (
            all(bool((self.table[name][order] == other.table[name][others]).all()) for name in columns)
            and bool(np.array_equal(self.table["growth"][order], other.table["growth"][others], equal_nan=True))
            and bool((self.places[order] == other.places[others]).all())
            and all(self._said(i) == other._said(j) for i, j in zip(order.tolist(), others.tolist(), strict=True))
        )

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {identity.decode(): position for position, identity in enumerate(self.table["id"].tolist())}

    @functools.cached_property
    def _names(self) -> list[str]:
        return sorted(self.shards)

    def _said(self, position: int) -> tuple[str, str, str]:
        source, method, created = self.texts[position].tolist()
        return self.words[source], self.words[method], self.words[created]

    def place(self, identity: str) -> tuple[str, int]:
        """Shard and position in it of a scheme.

        Raises:
            KeyError: no such scheme.
        """
        shard, position = self.places[self._positions[identity]].tolist()
        return self._names[shard], position

    def all_places(self) -> Iterator[tuple[str, int]]:
        """Shard and position in it of every scheme."""
        return ((self._names[shard], position) for shard, position in self.places.tolist())

    def rows(self, positions: Sequence[int] | NDArray[Any] | None = None) -> list[Row]:
        """The rows at some positions of the table; all by default."""
        chosen = np.arange(len(self)) if positions is None else np.asarray(positions, dtype=np.int64)
        return from_table(self.table[chosen], [self._said(position) for position in chosen.tolist()])

    def with_shards(self, added: Iterable[Shard]) -> Index:
        """The index with more shards. Of a scheme that stands in two shards the older provenance is shown."""
        shards = dict(self.shards)
        fresh: dict[str, tuple[Row, tuple[str, int]]] = {}
        for shard in added:
            shards[shard.path.name] = not shard.rows
            for position, row in enumerate(shard.rows):
                place = (shard.path.name, position)
                known = fresh.get(row.id)
                if known is None or (row.created, place) < (known[0].created, known[1]):
                    fresh[row.id] = row, place
        older = {i for i in fresh if i in self and self._age(i) <= (fresh[i][0].created, fresh[i][1])}
        new = [pair for identity, pair in fresh.items() if identity not in older]
        kept = np.array([i for identity, i in self._positions.items() if identity in older or identity not in fresh])
        kept = kept.astype(np.int64)
        words = dict.fromkeys(self.words)
        words |= dict.fromkeys(text for row, _ in new for text in (row.source, row.method, row.created))
        number = {word: place for place, word in enumerate(words)}
        names = {name: place for place, name in enumerate(sorted(shards))}
        moved = np.array([names[name] for name in self._names], dtype=np.uint32)
        places = self.places[kept]
        places["shard"] = moved[places["shard"]] if len(places) else places["shard"]
        texts = [(number[row.source], number[row.method], number[row.created]) for row, _ in new]
        return Index(
            shards,
            np.concatenate([self.table[kept], to_table([row for row, _ in new])]),
            np.concatenate([self.texts[kept], np.array(texts, dtype=_TEXTS)]),
            tuple(words),
            np.concatenate([places, np.array([(names[name], at) for _, (name, at) in new], dtype=_PLACES)]),
        )

    def _age(self, identity: str) -> tuple[str, tuple[str, int]]:
        return self._said(self._positions[identity])[2], self.place(identity)


def resolve(index: Index, prefix: str) -> str:
    """The one id that starts with ``prefix``.

    Raises:
        UnknownSchemeError: there is none, or more than one.
    """
    wanted = prefix.strip().lower()
    if wanted in index:
        return wanted
    found: Sequence[str] = [identity for identity in index if identity.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownSchemeError(
            f"no scheme of the catalog has an id that starts with {prefix!r}; `subcubic catalog list` has all"
        )
    shown = ", ".join(identity[:12] for identity in sorted(found)[:3])
    raise UnknownSchemeError(
        f"{len(found)} schemes have ids that start with {prefix!r} ({shown}, ...); give more digits"
    )


def encode(index: Index, generator: Generator) -> bytes:
    """The index as the bytes of its file."""
    names = sorted(index.shards)
    datasets = {
        "shards": np.array([(name.encode(), index.shards[name]) for name in names], dtype=_SHARDS),
        "schemes": index.table,
        "texts": index.texts,
        "words": hdf.json_bytes(index.words),
        "places": index.places,
    }
    # A cache that every command reads: ids do not compress, and the rest takes longer to unpack than to read.
    body = hdf.pack(datasets, generator.attributes("index"), _USERBLOCK, small=False)[_USERBLOCK:]
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
        shards = {name.decode(): bool(kind) for name, kind in datasets["shards"].tolist()}
        table, texts, places = datasets["schemes"], datasets["texts"], datasets["places"]
        words = tuple(map(str, hdf.json_value(datasets["words"])))
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"its tables do not fit together: {error}") from None
    if (table.dtype, texts.dtype, places.dtype) != (TABLE, _TEXTS, _PLACES):
        raise ValueError("its tables have other columns")
    if not len(table) == len(texts) == len(places):
        raise ValueError("its tables do not fit together")
    used = max((int(texts[name].max(initial=0)) for name in _TEXTS.names or ()), default=0)
    if len(table) and (used >= len(words) or int(places["shard"].max()) >= len(shards)):
        raise ValueError("its tables do not fit together")
    require_formats(table)
    return Index(shards, table, texts, words, places)


def write(path: Path, index: Index, generator: Generator) -> None:
    """Write the index file.

    Raises:
        OSError: it could not be written.
    """
    write_durably(path, encode(index, generator))
