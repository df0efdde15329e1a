"""Campaigns on a Dask cluster: a scheduler and two workers in processes of their own, some of which are killed.

The tests use the cluster up: the last one kills its scheduler.
"""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog.canonical import digest
from catalog.known import classical
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from search import campaign, config, dask_executor
from search.benchmark import executor_rates
from search.campaign import run
from search.config import Config
from search.events import Checkpoint, Done, Found, Notice, Progress
from search.executors import opened
from search.walks.blocks import ARRAYS, advance, begin
from search.walks.counters import STEPS
from search.walks.policies import Policy
from search.walks.symmetry import symmetry_for
from tests.subcubic.dask_cluster import Cluster, kill

pytest.importorskip("distributed", reason="Dask is not installed; install the extra dask")
# Long enough for several rounds of blocks that travel; shorter ones stay in the process of the search.
WALKS = Config(Format(3, 3, 4), "F2", 1, steps=8_000_000, seed=5, report_rungs=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    cluster.add_worker()
    cluster.add_worker()
    yield cluster
    cluster.close()


@pytest.fixture
def full(cluster):
    """The cluster with two workers."""
    while len(cluster.workers) < 2:
        cluster.add_worker()
    return cluster


@pytest.fixture(scope="module")
def on_threads():
    return list(run(WALKS))


def outcome(events):
    found = [(str(e.scheme), e.steps, e.block, digest(e.scheme)) for e in events if isinstance(e, Found)]
    return found, [(e.status, e.rank, e.steps, e.flips) for e in events if isinstance(e, Done)]


def last_state(events):
    return [event.state for event in events if isinstance(event, Checkpoint)][-1]


def differences(one, other):
    assert one.keys() == other.keys()
    return [name for name in one if name != "seconds" and not np.array_equal(one[name], other[name])]


def test_a_cluster_walks_as_threads_do(full, on_threads):
    events = list(run(replace(WALKS, executor=f"dask={full.address}")))
    assert outcome(events) == outcome(on_threads)
    assert differences(last_state(events), last_state(on_threads)) == []
    assert {event.scheme.format for event in events if isinstance(event, Found)} == {(2, 3, 4), (3, 3, 3), (3, 3, 4)}


def test_a_search_moves_to_a_cluster_and_ternary_walks_too(full):
    config = Config(Format(2, 3, 3), "ZT", 1, steps=4_000_000, seed=2)
    whole = list(run(config))
    part = list(run(replace(config, steps=2_000_001)))
    rest = list(run(replace(config, executor=f"dask={full.address}"), resume=last_state(part)))
    assert differences(last_state(rest), last_state(whole)) == []


@pytest.mark.parametrize(
    ("ring", "symmetry", "change"),
    [(Ring.F2, "Z3", {"exchange": 0.5}), (Ring.F2, "Z3A", {}), (Ring.F3, None, {"split": 0.5, "reduce": False})],
)
def test_a_block_on_a_worker_moves_as_the_policy_says(full, ring, symmetry, change):
    policy, steps = Policy(1_000, 2, 10**6, **change), 2 * dask_executor._SHORT_STEPS  # travels
    here, sent = (begin(classical(Format(4, 4, 4), ring), 3, symmetry=symmetry) for _ in range(2))
    with opened(f"dask={full.address}", 2) as cluster:
        there = cluster.submit(sent, steps, 0, policy).result(60)
    advance(here, steps, 0, policy)
    assert sent.counters[STEPS] == 0 and there.counters[STEPS] == steps
    assert all(np.array_equal(getattr(here, name), getattr(there, name)) for name in ARRAYS)


def test_a_symmetric_search_with_exchanges_moves_to_a_cluster(full):
    format = Format(5, 5, 5)
    config = Config(format, "F2", 93, steps=4_000_000, seed=2, walkers=4, symmetry=symmetry_for(format, 93, None))
    whole = list(run(config))
    rest = list(run(replace(config, executor=f"dask={full.address}")))
    assert outcome(rest) == outcome(whole)
    assert differences(last_state(rest), last_state(whole)) == []


def test_a_killed_worker_loses_nothing(full, cli, home, monkeypatch):
    # Short blocks are full ones here: then a short search reports many schemes.
    monkeypatch.setattr(campaign, "_LAST_BLOCK", 256_000)
    options = ("2x3x3", "--ring", "F2", "--keep", 10**6, "--seed", 3, "--steps", 24_000_000, "--json")
    here = cli("search", *options, "--catalog", home / "here")
    killed = []

    def kill_in_mid_search():
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            logs = [text for path in sorted((home / "runs").glob("2*")) if (text := log(path)) and "stored" in text]
            if len(logs) == 2:
                killed.append((full.kill_worker(), logs[1].count("stored")))
            time.sleep(0.01)

    def log(path):
        return (path / "progress.jsonl").read_text() if (path / "progress.jsonl").exists() else ""

    killer = threading.Thread(target=kill_in_mid_search)
    killer.start()
    there = cli("search", *options, "--executor", f"dask={full.address}", "--catalog", home / "there")
    killer.join()
    (code, stored), same = killed[0], ("status", "rank", "steps", "flips", "ids")
    assert code == -9 and 0 < stored < len(there.json["ids"])
    assert {key: there.json[key] for key in same} == {key: here.json[key] for key in same}
    rows = [{row.id for row in Catalog(home / name).rows()} for name in ("here", "there")]
    assert rows[1] >= set(there.json["ids"]) and Catalog(home / "there").fsck().bad == ()
    assert len(there.json["ids"]) > 50


def test_a_search_waits_when_all_workers_are_gone(full, on_threads):
    events = []
    for event in run(replace(WALKS, executor=f"dask={full.address}")):
        events.append(event)
        if isinstance(event, Progress) and event.steps > 3_000_000:
            while full.workers and not any(isinstance(e, Notice) for e in events):
                full.kill_worker()
        if isinstance(event, Notice):
            assert "has no worker left" in event.text
            full.add_worker()
    assert [type(event) for event in events].count(Notice) == 1
    assert outcome(events) == outcome(on_threads)


def test_a_search_without_workers_can_be_stopped_and_goes_on_elsewhere(full, on_threads, monkeypatch):
    stop, events = threading.Event(), []
    for event in run(replace(WALKS, executor=f"dask={full.address}"), should_stop=stop.is_set):
        events.append(event)
        if isinstance(event, Progress) and event.steps > 3_000_000:
            while full.workers:
                full.kill_worker()
        if isinstance(event, Notice):
            stop.set()
    assert events[-1].status == "interrupted" and events[-1].steps < WALKS.steps
    rest = list(run(WALKS, resume=last_state(events)))
    assert differences(last_state(rest), last_state(on_threads)) == []
    monkeypatch.setattr(dask_executor, "_FIRST_WORKER_S", 0.3)
    with pytest.raises(OSError, match="has no workers; start some with `dask worker tcp"):
        list(run(replace(WALKS, executor=f"dask={full.address}")))


def test_workers_with_other_sources_are_refused(cluster, tmp_path):
    while cluster.workers:
        cluster.kill_worker()
    for room in ("catalog", "search"):
        shutil.copytree(Path(campaign.__file__).parent.parent / room, tmp_path / room)
    with open(tmp_path / "search" / "walks" / "walk_f2.py", "a") as file:
        file.write("# another version\n")
    cluster.add_worker(tmp_path)
    with pytest.raises(ValueError, match="the Dask worker tcp.* runs other sources .* with this version installed"):
        list(run(replace(WALKS, executor=f"dask={cluster.address}")))
    cluster.kill_worker()
    with pytest.raises(ValueError, match="a worker that joined runs other sources"):
        dask_executor.block("another", None, 1, 0, (1, 1, 1))


def test_a_worker_is_about_as_fast_as_a_thread(full):
    local, remote = executor_rates(Format(3, 3, 4), "F2", f"dask={full.address}", 2, 2.0, repeats=1)
    assert local["engine"] == "local" and local["against_local"] == 1
    # Loose, since the machine may be busy; the benchmark says what it is on a quiet one.
    assert remote["engine"] == "dask" and 0.2 < remote["against_local"] < 5


def test_a_cluster_of_its_own(cli):
    options = ("search", "3x3x3", "--ring", "F2", "--target", 22, "--steps", 3_000_000, "--workers", 1, "--json")
    here, there = cli(*options), cli(*options, "--executor", "dask")
    assert there.code == here.code == 5 and there.json["flips"] == here.json["flips"]
    assert "1 workers of dask" in there.err


def test_a_lost_scheduler_is_one_sentence_and_the_run_goes_on(full, cli, home, monkeypatch):
    monkeypatch.setattr(dask_executor, "_CONNECT_S", 1.0)
    monkeypatch.setattr(config.Config, "checkpoint_s", 0.1)
    options = ("search", "3x3x4", "--ring", "F2", "--target", 28, "--seed", 1, "--json")

    def kill_in_mid_search():
        deadline = time.monotonic() + 60
        while not list((home / "runs").glob("2*/progress.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.01)
        kill(full.scheduler)

    killer = threading.Thread(target=kill_in_mid_search)
    killer.start()
    lost = cli(*options, "--budget", "60s", "--executor", f"dask={full.address}")
    killer.join()
    assert lost.code == 1 and "went away; `subcubic runs resume` goes on" in lost.err
    listed = cli("runs", "list", "--json").json["runs"][0]
    assert listed["status"] == "failed" and listed["executor"] == f"dask={full.address}"
    monkeypatch.setattr(dask_executor, "_CONNECT_S", 0.3)
    gone = cli("runs", "resume", listed["run"], "--steps", 20_000_000)
    assert gone.code == 1 and "no Dask scheduler answers at tcp" in gone.err
    on = cli("runs", "resume", listed["run"], "--steps", 20_000_000, "--executor", "local", "--json")
    whole = cli(*options, "--steps", 20_000_000)
    assert json.loads(on.out)["rank"] == whole.json["rank"]
