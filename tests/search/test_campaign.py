"""Campaigns: determinism, resumption, limits, and what they find."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import extend, rotate
from catalog.verify import NotExactError, is_exact
from search.campaign import run
from search.config import Config
from search.events import Checkpoint, Done, Found, Progress, Started
from search.walks.symmetry import symmetry_for


def outcome(config, **options):
    """All events of a run by kind."""
    events = list(run(config, **options))
    assert isinstance(events[-1], Done)
    return {
        kind: [event for event in events if isinstance(event, kind)]
        for kind in (Started, Found, Progress, Checkpoint, Done)
    }


def same_state(one, other):
    clock = {"seconds"}
    assert one.keys() == other.keys()
    return [name for name in one if name not in clock and not np.array_equal(one[name], other[name])] == []


@pytest.mark.parametrize(
    ("ring", "sizes", "rank"),
    [
        ("F2", (2, 2, 2), 7),
        ("F2", (3, 2, 2), 11),
        ("F2", (3, 2, 3), 15),
        ("F2", (3, 3, 3), 23),
        ("F2", (4, 2, 3), 20),
        ("ZT", (2, 2, 2), 7),
        ("ZT", (2, 3, 2), 11),
        ("ZT", (3, 3, 3), 23),
    ],
)
def test_best_known_ranks_are_reached(ring, sizes, rank):
    seen = outcome(Config(Format(*sizes), ring, rank, budget_s=30, seed=5))
    assert seen[Done][0].status == "found" and seen[Done][0].rank == rank
    assert [event.rank for event in seen[Found]] == sorted((event.rank for event in seen[Found]), reverse=True)
    for event in seen[Found]:
        assert event.scheme.format == sizes and event.scheme.rank == event.rank and is_exact(event.scheme)
        assert event.scheme.ring is (Ring.F2 if ring == "F2" else Ring.Z)
        assert event.scheme.is_ternary or ring == "F2"
    assert not seen[Checkpoint]


@pytest.mark.parametrize(("ring", "sizes"), [("F2", (3, 3, 4)), ("ZT", (2, 3, 3))])
def test_steps_give_the_same_run_for_any_number_of_workers(ring, sizes):
    config = Config(Format(*sizes), ring, 1, steps=700_001, seed=11)
    runs = [outcome(replace(config, workers=workers)) for workers in (1, 2, 3)]
    for other in runs[1:]:
        assert same_state(runs[0][Checkpoint][-1].state, other[Checkpoint][-1].state)
        assert [(e.rank, e.steps, e.block, digest(e.scheme)) for e in runs[0][Found]] == [
            (e.rank, e.steps, e.block, digest(e.scheme)) for e in other[Found]
        ]
    assert runs[0][Done][0].steps == 700_001 and runs[0][Done][0].status == "budget"


def test_a_hit_is_the_same_for_any_number_of_workers():
    config = Config(Format(2, 3, 3), "F2", 15, steps=50_000_000, seed=2)
    hits = {
        (e.steps, e.block, digest(e.scheme))
        for workers in (1, 2, 4)
        for e in outcome(replace(config, workers=workers))[Found][-1:]
    }
    assert len(hits) == 1


@pytest.mark.parametrize("cut", [1, 1_234, 300_000])
def test_resuming_continues_the_same_run(cut):
    config = Config(Format(3, 4, 3), "F2", 1, steps=600_000, seed=4, restart=20_000)
    whole = outcome(config)
    first = outcome(replace(config, steps=cut))
    assert first[Done][0].steps == cut
    second = outcome(config, resume=first[Checkpoint][-1].state)
    assert second[Done][0].steps == 600_000
    assert second[Done][0].flips == whole[Done][0].flips
    assert same_state(whole[Checkpoint][-1].state, second[Checkpoint][-1].state)


def test_an_interrupted_run_resumes_to_the_same_end():
    config = Config(Format(2, 4, 4), "F2", 1, steps=3_000_000, seed=8)
    whole = outcome(config)
    asked = iter(range(10**9))
    first = outcome(config, should_stop=lambda: next(asked) > 60)
    assert first[Done][0].status == "interrupted" and first[Done][0].steps < 3_000_000
    second = outcome(config, resume=first[Checkpoint][-1].state)
    assert second[Found][0].rank == first[Found][-1].rank
    assert same_state(whole[Checkpoint][-1].state, second[Checkpoint][-1].state)


def test_a_checkpoint_of_another_search_is_refused():
    config = Config(Format(2, 2, 2), "F2", 1, steps=1_000)
    state = outcome(config)[Checkpoint][-1].state
    for other in (replace(config, seed=1), replace(config, ring="ZT"), replace(config, format=Format(2, 2, 3))):
        with pytest.raises(ValueError, match="the checkpoint has .* resume it as it was started"):
            run(other, resume=state)
    with pytest.raises(ValueError, match="the checkpoint lacks '0/pool'"):
        run(config, resume={name: value for name, value in state.items() if name != "0/pool"})


def test_a_checkpoint_from_other_starts_is_refused():
    config = Config(Format(2, 2, 2), "F2", 1, steps=1_000)
    state = outcome(config, starts=[strassen()])[Checkpoint][-1].state
    for other in ([], [winograd()], [strassen(), winograd()]):
        with pytest.raises(ValueError, match=f"began from other schemes, 1 of them, than the {len(other)} "):
            run(config, starts=other, resume=state)
    assert outcome(replace(config, steps=2_000), starts=[strassen()], resume=state)[Done][0].steps == 2_000


def test_what_is_not_exact_is_not_reported(monkeypatch):
    good = strassen(Ring.F2)
    broken = Scheme(good.format, good.ring, good.U, good.V, good.W ^ 1)
    monkeypatch.setattr("search.campaign.lowest", lambda _walk: broken)
    with pytest.raises(NotExactError):
        outcome(Config(Format(2, 2, 2), "F2", 7, steps=1_000_000, seed=1))


@pytest.mark.parametrize("symmetric", [False, True])
def test_walks_to_be_lifted_ask_with_their_symmetry_and_can_be_stopped(monkeypatch, symmetric):
    asked = []

    def liftable(_scheme, **options):
        asked.append((options["symmetric"], options["should_stop"]()))
        return True

    monkeypatch.setattr("search.campaign.liftable", liftable)
    symmetry = symmetry_for(Format(3, 3, 3), 23, None) if symmetric else None
    config = Config(Format(3, 3, 3), "F2", 23, goal="Z", steps=1_000_000, seed=1, symmetry=symmetry)
    assert outcome(config, should_stop=lambda: False)[Done]
    assert asked and set(asked) == {(symmetric, False)}


def test_the_budget_is_kept():
    begun = time.monotonic()
    found = outcome(Config(Format(4, 4, 4), "F2", 1, budget_s=0.5))
    done = found[Done][0]
    assert done.status == "budget" and 0.5 <= done.seconds
    assert time.monotonic() - begun < 3 + found[Started][0].compile_seconds


def test_a_request_to_stop_is_heard_within_a_second():
    stop = threading.Event()
    events = run(Config(Format(5, 5, 5), "F2", 1, budget_s=600, climb=False), should_stop=stop.is_set)
    for event in events:
        # Rounds have their full length by now.
        if isinstance(event, Progress) and event.seconds > 1.5:
            break
    begun = time.monotonic()
    stop.set()
    rest = list(events)
    assert time.monotonic() - begun < 2
    assert rest[-1].status == "interrupted" and isinstance(rest[-2], Checkpoint)


def test_starts_are_turned_reduced_and_extended():
    start = rotate(extend(strassen(), "m"))
    for ring in ("F2", "ZT"):
        events = run(Config(Format(2, 3, 3), ring, 1, steps=1_000), starts=[start])
        first = next(event for event in events if isinstance(event, Found))
        assert first.rank == 17 and first.scheme.format == (2, 3, 3) and is_exact(first.scheme)
    assert outcome(Config(Format(2, 2, 2), "F2", 7, steps=1), starts=[strassen()])[Done][0].status == "found"


def test_unsuitable_starts_are_refused():
    config = Config(Format(2, 2, 2), "ZT", 7, steps=1)
    with pytest.raises(ValueError, match="is not ternary"):
        run(config, starts=[strassen(Ring.F2)])
    with pytest.raises(ValueError, match="does not fit into 2x2x2"):
        run(config, starts=[classical(Format(1, 3, 1))])
    good = strassen()
    broken = good.U.copy()
    broken[0, 0] = 0
    with pytest.raises(NotExactError):
        run(config, starts=[Scheme(good.format, good.ring, broken, good.V, good.W)])


@pytest.mark.parametrize("ring", ["F2", "ZT"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 4), (1, 3, 2), (5, 1, 1)])
def test_degenerate_formats_end(ring, sizes):
    format = Format(*sizes)
    seen = outcome(Config(format, ring, format.volume, steps=100))
    assert seen[Done][0].status == "found" and seen[Found][0].steps == 0
    seen = outcome(Config(format, ring, format.volume - 1, steps=50_000))
    assert seen[Done][0].status == "budget" and seen[Done][0].rank == format.volume
    assert seen[Done][0].exhausted == (format.volume == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": -1}, "target is -1; it must be at least 0"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"steps": None}, "give steps or budget_s"),
        ({"workers": 0}, "workers is 0"),
        ({"ring": "Q"}, "need ring F2, F3 or ZT, not Q"),
        ({"format": Format(9, 8, 1)}, "72 blocks in A"),
        ({"budget_s": float("nan")}, "budget_s is nan"),
    ],
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(Config(Format(2, 2, 2), "F2", 7, steps=1), **change)
