"""Nothing stored is ever lost: killed writers, flipped bits, two writers, full and unwritable disks."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from catalog import folder, hdf, index, shards
from catalog.canonical import digest
from catalog.check import check_shards
from catalog.errors import CatalogError, DamagedError
from catalog.files import TEMPORARY_PREFIX
from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.store import Catalog
from tests.catalog.store_writer import scheme

FORMULA = Provenance("formula")
WRITER = Path(__file__).with_name("store_writer.py")
# Writes of one add: fsync, rename and fsync of the folder, for the shard and then for the index.
POINTS = 6


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path / "catalog")


def start_writer(path, *arguments):
    command = [sys.executable, str(WRITER), str(path), *(str(a) for a in arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def require_kept(catalog, reported):
    """Every id that was reported as added is listed, readable and right."""
    for identity in reported:
        assert digest(catalog.get(identity).scheme) == identity
    report = catalog.fsck()
    assert report.bad == () and report.schemes >= len(set(reported))
    assert {row.id for row in catalog.rows()} >= set(reported)


def test_killed_at_every_point_of_a_write(catalog):
    reported = []
    for point in range(1, POINTS + 1):
        with start_writer(catalog.path, len(reported) + point * 10, 2, POINTS + point) as writer:
            reported += writer.stdout.read().split()[1:]
        assert writer.returncode == -signal.SIGKILL
    assert len(reported) == POINTS
    require_kept(catalog, reported)


def test_killed_at_random_moments(catalog):
    rng = random.Random(1)
    reported = []
    turns = 0
    while turns < 20 or (len(reported) < 20 and turns < 60):  # few writes fit between two kills on a loaded machine
        turn, turns = turns, turns + 1
        with start_writer(catalog.path, turn * 100, 100) as writer:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 0.25 * (1 + turn // 20)))  # longer where the machine turns out to be slow
            writer.kill()
            reported += writer.stdout.read().split()
        assert writer.returncode == -signal.SIGKILL
    assert len(reported) >= 20
    require_kept(catalog, reported)


def test_leftovers_are_ignored_and_swept_when_old(catalog):
    catalog.add(strassen(), FORMULA)
    old, young = (catalog.path / "shards" / f"{TEMPORARY_PREFIX}{name}" for name in ("old", "young"))
    old.write_bytes(b"half a shard")
    young.write_bytes(b"half a shard")
    past = time.time() - folder.STALE_SECONDS - 1
    os.utime(old, (past, past))
    assert len(catalog.rows()) == 1
    assert catalog.fsck().bad == ()
    assert not old.exists() and young.exists()


def test_two_writers_at_once_lose_nothing(catalog):
    writers = [start_writer(catalog.path, first, 30) for first in (0, 15)]
    printed = [writer.communicate()[0].split()[1:] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [len(ids) for ids in printed] == [30, 30]
    assert len({*printed[0], *printed[1]}) == 45
    require_kept(catalog, [*printed[0], *printed[1]])
    assert len(catalog.rows()) == 45


def test_a_flipped_bit_anywhere_in_a_shard_is_reported_by_name(catalog):
    catalog.add_many([(strassen(), FORMULA), (winograd(), FORMULA)])
    (path,) = (catalog.path / "shards").iterdir()
    data = path.read_bytes()
    rng = random.Random(2)
    # Every part of the file: superblock, headers, trees, chunks and the unused space between them.
    for offset in range(0, len(data), 31):
        changed = bytearray(data)
        changed[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        (bad,) = check_shards(path.parent).bad
        assert bad.path == path and "SHA-256" in bad.reason
    for size in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        assert [bad.path for bad in check_shards(path.parent).bad] == [path]
    path.write_bytes(data)
    assert catalog.fsck().bad == ()


def test_a_damaged_shard_does_not_take_the_others_along(catalog):
    first = catalog.add(strassen(), FORMULA)
    (path,) = (catalog.path / "shards").iterdir()
    second = catalog.add(winograd(), FORMULA)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=f"{path.name} is damaged"):
        catalog.get(first.id)
    report = catalog.fsck()
    assert [bad.path for bad in report.bad] == [path] and report.index_rebuilt
    assert [row.id for row in catalog.rows()] == [second.id] and len(catalog.damaged()) == 1
    assert catalog.get(second.id).id == second.id
    assert catalog.add(strassen(), FORMULA).status == "new"
    assert catalog.get(first.id).id == first.id


def test_adding_again_what_a_damaged_shard_held_stores_it_anew(catalog):
    added = catalog.add(strassen(), FORMULA)
    (path,) = (catalog.path / "shards").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert len(catalog.rows()) == 1  # the index still believes in it
    assert catalog.add(strassen(), FORMULA).status == "new"
    assert catalog.get(added.id).id == added.id


def test_a_shard_whose_content_is_wrong_is_reported_although_its_bytes_are_right(catalog):
    added = catalog.add(strassen(), FORMULA)
    (path,) = (catalog.path / "shards").iterdir()
    datasets, attributes = hdf.unpack(path.read_bytes())
    datasets["int8"][0] += 1
    path.unlink()
    shards._write(path.parent, hdf.pack(datasets, attributes))
    (bad,) = catalog.fsck().bad
    assert "has another digest" in bad.reason and added.id[:12] in bad.reason


def test_foreign_files_in_the_shard_folder_are_reported(catalog):
    catalog.add(strassen(), FORMULA)
    (catalog.path / "shards" / "notes.txt").write_text("hello")
    (bad,) = catalog.fsck().bad
    assert bad.path.name == "notes.txt"
    assert len(catalog.rows()) == 1


def test_a_damaged_or_missing_index_heals(catalog):
    catalog.add_many([(strassen(), FORMULA), (winograd(), FORMULA)])
    rows, path = catalog.rows(), catalog.path / "index.h5"
    data = path.read_bytes()
    rng = random.Random(3)
    for offset in [*range(0, 600, 7), *rng.sample(range(600, len(data)), 60)]:
        changed = bytearray(data)
        changed[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        assert Catalog(catalog.path).rows() == rows
    for content in (b"", b"junk", data[: len(data) // 2]):
        path.write_bytes(content)
        assert Catalog(catalog.path).rows() == rows
    assert catalog.fsck().index_rebuilt and not catalog.fsck().index_rebuilt
    path.unlink()
    assert catalog.rows() == rows and catalog.fsck().index_rebuilt
    path.unlink()
    path.mkdir()
    assert catalog.rows() == rows
    assert [bad.path for bad in catalog.fsck().bad] == [path]


def test_an_index_of_other_shards_heals(catalog, tmp_path):
    added = catalog.add(strassen(), FORMULA)
    other = Catalog(tmp_path / "other")
    other.add(winograd(), FORMULA)
    (catalog.path / "index.h5").write_bytes((other.path / "index.h5").read_bytes())
    assert [row.id for row in catalog.rows()] == [added.id]
    assert catalog.fsck().index_rebuilt


def test_a_compaction_that_dies_before_removing_the_old_shards_loses_and_doubles_nothing(catalog, monkeypatch):
    for made in (strassen(), winograd()):
        catalog.record(catalog.add(made, FORMULA).id, {"seconds": 1})
    before = (catalog.rows(), catalog.measurements())

    def failing(self, missing_ok=False):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(CatalogError, match="input/output error"):
        catalog.compact()
    monkeypatch.undo()
    assert (catalog.rows(), catalog.measurements()) == before
    assert catalog.fsck().bad == ()
    assert catalog.compact() == 2 and (catalog.rows(), catalog.measurements()) == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_disk_is_one_sentence_and_loses_nothing(catalog, monkeypatch, call, error):
    kept = catalog.add(strassen(), FORMULA)

    def failing(*args):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(CatalogError) as caught:
        catalog.add(winograd(), FORMULA)
    monkeypatch.undo()
    assert os.strerror(error)[1:] in str(caught.value) and str(catalog.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(catalog.path.rglob(f"{TEMPORARY_PREFIX}*"))
    assert [row.id for row in catalog.rows()] == [kept.id] and catalog.fsck().bad == ()
    assert catalog.add(winograd(), FORMULA).status == "new"


def test_an_index_that_cannot_be_written_does_not_fail_the_add(catalog, monkeypatch):
    def failing(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(index, "write_durably", failing)
    added = catalog.add(strassen(), FORMULA)
    assert catalog.get(added.id).id == added.id and len(catalog.rows()) == 1
    (bad,) = catalog.fsck().bad
    assert bad.path == catalog.path / "index.h5" and "no space left" in bad.reason


def test_a_file_size_limit_stops_the_write_cleanly(catalog):
    """A real refusal by the kernel, which also holds for root."""
    kept = catalog.add(strassen(), FORMULA)
    code = (
        "import resource, sys\n"
        "from catalog.store import Catalog; from catalog.known import winograd\n"
        "from catalog.provenance import Provenance\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    Catalog(sys.argv[1]).add(winograd(), Provenance('formula'))\n"
        "except OSError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, catalog.path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("CatalogError cannot write to the catalog") and "file too large" in done.stdout
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    assert [row.id for row in catalog.rows()] == [kept.id] and catalog.fsck().bad == ()


@pytest.mark.parametrize("place", ["catalog", "catalog/shards"])
def test_a_file_where_a_folder_should_be(catalog, tmp_path, place):
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("in the way")
    for attempt in (lambda: catalog.add(strassen(), FORMULA), catalog.rows, catalog.fsck):
        with pytest.raises(CatalogError, match="catalog") as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert (tmp_path / place).read_text() == "in the way"


def test_a_writer_that_never_ends_is_named(catalog, monkeypatch):
    import filelock

    catalog.add(strassen(), FORMULA)
    monkeypatch.setattr(folder, "LOCK_SECONDS", 0.05)
    with filelock.FileLock(catalog.path / "writer.lock"):
        with pytest.raises(CatalogError, match="another process has been writing"):
            catalog.add(winograd(), FORMULA)
        assert len(catalog.rows()) == 1  # a reader does not care


def test_without_file_locks_adding_still_works(catalog, monkeypatch):
    import filelock

    def unsupported(self, *args, **kwargs):
        raise NotImplementedError

    monkeypatch.setattr(filelock.FileLock, "acquire", unsupported)
    assert catalog.add(scheme(1), FORMULA).status == "new"
    assert catalog.fsck().bad == ()
