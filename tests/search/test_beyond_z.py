"""Searches for ranks below those known over Z: over Z first, then over F3 from what that found."""

from dataclasses import replace

import pytest

from catalog.known import strassen
from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from search.beyond_z import rank_over_z, walk_on
from search.config import Config
from search.events import Checkpoint, Done, Found, Notice, Progress
from search.find import find
from search.query import Query

FORMAT = Format(2, 3, 2)


def test_ranks_over_z_come_from_the_table():
    assert rank_over_z(FORMAT) == 11 and rank_over_z(Format(2, 4, 5)) == 33
    assert rank_over_z(Format(1, 2, 3)) == 6


@pytest.mark.parametrize("ring", ["F3", "Q"])
def test_the_best_scheme_over_z_is_where_the_walks_over_f3_begin(ring):
    query = Query(FORMAT, ring, 10, steps=2_000_000, workers=1)
    events = list(find(query))
    found = [event.scheme for event in events if isinstance(event, Found)]
    assert all(is_exact(scheme) and scheme.ring in (Ring.Z, Ring(ring)) for scheme in found)
    done = events[-1]
    assert isinstance(done, Done) and done.status == "budget"
    assert done.rank == min(scheme.rank for scheme in found) == 11
    assert done.steps == query.steps
    steps = [event.steps for event in events if isinstance(event, Progress)]
    assert steps == sorted(steps) and steps[-1] == done.steps
    states = [event.state for event in events if isinstance(event, Checkpoint)]
    assert states and states[-1]["characteristic"] == 3


def flips_of(events):
    return [event.flips for event in events if isinstance(event, Progress | Done)]


def test_a_checkpoint_goes_on_over_f3():
    query = Query(FORMAT, "Q", 10, steps=2_000_000, workers=1)
    first = list(find(query))
    state = [event.state for event in first if isinstance(event, Checkpoint)][-1]
    events = list(find(replace(query, steps=3_000_000), resume=state))
    done = events[-1]
    assert isinstance(done, Done) and done.steps == 3_000_000
    assert all(event.steps >= query.steps for event in events if isinstance(event, Progress))
    assert done.rank == 11
    # What both parts have flipped counts on.
    assert min(flips_of(events)) >= first[-1].flips


def test_the_search_over_z_leaves_checkpoints_and_goes_on_from_them():
    query = Query(Format(2, 3, 3), "F3", 13, steps=4_000_000, workers=1, checkpoint_s=0.0)
    whole = list(find(query))
    asked = iter(range(10**9))
    part = list(find(replace(query, ring="Q"), should_stop=lambda: next(asked) > 40))
    state = [event.state for event in part if isinstance(event, Checkpoint)][-1]
    assert part[-1].status == "interrupted" and str(state["stage"]) == "Z" and state["steps"] == part[-1].steps > 0
    events = list(find(replace(query, ring="Q"), resume=state))
    assert min(event.steps for event in events if isinstance(event, Progress)) > part[-1].steps
    assert min(flips_of(events)) >= part[-1].flips > 0
    assert str(next(e.state for e in reversed(events) if isinstance(e, Checkpoint))["stage"]) == "F3"
    assert events[-1].steps == query.steps and events[-1].rank == whole[-1].rank == 15


def test_schemes_over_z_outlive_a_checkpoint_of_which_the_walks_have_lost_them():
    """The walks of the search over Z may stand at a lower rank that does not lift; what did lift is started from."""
    config = Config(Format(2, 2, 2), "F3", 1, steps=40_000, workers=1, climb=False)

    def over_z(state):
        if state is None:
            yield Notice("waiting")
            yield Found(strassen(), 7, 5, 0.5, 1)
            yield Checkpoint({"walks": 1})
        yield Done("budget", 8, 10_000, 100, 1.0)

    events = list(walk_on(config, over_z, None, lambda: False))
    assert [event.text for event in events if isinstance(event, Notice)] == ["waiting"]
    state = next(event.state for event in events if isinstance(event, Checkpoint))
    assert state["walks"] == 1 and str(state["stage"]) == "Z"
    again = list(walk_on(config, over_z, state, lambda: False))
    found = [event.scheme for event in again if isinstance(event, Found)]
    assert found[0].ring is Ring.Z and found[0].rank == 7 and is_exact(found[0])
    assert [scheme.rank for scheme in found if scheme.ring is Ring.F3][0] == 7


def test_a_checkpoint_of_a_search_with_starts_is_refused_without_them_and_the_other_way_round():
    query = Query(Format(2, 2, 2), "F3", 6, steps=10_000, workers=1)
    given = [event.state for event in find(query, [strassen()]) if isinstance(event, Checkpoint)][-1]
    with pytest.raises(ValueError, match="given starts"):
        find(query, resume=given)
    own = [event.state for event in find(query) if isinstance(event, Checkpoint)][-1]
    with pytest.raises(ValueError, match="began from other schemes, 0 of them, than the 1"):
        find(query, [strassen()], resume=own)


def test_given_starts_are_walked_from_at_once():
    events = find(Query(Format(2, 2, 2), "F3", 6, steps=10_000, workers=1), [strassen()])
    found = [event.scheme for event in events if isinstance(event, Found)]
    assert found[0].ring is Ring.F3 and found[0].rank == 7
