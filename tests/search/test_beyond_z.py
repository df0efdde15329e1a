"""Searches for ranks below those known over Z: over Z first, then over F3 from what that found."""

from dataclasses import replace

import pytest

from catalog.known import strassen
from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from search.beyond_z import rank_over_z
from search.events import Checkpoint, Done, Found, Progress
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
    assert states and all(state["characteristic"] == 3 for state in states)


def test_a_checkpoint_goes_on_over_f3():
    query = Query(FORMAT, "Q", 10, steps=2_000_000, workers=1)
    state = [event.state for event in find(query) if isinstance(event, Checkpoint)][-1]
    events = list(find(replace(query, steps=3_000_000), resume=state))
    done = events[-1]
    assert isinstance(done, Done) and done.steps == 3_000_000
    assert all(event.steps >= query.steps for event in events if isinstance(event, Progress))


def test_given_starts_are_walked_from_at_once():
    events = find(Query(Format(2, 2, 2), "F3", 6, steps=10_000, workers=1), [strassen()])
    found = [event.scheme for event in events if isinstance(event, Found)]
    assert found[0].ring is Ring.F3 and found[0].rank == 7
