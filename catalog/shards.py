"""Immutable shards of the catalog: files named by the SHA-256 of their bytes, of schemes or of measurements."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog import hdf
from catalog.canonical import digest
from catalog.errors import DamagedError, NewerFormatError
from catalog.files import reason, write_durably
from catalog.provenance import Provenance, utc_now
from catalog.rows import Row, from_table, to_table
from catalog.scheme import Scheme

FORMAT_VERSION = "1.0"
NAME = re.compile(r"([0-9a-f]{64})\.h5")

# Where the coefficients of a scheme stand: U, V, W one after the other, row-major, in the array of their width.
_LAYOUT = np.dtype([("denominators", "<i8", (3,)), ("wide", "u1"), ("start", "<u8")])


@dataclass(frozen=True)
class Generator:
    """The software that writes a file, recorded in its attributes."""

    version: str = "unknown"
    commit: str = "unknown"

    def attributes(self, kind: str) -> dict[str, str]:
        """Attributes of a file of the catalog."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "generator": "subcubic",
            "generator_version": self.version,
            "generator_commit": self.commit,
            "created_utc": utc_now(),
            "licence": "Apache-2.0 unless the provenance of a scheme says otherwise",
        }


@dataclass(frozen=True)
class Stored:
    """A scheme as a shard keeps it: its row, itself, its provenance."""

    row: Row
    scheme: Scheme
    provenance: Provenance


@dataclass(frozen=True)
class Shard:
    """The content of one shard file.

    Attributes:
        path: the file.
        rows: rows of the schemes in it.
        measurements: (scheme id, measurement) pairs.
    """

    path: Path
    rows: tuple[Row, ...] = ()
    measurements: tuple[tuple[str, dict[str, Any]], ...] = ()
    _provenances: tuple[Provenance, ...] = ()
    _data: hdf.Datasets = field(default_factory=dict)

    def has(self, position: int, identity: str) -> bool:
        """Whether a scheme stands at a position, as an index says."""
        return position < len(self.rows) and self.rows[position].id == identity

    def stored(self, position: int) -> Stored:
        """The scheme at a position, after checking its digest.

        Raises:
            DamagedError: the coefficients do not fit the format or the id.
        """
        row = self.rows[position]
        m, k, n = row.format
        sizes = [entries * row.rank for entries in (m * k, k * n, m * n)]
        try:
            denominators, wide, start = self._data["layout"][position].item()
            coefficients = self._data["int64" if wide else "int8"][start : start + sum(sizes)].astype(np.int64)
            factors = np.split(coefficients, np.cumsum(sizes)[:-1])
            scheme = Scheme(
                row.format,
                row.ring,
                *(factor.reshape(-1, row.rank) for factor in factors),
                denominators=tuple(int(d) for d in denominators),
            )
        except (KeyError, ValueError, IndexError, TypeError, OverflowError) as error:
            raise DamagedError(self.path, f"scheme {row.id[:12]}: {error}") from None
        if digest(scheme) != row.id:
            raise DamagedError(self.path, f"scheme {row.id[:12]} has another digest")
        return Stored(row, scheme, self._provenances[position])


def write_schemes(folder: Path, stored: Sequence[Stored], generator: Generator) -> Path:
    """Write one shard of schemes and return its path.

    Raises:
        OSError: it could not be written.
        ValueError: a denominator needs more than 63 bits.
    """
    chunks: dict[str, list[NDArray[Any]]] = {"int8": [], "int64": []}
    filled = {"int8": 0, "int64": 0}
    layout = []
    for item in stored:
        scheme = item.scheme
        if max(scheme.denominators) >= 1 << 63:
            raise ValueError(f"denominators {scheme.denominators} need more than 63 bits")
        flat = np.concatenate([factor.ravel() for factor in scheme.factors])
        width = "int8" if int(flat.min(initial=0)) >= -128 and int(flat.max(initial=0)) <= 127 else "int64"
        layout.append((scheme.denominators, width == "int64", filled[width]))
        chunks[width].append(flat)
        filled[width] += flat.size
    datasets = {
        "schemes": to_table([item.row for item in stored]),
        "layout": np.array(layout, dtype=_LAYOUT),
        "provenance": hdf.json_bytes([item.provenance.as_dict() for item in stored]),
    }
    for width, parts in chunks.items():
        datasets[width] = np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(
            "<i1" if width == "int8" else "<i8"
        )
    return _write(folder, hdf.pack(datasets, generator.attributes("schemes")))


def write_measurements(folder: Path, pairs: Sequence[tuple[str, dict[str, Any]]], generator: Generator) -> Path:
    """Write one shard of (scheme id, measurement) pairs and return its path.

    Raises:
        OSError: it could not be written.
        ValueError: a measurement is no JSON.
    """
    try:
        datasets = {"measurements": hdf.json_bytes([list(pair) for pair in pairs])}
    except (TypeError, ValueError) as error:
        raise ValueError(f"a measurement must hold JSON values only ({error})") from None
    return _write(folder, hdf.pack(datasets, generator.attributes("measurements")))


def _write(folder: Path, data: bytes) -> Path:
    path = folder / f"{hashlib.sha256(data).hexdigest()}.h5"
    write_durably(path, data)
    return path


def intact_bytes(path: Path) -> bytes:
    """The bytes of a shard whose name is their SHA-256.

    Raises:
        FileNotFoundError: it is gone; another process may have compacted the catalog.
        DamagedError: it cannot be read or a bit of it differs from what was written.
    """
    try:
        if not path.is_file() and path.exists() and not path.is_dir():  # a pipe would keep its reader for ever
            raise DamagedError(path, "it is no regular file")
        data = path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise DamagedError(path, "it is a link to nothing") from None
        raise
    except DamagedError:
        raise
    except OSError as error:
        raise DamagedError(path, reason(error)) from None
    found = NAME.fullmatch(path.name)
    if not found or hashlib.sha256(data).hexdigest() != found[1]:
        raise DamagedError(path, "its SHA-256 differs from its name")
    return data


def read(path: Path) -> Shard:
    """Read a shard after checking its SHA-256.

    Raises:
        FileNotFoundError: as ``intact_bytes``.
        DamagedError: it is not what was written.
        NewerFormatError: its format has a newer major version.
    """
    data = intact_bytes(path)
    try:
        datasets, attributes = hdf.unpack(data)
        require_known_format(path, attributes)
        if attributes["kind"] == "measurements":
            pairs = tuple((str(identity), dict(value)) for identity, value in hdf.json_value(datasets["measurements"]))
            return Shard(path, measurements=pairs)
        provenances = tuple(Provenance.from_dict(value) for value in hdf.json_value(datasets["provenance"]))
        texts = [(p.source, p.method, p.created_utc) for p in provenances]
        return Shard(path, tuple(from_table(datasets["schemes"], texts)), (), provenances, datasets)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(path, str(error)) from None


def require_known_format(path: Path, attributes: dict[str, str]) -> None:
    """Refuse a newer major version of the file format.

    Raises:
        NewerFormatError: the file is of a newer major version.
        ValueError: the version is missing or no version.
    """
    found = attributes.get("format_version", "")
    if not re.match(r"\d{1,9}(\.|$)", found):
        raise ValueError(f"format_version {found[:20]!r} is no version")
    if int(found.partition(".")[0]) > int(FORMAT_VERSION.partition(".")[0]):
        raise NewerFormatError(path, found, FORMAT_VERSION)


def measurement_key(pair: tuple[str, dict[str, Any]]) -> str:
    """Text that is equal for equal (scheme id, measurement) pairs."""
    return json.dumps(pair, sort_keys=True)
