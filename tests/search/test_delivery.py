"""Which schemes of a search are carried over to the wanted ring, and when."""

import time

import numpy as np
import pytest

from catalog.canonical import digest
from catalog.known import strassen, winograd
from catalog.scheme import Format, Ring
from catalog.transform import reduce_mod
from catalog.verify import is_exact
from search import delivery
from search.delivery import deliver
from search.events import Checkpoint, Done, Found, Notice, Progress, Started
from search.query import Query

FORMAT = Format(2, 2, 2)
MILLION = 1_000_000


def found(scheme, millions):
    return Found(scheme, scheme.rank, millions * MILLION, 0.1, 1)


def progress(millions):
    return Progress(7, millions * MILLION, millions, 1.0, 0.1, 0.0, 1)


def done(status="budget"):
    return Done(status, 7, 90 * MILLION, 90, 0.2)


def delivered(query, *events, should_stop=lambda: False, resume=None):
    return list(deliver(query, "F2", iter_of(events), resume, should_stop))


def iter_of(events):
    yield from events


def query_for(ring, **options):
    """A target that is not reached, so that schemes wait."""
    return Query(FORMAT, ring, 6, **{"steps": 90 * MILLION, **options})


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_another_scheme_of_the_rank_does_not_put_the_lift_off():
    events = delivered(
        query_for("Z"),
        found(strassen(Ring.F2), 0),
        progress(10),
        found(winograd(Ring.F2), 20),
        progress(25),
        found(strassen(Ring.F2), 28),
        progress(31),
        found(winograd(Ring.F2), 35),
        progress(40),
        done(),
    )
    where = [index for index, event in enumerate(events) if isinstance(event, Found)]
    assert len(where) == 1 and events[where[0]].scheme.ring is Ring.Z and is_exact(events[where[0]].scheme)
    assert events[where[0] + 1].steps == 31 * MILLION


@pytest.mark.parametrize(("ring", "result"), [("F3", Ring.F3), ("Q", Ring.Z), ("Z", Ring.Z), ("ZT", Ring.Z)])
def test_a_scheme_over_z_is_passed_on_at_once_whatever_comes_next(ring, result):
    events = delivered(query_for(ring), found(strassen(), 0), found(winograd(Ring.F2), 1), progress(2), done())
    assert isinstance(events[0], Found) and events[0].scheme.ring is result and events[0].rank == 7
    assert len(of(events, Found)) == 1  # the other one is no better, so that it need not be lifted


def test_a_scheme_over_z_does_not_wait_for_a_lift_of_its_rank():
    events = delivered(query_for("Q"), found(winograd(Ring.F2), 0), found(strassen(), 1), progress(2), done())
    assert digest(events[0].scheme) == digest(strassen()) and len(of(events, Found)) == 1


def test_schemes_over_the_ring_of_the_walks_are_passed_on_at_once():
    events = delivered(query_for("F3"), found(reduce_mod(strassen(), Ring.F3), 0), progress(1), done())
    assert [type(event) for event in events] == [Found, Progress, Done]


@pytest.mark.parametrize("limits", [{}, {"steps": None, "budget_s": 3600.0}])
def test_a_search_that_is_told_to_stop_lifts_its_last_scheme_in_the_time_of_grace(limits):
    query = query_for("Z", **limits)
    events = delivered(query, found(strassen(Ring.F2), 0), done("interrupted"), should_stop=lambda: True)
    assert [event.rank for event in of(events, Found)] == [7] and events[-1].given_up == 0


@pytest.mark.parametrize("limits", [{}, {"steps": None, "budget_s": 3600.0}])
def test_the_time_of_grace_ends(monkeypatch, limits):
    monkeypatch.setattr(delivery, "_GRACE_S", 0.2)
    monkeypatch.setattr(delivery, "carry_over", endless)
    begun = time.monotonic()
    events = delivered(
        query_for("Z", **limits), found(strassen(Ring.F2), 0), done("interrupted"), should_stop=lambda: True
    )
    assert time.monotonic() - begun < 2
    assert (events[-1].failures, events[-1].given_up) == (0, 1)


def endless(_scheme, _ring, _symmetric, give_up):
    while not give_up():
        time.sleep(0.01)


def test_a_lift_that_fails_is_told_from_one_that_is_given_up(monkeypatch):
    events = (found(strassen(Ring.F2), 0), progress(31), done())
    monkeypatch.setattr(delivery, "carry_over", lambda *_: None)
    last = delivered(query_for("Z"), *events)[-1]
    assert (last.failures, last.given_up, last.walk_rank, last.walk_ring) == (1, 0, 7, "F2")
    monkeypatch.setattr(delivery, "carry_over", refuse)
    last = delivered(query_for("Z"), *events)[-1]
    assert (last.failures, last.given_up) == (0, 1)


def refuse(*_):
    raise ValueError("too large")


def test_a_lift_cut_short_has_another_chance_at_the_end():
    """Told to stop amid a lift, a search ends soon; then what it gave up is tried once more."""
    query = Query(FORMAT, "Z", 7, steps=90 * MILLION)
    events = delivered(query, found(strassen(Ring.F2), 0), progress(1), done("interrupted"), should_stop=lambda: True)
    assert [type(event) for event in events] == [Progress, Found, Done]
    assert events[-1].status == "found" and events[-1].given_up == 0


def test_notices_smaller_formats_and_what_was_kept_pass_through():
    query = Query(FORMAT, "F2", 7, keep=2, steps=90 * MILLION)
    smaller = found(strassen(Ring.F2), 1)
    events = delivered(
        query, Started(0.0), Notice("one moment"), found(strassen(Ring.F2), 0), Checkpoint({"own": 1}), done()
    )
    assert [type(event) for event in events] == [Notice, Found, Checkpoint, Done]
    state = events[2].state
    assert state["own"] == 1 and state["kept"].tolist() == [digest(strassen(Ring.F2))]
    on = delivered(query, smaller, found(winograd(Ring.F2), 2), done(), resume=state)
    assert on[-1].status == "found" and digest(on[0].scheme) == digest(winograd(Ring.F2))
    assert np.asarray(state["kept"]).dtype.kind == "U"
