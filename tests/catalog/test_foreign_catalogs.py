"""Catalogs of strangers: shards whose SHA-256 is right and whose content is not what this project writes."""

import hashlib
import io
import json
import os

import h5py
import numpy as np
import pytest

from catalog import hdf, index
from catalog.canonical import digest
from catalog.errors import DamagedError
from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.store import Catalog

FORMULA = Provenance("formula")


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path / "catalog")


@pytest.fixture
def parts(tmp_path):
    """Datasets and attributes of a sound shard of one scheme."""
    sound = Catalog(tmp_path / "sound")
    sound.add(strassen(), FORMULA)
    (path,) = (sound.path / "shards").iterdir()
    return hdf.unpack(path.read_bytes())


def put(catalog, data):
    """A shard under the name that it must have."""
    folder = catalog.path / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{hashlib.sha256(data).hexdigest()}.h5").write_bytes(data)


def text(value):
    return np.frombuffer(value.encode(), dtype=np.uint8)


@pytest.mark.parametrize(
    "change",
    [
        *({key: value} for key in ("source", "created_utc", "discoverer") for value in (5, None, ["x"], {"a": 1})),
        {"method": ["flips"]},
        {"parents": [{"a": 1}]},
        {"parents": "abc"},
        {"seed": [1]},
        {"options": [1]},
    ],
)
def test_a_provenance_of_other_kinds_is_left_out_and_never_taken_over(catalog, tmp_path, parts, change):
    datasets, attributes = parts
    (origin,) = hdf.json_value(datasets["provenance"])
    put(catalog, hdf.pack({**datasets, "provenance": hdf.json_bytes([origin | change])}, attributes))
    catalog.add(winograd(), FORMULA)
    assert [row.id for row in catalog.rows()] == [digest(winograd())]
    assert len(catalog.damaged()) == 1
    damaged = []
    own = Catalog(tmp_path / "own")
    assert [item.id for item in own.merge(catalog, damaged)] == [digest(winograd())]
    assert len(damaged) == 1 and own.fsck().bad == ()
    with pytest.raises(DamagedError):
        own.merge(catalog)


@pytest.mark.parametrize("document", ["[" * 100_000, '[{"method": "x", "options": {"a": NaN}}]', "[", "5", "null"])
def test_json_that_cannot_be_read_is_damage(catalog, parts, document):
    datasets, attributes = parts
    put(catalog, hdf.pack({**datasets, "provenance": text(document)}, attributes))
    assert catalog.rows() == [] and len(catalog.damaged()) == 1


@pytest.mark.parametrize(
    ("column", "value"), [("format", (0, 255, 3)), ("id", b"\x1b[31m<script>"), ("ring", b"R"), ("rank", 2**32 - 1)]
)
def test_rows_of_no_scheme_are_damage(catalog, parts, column, value):
    datasets, attributes = parts
    table = datasets["schemes"].copy()
    table[column] = value
    put(catalog, hdf.pack({**datasets, "schemes": table}, attributes))
    assert list(catalog.entries(damaged := [])) == [] and len(damaged or catalog.damaged()) == 1


def test_a_layout_of_another_kind_is_damage(catalog, parts):
    datasets, attributes = parts
    put(catalog, hdf.pack({**datasets, "layout": np.zeros(1, np.int8)}, attributes))
    assert "scheme" in catalog.fsck().bad[0].reason


def external(file):
    file["more"] = h5py.ExternalLink("other.h5", "/x")


def outside(file):
    file.create_dataset("more", shape=(8,), dtype="i1", external=[("pipe", 0, 8)])


def endless(file):
    file.create_dataset("more", shape=(10**13,), chunks=(1 << 16,), dtype="i1")


def circular(file):
    file["more"] = h5py.SoftLink("/more")


@pytest.mark.parametrize("add", [external, outside, endless, circular, lambda file: file.create_group("more")])
def test_a_file_that_reaches_outside_or_states_any_size_is_damage(catalog, parts, add, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")  # whoever opens it waits
    datasets, attributes = parts
    buffer = io.BytesIO(hdf.pack(datasets, attributes))
    with h5py.File(buffer, "r+") as file:
        add(file)
    put(catalog, buffer.getvalue())
    assert catalog.rows() == [] and "'more'" in str(catalog.damaged()[0])


def test_pipes_and_links_in_the_folder_stop_nobody(catalog):
    catalog.add(strassen(), FORMULA)
    os.mkfifo(catalog.path / "shards" / f"{'a' * 64}.h5")
    (catalog.path / "shards" / f"{'b' * 64}.h5").symlink_to("nothing")
    (catalog.path / "index.h5").unlink()
    os.mkfifo(catalog.path / "index.h5")
    assert len(catalog.rows()) == 1
    assert {bad.reason for bad in catalog.damaged()} == {"it is no regular file", "it is a link to nothing"}
    assert len(catalog.fsck().bad) == 3


def measured(catalog, pairs):
    attributes = {"format_version": "1.0", "kind": "measurements"}
    put(catalog, hdf.pack({"measurements": text(json.dumps(pairs))}, attributes))


def test_measurements_of_strangers_neither_stop_a_listing_nor_a_merge(catalog, tmp_path):
    identity = catalog.add(strassen(), FORMULA).id
    measured(catalog, [[identity, {"ratio": 10**400}], [identity, {"ratio": 1.5}], ["0" * 64, {"ratio": 2.0}]])
    measured(catalog, [[identity, {"ratio": float("nan")}]])
    assert catalog.speeds()[identity] == 1.5
    own, damaged = Catalog(tmp_path / "own"), []
    own.merge(catalog, damaged)
    assert own.speeds() == {identity: 1.5} and len(damaged) == 1


def test_an_index_that_is_whole_and_wrong_is_not_believed(catalog):
    ids = [catalog.add(scheme, FORMULA).id for scheme in (strassen(), winograd())]
    sound = index.decode(catalog.path / "index.h5", (catalog.path / "index.h5").read_bytes())
    for shard, position in ((0, 0), (1, 0), (0, 7)):  # of one of the two schemes at least this is wrong
        places = sound.places.copy()
        places["shard"], places["position"] = shard, position
        lie = index.Index(sound.shards, sound.table, sound.texts, sound.words, places)
        index.write(catalog.path / "index.h5", lie, catalog.generator)
        assert [digest(catalog.get(identity).scheme) for identity in ids] == ids
        assert {entry.id for entry in catalog.entries()} <= set(ids)
        assert catalog.add(strassen(), FORMULA).status == "duplicate"
    assert catalog.fsck().index_rebuilt and {entry.id for entry in catalog.entries()} == set(ids)
