import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import hdf, shards
from catalog.canonical import digest
from catalog.errors import CatalogError, NewerFormatError, UnknownSchemeError
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.shards import Generator
from catalog.store import Catalog, default_path
from catalog.transform import rotate
from catalog.verify import NotExactError
from tests.catalog.catalog_examples import RINGS, corrupted, exact_schemes, same
from tests.fuzzing import examples

FORMULA = Provenance("formula", seed=7, options={"steps": 10}, parents=("abc",), source="test", discoverer="Strassen")


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path / "catalog", Generator("1.2.3", "abcdef"))


def snapshot(folder):
    return {p: (p.read_bytes() if p.is_file() else None, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))}


@examples(8)
@given(st.lists(exact_schemes(), min_size=1, max_size=4))
def test_reload_equals_memory(tmp_path_factory, schemes):
    path = tmp_path_factory.mktemp("store") / "catalog"
    added = Catalog(path).add_many([(scheme, FORMULA) for scheme in schemes])
    again = Catalog(path)
    for scheme, outcome in zip(schemes, added, strict=True):
        entry = again.get(outcome.id)
        assert entry.id == digest(scheme) == digest(entry.scheme)
        if outcome.status == "new":
            assert same(entry.scheme, scheme)
        assert entry.provenance == FORMULA
    assert {row.id for row in again.rows()} == {entry.id for entry in again.entries()} == {a.id for a in added}
    assert again.fsck().bad == ()


def test_wide_coefficients_and_denominators_survive(catalog):
    base = sandwich(strassen(Ring.Q), [[1 << 30, 0], [0, 1]], [[3, 0], [0, 1]], [[1, 0], [0, 7]])
    assert max(int(np.abs(f).max()) for f in base.factors) > 127
    pairs = [(base, FORMULA), (winograd(), FORMULA)]
    for (scheme, _), outcome in zip(pairs, catalog.add_many(pairs), strict=True):
        assert same(catalog.get(outcome.id).scheme, scheme)
    huge = Scheme(Format(1, 1, 1), Ring.Q, [[1 << 62]], [[2]], [[1]], denominators=(1 << 63, 1, 1))
    with pytest.raises(ValueError, match="need more than 63 bits"):
        catalog.add(huge, FORMULA)


def test_only_exact_schemes_enter_and_a_batch_enters_whole(catalog):
    with pytest.raises(NotExactError, match="is not exact"):
        catalog.add_many([(strassen(), FORMULA), (corrupted(winograd(), 0, 0, 0), FORMULA)])
    assert catalog.rows() == [] and not catalog.path.exists()


def test_duplicates_are_told_by_digest_and_keep_the_first_provenance(catalog):
    scheme = strassen()
    order = [3, 1, 2, 0, 6, 5, 4]
    shuffled = Scheme(scheme.format, scheme.ring, -scheme.U[:, order], -scheme.V[:, order], scheme.W[:, order])
    first, second = catalog.add_many([(scheme, FORMULA), (shuffled, Provenance("flips"))])
    third = catalog.add(shuffled, Provenance("flips"))
    assert (first.status, second.status, third.status) == ("new", "duplicate", "duplicate")
    assert first.id == second.id == third.id
    assert catalog.get(first.id).provenance == FORMULA
    assert len(list((catalog.path / "shards").iterdir())) == 1


def test_prefixes(catalog):
    ids = [a.id for a in catalog.add_many([(classical(Format(1, 1, n)), FORMULA) for n in range(1, 30)])]
    assert catalog.get(f" {ids[3].upper()} ").id == ids[3]
    short = next(i[:n] for i in ids for n in range(1, 9) if sum(j.startswith(i[:n]) for j in ids) == 1)
    assert catalog.get(short).id.startswith(short)
    shared = next(i[0] for i in ids if sum(j[0] == i[0] for j in ids) > 1)
    with pytest.raises(UnknownSchemeError, match="give more digits"):
        catalog.get(shared)
    for unknown in ("", "nothex", "f" * 64, "../../etc"):
        with pytest.raises(UnknownSchemeError, match="no scheme of the catalog has an id"):
            catalog.get(unknown)


def test_listing_filters_by_format_in_any_order_and_by_ring(catalog):
    formats = [Format(3, 1, 2), Format(2, 2, 2), Format(1, 2, 3)]
    catalog.add_many([(classical(f, ring), FORMULA) for f in formats for ring in RINGS])
    catalog.add(sandwich(strassen(), [[1, 2], [0, 1]], *[np.eye(2, dtype=int)] * 2), FORMULA)
    assert {row.format for row in catalog.rows(Format(2, 3, 1))} == {(3, 1, 2), (1, 2, 3)}
    assert [row.ring for row in catalog.rows(Format(2, 2, 2), Ring.F3)] == [Ring.F3]
    assert len(catalog.rows()) == 13 and len(catalog.rows(ring=Ring.Z)) == 4
    assert len(catalog.rows(ring=Ring.Z, ternary=True)) == 3
    keys = [row.sort_key for row in catalog.rows()]
    assert keys == sorted(keys)


def test_a_row_shows_the_measures(catalog):
    catalog.add_many([(winograd(), FORMULA), (winograd(Ring.F2), FORMULA)])
    over_f2, over_z = catalog.rows()
    assert (over_z.additions, over_z.additions_cse, over_z.planes_a, over_z.planes_b) == (24, 15, 4, 4)
    assert over_z.growth == pytest.approx(17.853, abs=1e-3) and over_f2.growth is None
    assert (over_z.ternary, over_f2.ternary) == (True, False)
    assert (over_z.source, over_z.method, over_z.created) == ("test", "formula", FORMULA.created_utc)


def test_measurements_belong_to_schemes(catalog):
    first, second = catalog.add_many([(strassen(), FORMULA), (winograd(), FORMULA)])
    catalog.record(first.id[:10], {"seconds": 1.5})
    catalog.record_many([(second.id, {"seconds": 2.5}), (first.id, {"seconds": 0.5})])
    assert [m["seconds"] for m in catalog.measurements(first.id)] == [1.5, 0.5]
    assert {(m["id"], m["seconds"]) for m in catalog.measurements()} == {
        (first.id, 1.5),
        (first.id, 0.5),
        (second.id, 2.5),
    }
    assert all(m["recorded_utc"] for m in catalog.measurements())
    with pytest.raises(UnknownSchemeError):
        catalog.record("f" * 64, {})
    with pytest.raises(ValueError, match="JSON values only"):
        catalog.record(first.id, {"x": float("nan")})
    assert catalog.fsck().measurements == 3


def test_merge_brings_schemes_and_measurements_once(catalog, tmp_path):
    other = Catalog(tmp_path / "other")
    added = other.add(winograd(), FORMULA)
    other.record(added.id, {"seconds": 1})
    catalog.add(strassen(), FORMULA)
    assert [a.status for a in catalog.merge(other)] == ["new"]
    assert [a.status for a in catalog.merge(other)] == ["duplicate"]
    assert len(catalog.rows()) == 2 and len(catalog.measurements(added.id)) == 1
    assert catalog.get(added.id).provenance == FORMULA
    with pytest.raises(CatalogError, match="there is no catalog at"):
        catalog.merge(Catalog(tmp_path / "nowhere"))


def test_compaction_keeps_everything_in_few_shards(catalog):
    for n in range(1, 7):
        added = catalog.add(classical(Format(1, 2, n)), FORMULA)
        catalog.record(added.id, {"n": n})
    before = (catalog.rows(), catalog.measurements())
    reader = Catalog(catalog.path)
    assert reader.rows() == before[0]
    assert catalog.compact() == 2
    assert len(list((catalog.path / "shards").iterdir())) == 2
    assert (catalog.rows(), catalog.measurements()) == before == (reader.rows(), reader.measurements())
    assert same(reader.get(added.id).scheme, classical(Format(1, 2, 6)))
    report = catalog.fsck()
    assert (report.bad, report.schemes, report.measurements, report.index_rebuilt) == ((), 6, 6, False)
    assert catalog.compact() == 2 and catalog.rows() == before[0]


def test_reading_writes_nothing_and_takes_no_lock(catalog):
    added = catalog.add(strassen(), FORMULA)
    catalog.add(winograd(), FORMULA)
    (catalog.path / "index.h5").unlink()
    (catalog.path / "writer.lock").unlink(missing_ok=True)
    before = snapshot(catalog.path)
    reader = Catalog(catalog.path)
    assert len(reader.rows()) == 2 and reader.get(added.id).id == added.id and reader.measurements() == []
    assert len(list(reader.entries())) == 2 and reader.damaged() == []
    assert snapshot(catalog.path) == before


def test_a_catalog_that_is_not_there_is_empty_and_not_made_by_reading(catalog):
    assert catalog.rows() == [] and catalog.measurements() == [] and list(catalog.entries()) == []
    assert catalog.fsck().bad == ()
    assert not catalog.path.exists()


def test_files_carry_their_origin(catalog):
    catalog.add(strassen(), FORMULA)
    (path,) = (catalog.path / "shards").iterdir()
    datasets, attributes = hdf.unpack(path.read_bytes())
    assert attributes["format_version"] == shards.FORMAT_VERSION
    assert (attributes["generator"], attributes["generator_version"], attributes["generator_commit"]) == (
        "subcubic",
        "1.2.3",
        "abcdef",
    )
    assert attributes["created_utc"] and attributes["licence"]
    assert set(datasets) == {"schemes", "layout", "provenance", "int8", "int64"}
    import h5py

    with h5py.File(path, "r") as file:
        assert all(dataset.fletcher32 for dataset in file.values())


def test_a_newer_major_format_is_refused_by_name(catalog, monkeypatch):
    catalog.add(strassen(), FORMULA)
    monkeypatch.setattr(shards, "FORMAT_VERSION", "2.0")
    catalog.add(winograd(), FORMULA)
    monkeypatch.setattr(shards, "FORMAT_VERSION", "1.7")
    for attempt in (catalog.rows, catalog.fsck, lambda: catalog.add(strassen(), FORMULA)):
        with pytest.raises(NewerFormatError, match=r"has catalog format 2\.0 and this version reads 1\.7; upgrade"):
            attempt()


def test_a_minor_version_is_read(catalog, monkeypatch):
    monkeypatch.setattr(shards, "FORMAT_VERSION", "1.9")
    catalog.add(strassen(), FORMULA)
    monkeypatch.setattr(shards, "FORMAT_VERSION", "1.0")
    assert len(Catalog(catalog.path).rows()) == 1


def test_provenance_is_checked():
    with pytest.raises(ValueError, match="needs a method"):
        Provenance("")
    with pytest.raises(ValueError, match="must be JSON values"):
        Provenance("flips", options={"x": object()})
    later = Provenance.from_dict(FORMULA.as_dict() | {"added_in_a_later_version": 1})
    assert later == FORMULA


def test_default_place(monkeypatch, tmp_path):
    monkeypatch.delenv("SUBCUBIC_CATALOG", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local/share/subcubic/catalog"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_path() == tmp_path / "data/subcubic/catalog"
    monkeypatch.setenv("SUBCUBIC_CATALOG", "~/mine")
    assert default_path() == Catalog().path == tmp_path / "mine"


def test_listing_hundreds_of_schemes_is_fast_and_light(catalog):
    base = rotate(strassen())
    rows = [np.eye(2, dtype=int) + [[0, s], [0, 0]] for s in range(-13, 13)]
    pairs = [(sandwich(base, x, y, np.eye(2, dtype=int)), FORMULA) for x in rows for y in rows]
    catalog.add_many(pairs)
    code = (
        "import sys, time; from catalog.store import Catalog; start = time.process_time();"
        f"rows = Catalog({str(catalog.path)!r}).rows(); assert len(rows) == {len(pairs)}, len(rows);"
        "heavy = {'jax', 'sympy', 'numba', 'cupy', 'matplotlib', 'scipy', 'rich', 'filelock'} & set(sys.modules);"
        "assert not heavy, heavy; print(time.process_time())"
    )
    seconds = []
    for _ in range(5):  # the best of a few: other work on the machine also costs processor time
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, cwd=os.getcwd()
        )
        assert done.returncode == 0, done.stderr
        seconds.append(float(done.stdout))
        if seconds[-1] < 0.45:
            break
    assert min(seconds) < 0.45
