"""``search --executor``, ``--walkers``, and what a search stores on its way."""

import json
import sys

import pytest

from catalog.known import classical, strassen
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import extend
from search.events import Found
from search.find import find
from search.query import Query, check
from subcubic.byproducts import Byproducts
from subcubic.runs import Run
from subcubic.search_run import carry_out

SMALL = ("search", "3x3x3", "--ring", "F2", "--target", 22, "--seed", 2)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--executor", "cloud"], 2, "unknown executor 'cloud'; choose local, dask or dask=tcp://HOST:PORT"),
        (["--executor", "dask=here"], 2, "names no scheduler; write it as dask=tcp://HOST:PORT"),
        (["--walkers", 0], 2, "--walkers 0 must be at least 1"),
        (["--executor", "dask", "--method", "mcts"], 2, "the tree search runs in this process"),
        (["--benchmark", "--executor", "dask", "--ring", "Q"], 2, "compared over F2 or ZT, not Q"),
    ],
)
def test_bad_options_are_one_sentence(cli, arguments, code, says):
    done = cli(*SMALL, *arguments)
    assert done.code == code and says in done.err
    assert cli("runs", "list", "--json").json["runs"] == []


def test_a_missing_package_is_one_sentence(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = cli(*SMALL, "--executor", "dask")
    assert done.code == 1 and "install the extra `dask` (pip install -e '.[dask]')" in done.err
    assert cli("runs", "list", "--json").json["runs"] == []


def test_walkers_are_part_of_the_search_and_kept_for_its_resumption(cli):
    whole = cli(*SMALL, "--steps", 600_000, "--walkers", 3, "--workers", 2, "--json").json
    part = cli(*SMALL, "--steps", 250_000, "--walkers", 3, "--json").json
    listed = cli("runs", "list", "--json").json["runs"]
    assert [(run["walkers"], run["executor"]) for run in listed] == [(3, "local")] * 2
    on = cli("runs", "resume", part["run"], "--steps", 600_000, "--workers", 1, "--json").json
    assert [on[key] for key in ("rank", "steps", "flips")] == [whole[key] for key in ("rank", "steps", "flips")]
    other = cli(*SMALL, "--steps", 1_000, "--json").json
    assert [Run.find(run["run"]).checkpoint()["walkers"].tolist() for run in (on, other)] == [[3], [8]]
    assert "unknown executor 'x'" in cli("runs", "resume", part["run"], "--executor", "x").err


def test_a_run_whose_options_name_no_walkers_and_no_executor_goes_on(cli, home):
    run = cli(*SMALL, "--steps", 100_000, "--json").json["run"]
    config = home / "runs" / run / "config.toml"
    lines = [line for line in config.read_text().splitlines() if not line.startswith(("walkers", "executor"))]
    config.write_text("\n".join(lines))
    assert cli("runs", "resume", run, "--steps", 200_000, "--json").json["steps"] == 200_000


@pytest.mark.parametrize("version", [1, 2])
def test_a_checkpoint_of_an_earlier_version_is_refused_in_a_sentence(cli, version):
    run = Run.find(cli(*SMALL, "--steps", 100_000, "--json").json["run"])
    # They knew neither terms that stand still nor kinds of starts, and the first no symmetry; the number says it all.
    state = {name: array for name, array in run.checkpoint().items() if not name.endswith(("/fixed", "/kind"))}
    if version == 1:
        del state["symmetry"]
    run.write_checkpoint({**state, "version": version})
    done = cli("runs", "resume", run.path.name, "--steps", 200_000, "--json")
    assert done.code == 1
    message = json.loads(done.out)["error"]
    assert message == (
        f"the checkpoint is of version {version} and this version of subcubic reads version 4; start the search anew"
    )


def test_by_products_are_stored(cli):
    done = cli("search", "3x3x4", "--ring", "F2", "--target", 27, "--steps", 20_000_000, "--seed", 1, "--json")
    rows = {row.id: row for row in Catalog().rows(ring=Ring.F2) if row.format != (3, 3, 4)}
    assert set(done.json["by_products"]) == set(rows) != set()
    assert {(row.format, row.rank) for row in rows.values()} == {((2, 3, 4), 20), ((3, 3, 3), 23)}
    made = Catalog().get(done.json["by_products"][0]).provenance
    assert made.options["searched"] == "3x3x4" and made.seed == 1


def test_by_products_over_f2_are_kept_of_a_search_over_z(cli):
    done = cli("search", "3x3x4", "--ring", "Z", "--target", 27, "--steps", 20_000_000, "--seed", 1, "--json").json
    assert [(row.ring, row.rank) for row in Catalog().rows(Format(3, 3, 3))] == [(Ring.F2, 23)]
    assert done["by_products"]


def test_only_what_is_as_good_as_the_best_is_worth_storing(tmp_path):
    catalog = Catalog(tmp_path / "catalog")
    shelf = Byproducts(catalog)
    good = [e for e in find(Query(Format(3, 3, 3), "F2", 23, seed=1, budget_s=30)) if isinstance(e, Found)][-1].scheme
    plain = classical(Format(3, 3, 3), Ring.F2)
    for scheme, worth in ((plain, 0), (good, 1)):
        shelf.offer(Found(scheme, scheme.rank, 0, 0.0, 0))
        assert len(shelf.worth_storing()) == worth
    shelf.clear()
    assert shelf.worth_storing() == []
    # A catalog whose best is above the best known rank takes what is as good as its own.
    weak = extend(extend(extend(strassen(Ring.F2), "m"), "k"), "n")
    assert weak.format == (3, 3, 3) and 23 < weak.rank < 27
    shelf.offer(Found(weak, weak.rank, 0, 0.0, 0))
    assert shelf.worth_storing() == []
    catalog.add(weak, Provenance("test"))
    assert len(shelf.worth_storing()) == 1
    catalog.add(good, Provenance("test"))
    assert shelf.worth_storing() == []


def test_a_run_folder_stays_bounded_at_a_hundred_times_the_checkpoint_rate(home, monkeypatch):
    monkeypatch.setattr("search.campaign._LAST_BLOCK", 8_000)
    monkeypatch.setattr("subcubic.search_run._LOG_S", 0.0)
    monkeypatch.setattr("subcubic.runs.PROGRESS_BYTES", 4_000)
    run, sizes, told = Run.create({"format": "4x4x4"}), [], []
    write = Run.write_checkpoint

    def write_and_weigh(self, state):
        write(self, state)
        sizes.append({path.name: path.stat().st_size for path in self.path.iterdir()})
        told.extend(self.progress()[:1])

    monkeypatch.setattr(Run, "write_checkpoint", write_and_weigh)
    query = Query(Format(4, 4, 4), "F2", 46, budget_s=3.0, workers=1, checkpoint_s=0.02)
    check(query)
    carry_out(query, Catalog(home / "catalog"), run, quiet=True)
    assert len(sizes) >= 15
    names = {name for size in sizes for name in size}
    assert names == {"checkpoint.npz", "config.toml", "lock", "progress.jsonl", "status.json"}
    checkpoints = [size["checkpoint.npz"] for size in sizes]
    # Only the pools of equally good schemes fill up, to 64 of them on every rung.
    assert max(checkpoints) < 1.5 * checkpoints[0] < 3_000_000
    assert max(size.get("progress.jsonl", 0) for size in sizes) < 5_000
    # The file was thinned, and still tells of the beginning and the end.
    lines = run.progress()
    assert len(lines) < len(sizes) and lines[0] == told[0]
