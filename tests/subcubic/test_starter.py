"""The starter catalog, and searches that start from what a catalog has."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from catalog import folder
from catalog.files import write_durably
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog, default_path
from catalog.transform import reduce_mod
from search.ladder import grow
from subcubic import pool, starter
from subcubic.readme import search_rows
from subcubic.version import ROOT

MADE = Provenance("test", "made for a test")


@pytest.fixture
def newcomer(home, monkeypatch):
    """A user without a catalog and without settings."""
    monkeypatch.delenv("SUBCUBIC_CATALOG")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    return home


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A starter catalog of two schemes in place of the shipped one."""
    shelf = Catalog(tmp_path / "starter")
    shelf.add_many([(strassen(), MADE), (winograd(), MADE)])
    monkeypatch.setattr(starter, "shipped", lambda: tmp_path / "starter")
    return shelf


def test_a_newcomer_browses_the_shipped_schemes(newcomer, small, cli):
    listed = cli("catalog", "list", "--json")
    assert {row["id"] for row in listed.json["schemes"]} == {row.id for row in small.rows()}
    assert "that this project ships" in listed.err
    assert "ships" not in cli("catalog", "list").err
    assert cli("catalog", "fsck").code == 0


@pytest.fixture
def full_disk(monkeypatch):
    """Of what is adopted the first shard is written and the second one is not, until ``undo`` is called."""
    written = []

    def failing(path, data):
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        write_durably(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_durably", failing)
        yield patch
    assert written


def test_a_full_disk_leaves_no_part_of_the_shipped_catalog(newcomer, small, full_disk, cli):
    small.add(strassen(Ring.F2), MADE)
    failed = cli("catalog", "list")
    assert "cannot write to the catalog" in failed.err and "no space left" in failed.err
    place = default_path()
    assert not place.exists() and [entry.name for entry in place.parent.iterdir() if entry.is_dir()] == []
    full_disk.undo()
    assert {row["id"] for row in cli("catalog", "list", "--json").json["schemes"]} == {row.id for row in small.rows()}


KILLED = """
import os, signal, sys
from pathlib import Path
from catalog import folder
from catalog.store import Catalog

write = folder.write_durably

def dying(path, data):
    write(path, data)
    os.kill(os.getpid(), signal.SIGKILL)

folder.write_durably = dying
Catalog(sys.argv[1]).adopt(sorted(Path(sys.argv[2], "shards").glob("*.h5")))
"""


def test_a_kill_while_the_shipped_catalog_is_copied_leaves_nothing(newcomer, small, cli):
    small.add(strassen(Ring.F2), MADE)
    place = default_path()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, place, small.path], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not place.exists() and len(list(place.parent.glob(".writing-*/shards/*.h5"))) == 1
    assert {row["id"] for row in cli("catalog", "list", "--json").json["schemes"]} == {row.id for row in small.rows()}
    assert [entry for entry in place.parent.iterdir() if entry.is_dir()] == [place]


def test_a_catalog_that_is_there_is_not_adopted_into(tmp_path, small):
    own = Catalog(tmp_path / "own")
    own.add(classical(Format(1, 2, 2)), MADE)
    own.adopt((small.path / "shards").glob("*.h5"))
    assert len(own.rows()) == 1


def test_a_catalog_of_ones_own_starts_empty(home, small, cli):
    assert cli("catalog", "list", "--json").json["schemes"] == []
    merged = cli("catalog", "merge", "starter", "--json").json
    assert merged == {**merged, "new": 2, "duplicate": 0}
    assert len(Catalog().rows()) == 2


def test_a_damaged_starter_is_named(newcomer, small, cli):
    (shard,) = (small.path / "shards").glob("*.h5")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    failed = cli("catalog", "list")
    assert failed.code == 1 and shard.name in failed.err and "Traceback" not in failed.err


def test_what_is_shipped_is_intact_own_and_small(tmp_path):
    shards = list((starter.shipped() / "shards").glob("*.h5"))
    shelf = Catalog(tmp_path / "copy")  # a check writes an index, for which the package is no place
    shelf.adopt(shards)
    assert sum(path.stat().st_size for path in shards) < 5_000_000 and not shelf.fsck().bad
    rows = shelf.rows()
    assert len(rows) > 300 and {row.source for row in rows} == {""}
    least: dict[tuple[Format, Ring], int] = {}
    for row in rows:
        key = (row.format.sorted, row.ring)
        least[key] = min(row.rank, least.get(key, row.rank))
    assert least[Format(5, 5, 5), Ring.Z] == 93 and least[Format(4, 4, 4), Ring.F2] == 47
    assert least[Format(3, 5, 5), Ring.Z] == 58 and least[Format(2, 2, 2), Ring.Z] == 7


def test_the_pool_is_what_leads_to_a_format(home):
    catalog = Catalog()
    added = catalog.add_many(
        (scheme, MADE)
        for scheme in (
            grow(strassen(), Format(3, 3, 3)),
            grow(strassen(Ring.F2), Format(3, 3, 4)),
            grow(strassen(), Format(3, 4, 4)),
            grow(strassen(), Format(3, 4, 5)),
            classical(Format(3, 3, 4)),
        )
    )
    low, own, larger, _far, _standard = (item.id for item in added)
    assert pool.starts(catalog, Format(3, 3, 4), "F2") == [low, larger, own]
    assert pool.starts(catalog, Format(4, 3, 3), "Z") == [low, larger]
    assert pool.starts(catalog, Format(2, 2, 2), "ZT") == []


def test_only_the_schemes_of_least_rank_are_starts(home):
    catalog = Catalog()
    catalog.add(grow(strassen(), Format(3, 3, 3)), MADE)
    better = reduce_mod(grow(strassen(), Format(2, 3, 3)), Ring.F2)
    added = catalog.add(better, MADE).id
    assert pool.starts(catalog, Format(2, 3, 3), "F2")[-1] == added


def test_a_search_from_the_catalog_names_its_parents(home, cli):
    Catalog().add(grow(strassen(), Format(3, 3, 3)), MADE)
    (row,) = Catalog().rows()
    found = cli("search", "3x3x4", "--ring", "F2", "--from", "catalog", "--target", 31, "--budget", "60s", "--json")
    assert found.code == 0
    assert list(Catalog().get(found.json["id"]).provenance.parents) == [row.id]


def test_the_program_refuses_senseless_limits(capsys):
    with pytest.raises(SystemExit) as stopped:
        starter.main(["--budget", "0"])
    assert stopped.value.code == 2 and "must be positive" in capsys.readouterr().err


def test_a_small_starter_can_be_made(home, tmp_path, monkeypatch):
    monkeypatch.setattr(starter, "_HARD", (("2x2x2", "ZT", "symmetric", 1),))
    monkeypatch.setattr(starter, "combinations_with_replacement", lambda *_: [(2, 2, 2)])
    monkeypatch.setattr(starter, "shipped", lambda: tmp_path / "starter")
    monkeypatch.setattr(starter, "_COMPOSED", 3)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    starter.main(["--budget", "5", "--rounds", "1", "--cores", "2", "--catalog", str(tmp_path / "gathered")])
    rows = Catalog(tmp_path / "starter").rows()
    assert {(row.format, row.rank) for row in rows} >= {((2, 2, 2), 7), ((2, 2, 3), 11)}
    assert list((tmp_path / "gathered" / "runs").iterdir()) and not (home / "runs").exists()


@pytest.fixture
def gathered(tmp_path):
    """Another catalog, to be shipped in place of ``small``."""
    shelf = Catalog(tmp_path / "gathered")
    shelf.add(strassen(Ring.F2), MADE)
    return shelf


def held(shelf):
    return {path.name for path in (shelf.path / "shards").iterdir()}


def test_new_shards_replace_the_shipped_ones(small, gathered):
    starter.publish(gathered.path)
    assert held(small) == held(gathered) and [path.name for path in small.path.iterdir() if path.name[0] == "."] == []


def test_shipped_shards_stay_until_the_new_ones_are_there(small, gathered, monkeypatch):
    before = held(small)

    def failing(*_):
        assert held(small) == before
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(starter.shutil, "copy", failing)
        with pytest.raises(OSError, match="No space"):
            starter.publish(gathered.path)
    monkeypatch.setattr(starter, "_MOST_BYTES", 100)
    with pytest.raises(SystemExit, match="nothing was replaced"):
        starter.publish(gathered.path)
    assert held(small) == before


def test_an_empty_catalog_is_not_shipped(small, tmp_path):
    before = held(small)
    with pytest.raises(SystemExit, match="at least one scheme"):
        starter.publish(tmp_path / "nothing")
    assert held(small) == before


def test_search_results_have_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed; install the extra plot")
    from evaluate.plots import targets

    figure = targets([row for _, row in search_rows(ROOT / "benchmarks" / "results")])
    figure.savefig(tmp_path / "search.svg")
    assert (tmp_path / "search.svg").stat().st_size > 1000 and Path(ROOT / "benchmarks" / "search.svg").exists()
    with pytest.raises(ValueError, match="nothing to plot"):
        targets([])
