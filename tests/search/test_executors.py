"""Executors: names, missing packages, what travels, and how much memory a walk takes."""

import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from catalog.known import classical
from catalog.scheme import Format, Ring
from search import executors
from search.campaign import run
from search.compiled import state_of_sources
from search.config import Config
from search.dask_executor import block, facts, pack, unpack
from search.events import Found, Notice
from search.walks.blocks import ARRAYS, advance, begin
from search.walks.policies import Policy

LARGE = [Format(5, 5, 5), Format(6, 6, 6), Format(8, 8, 8)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cloud", "unknown executor 'cloud'; choose local, dask"),
        ("", "unknown executor ''"),
        ("local=2", "unknown executor 'local=2'"),
        ("dask=", "names no scheduler; write it as dask=tcp://HOST:PORT"),
        ("dask=tcp://somewhere", "names no scheduler"),
        ("dask=localhost:8786", "names no scheduler"),
    ],
)
def test_unknown_executors_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        Config(Format(2, 2, 2), "F2", 7, steps=1, executor=name)


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert executors.require("local") == ""
    with pytest.raises(
        ModuleNotFoundError, match=r"needs distributed, which is not installed.*pip install -e '.\[dask\]'"
    ):
        executors.require("dask")


def test_threads_give_up_what_waits():
    with executors.opened("local", 1) as threads:
        jobs = [threads.submit(begin(classical(Format(4, 4, 4), Ring.F2), s), 3_000_000, 0, POLICY) for s in range(3)]
        assert jobs[-1].cancel() and jobs[-1].cancelled()
        assert list(executors.wait(jobs[-1], threads, lambda: None)) == []
        assert jobs[0].result().counters[4] == 3_000_000


def test_trouble_is_told_once():
    class Stuck:
        workers, polls = 0, 0

        def trouble(self):
            return "no worker is left"

        def result(self, timeout=None):
            self.polls += 1
            if self.polls < 4:
                raise TimeoutError
            return "walk"

        def cancelled(self):
            return False

    stuck = Stuck()
    waiting = executors.wait(stuck, stuck, lambda: None)
    assert next(waiting) == Notice("no worker is left")
    with pytest.raises(StopIteration) as end:
        next(waiting)
    assert end.value.value == "walk"


POLICY = Policy(1_000, 2, 10**6)


@pytest.mark.parametrize(
    ("ring", "symmetry", "sizes"),
    [
        *((ring, None, sizes) for ring in (Ring.F2, Ring.F3, Ring.Z) for sizes in ((1, 1, 1), (2, 3, 4), (5, 5, 5))),
        *((Ring.F2, symmetry, (n, n, n)) for symmetry in ("Z3", "Z3T", "Z3A") for n in (2, 5)),
    ],
)
def test_a_parcel_holds_the_whole_walk(ring, symmetry, sizes):
    walk = begin(classical(Format(*sizes), ring), 7, symmetry=symmetry)
    for steps in (0, 1, 30_000):
        advance(walk, steps, 0, POLICY)
        copy = unpack(pack(walk))
        assert (copy.format, copy.ring, copy.symmetry) == (walk.format, walk.ring, symmetry)
        for name in ARRAYS:
            one, other = getattr(walk, name), getattr(copy, name)
            assert one.dtype == other.dtype and np.array_equal(one, other) and not np.shares_memory(one, other)
    advance(copy, 20_000, 0, POLICY)
    advance(walk, 20_000, 0, POLICY)
    assert all(np.array_equal(getattr(walk, name), getattr(copy, name)) for name in ARRAYS)


def test_a_block_is_told_the_whole_policy():
    policy = Policy(700, 3, 10**6, split=0.25, reduce=False, exchange=0.5, then=Policy(1, 1, 1))
    plain = Policy(1_000, 2, 10**5)
    for field in fields(Policy):
        assert getattr(policy, field.name) != getattr(plain, field.name), f"{field.name} says nothing here"
    assert Policy(*facts(policy)) == replace(policy, then=None)


@pytest.mark.parametrize(
    ("ring", "symmetry", "change"),
    [
        (Ring.F2, "Z3", {"exchange": 0.5}),
        (Ring.F2, None, {"split": 0.5}),
        (Ring.F3, None, {"split": 0.5}),
        (Ring.Z, None, {"reduce": False}),
    ],
)
def test_a_block_elsewhere_moves_as_the_policy_says(ring, symmetry, change):
    here, plain = (begin(classical(Format(4, 4, 4), ring), 7, symmetry=symmetry) for _ in range(2))
    policy = replace(POLICY, plus_interval=300, **change)
    there = unpack(block(state_of_sources(), pack(here), 60_000, 0, facts(policy)))
    advance(here, 60_000, 0, policy)
    advance(plain, 60_000, 0, replace(POLICY, plus_interval=300))
    assert all(np.array_equal(getattr(here, name), getattr(there, name)) for name in ARRAYS)
    assert not np.array_equal(here.rng, plain.rng) or not np.array_equal(here.value, plain.value)


@pytest.mark.parametrize("ring", [Ring.F2, Ring.Z])
@pytest.mark.parametrize("format", LARGE, ids=str)
def test_a_walk_takes_less_than_two_megabytes(format, ring):
    walk = begin(classical(format, ring), 0)
    assert sum(getattr(walk, name).nbytes for name in ARRAYS) < 2_000_000


def test_what_travels_is_small():
    walk = begin(classical(Format(5, 5, 5), Ring.F2), 0)
    advance(walk, 10_000, 0, POLICY)
    whole, parcel = sum(getattr(walk, name).nbytes for name in ARRAYS), sum(array.nbytes for array in pack(walk).arrays)
    assert parcel < 80_000 < whole / 2


def test_smaller_rungs_report_what_they_reach():
    config = Config(Format(3, 3, 4), "F2", 29, steps=20_000_000, seed=1, report_rungs=True)
    seen = {workers: [] for workers in (1, 3)}
    for workers, found in seen.items():
        for event in run(Config(**{**vars(config), "workers": workers})):
            if isinstance(event, Found):
                found.append((event.scheme.format, event.rank, event.steps))
    assert seen[1] == seen[3]
    ranks = [rank for format, rank, _ in seen[1] if format == (3, 3, 3)]
    assert ranks[-1] == 23 and ranks == sorted(set(ranks), reverse=True)
    assert not [
        event
        for event in run(Config(**{**vars(config), "report_rungs": False}))
        if isinstance(event, Found) and event.scheme.format != config.format
    ]
