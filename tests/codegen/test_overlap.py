"""Chains in two phases: what they compute, by replaying accumulator, slots and blocks."""

import numpy as np
import pytest

from catalog.known import strassen, winograd
from codegen.overlap import overlapped
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.schemes import plans
from tests.fuzzing import rare


def replay(found, blocks, rank):
    """Coefficients [blocks, products] of a chain, its slots and parts included."""
    result = np.zeros((blocks, rank), dtype=np.int64)
    slots = {}
    state = np.zeros(rank, dtype=np.int64)
    for position, step in enumerate(found.steps):
        if position == found.boundary:
            assert set(slots) <= set(range(found.carried)), "only what is carried outlives the first phase"
            assert step.clear
        if step.clear:
            state[:] = 0
        state[step.product] += step.sign
        for p in step.publications:
            assert p.slot < found.slots
            if p.resume:
                state += p.coefficient * slots[p.slot]
                continue
            value = p.coefficient * state
            if p.first and not p.last:
                slots[p.slot] = value
            elif not p.last:
                slots[p.slot] = slots[p.slot] + value
            else:
                assert not result[p.block].any(), "a block is finished once"
                result[p.block] = value + (0 if p.first else slots.pop(p.slot))
    return result


CASES = [(name, only_a, least) for name in ("winograd", "rectangular") for only_a in (0, 1) for least in (1, 2, 4)]
CASES += [
    ("mixed", 0, 1),
    *(rare("mixed", only_a, least) for only_a, least in ((0, 2), (0, 4), (1, 1), (1, 2), (1, 4))),
]
CASES += [("winograd2", False, 4), rare("winograd2", True, 2)]


@pytest.mark.parametrize(("name", "only_a", "least"), CASES)
def test_two_phases_compute_the_scheme(name, only_a, least):
    W = plans()[name].scheme.W
    single_a, single_b = ((factor != 0).sum(axis=0) == 1 for factor in plans()[name].scheme.factors[:2])
    plain = np.flatnonzero(single_a & single_b).tolist()
    ready = np.flatnonzero(single_a).tolist() if only_a else plain
    found = overlapped(W, ready, frozenset(plain), least)
    first = {step.product for step in found.steps[: found.boundary]}
    assert first <= set(ready) and len(first) >= min(least, len(ready))
    assert sorted(step.product for step in found.steps) == list(range(W.shape[1]))
    assert all(step.sign == 1 for step in found.steps if step.product in plain)
    np.testing.assert_array_equal(replay(found, *W.shape), W)


def test_blocks_that_stay_pending_cost_nothing():
    made = schedule(plan(winograd()), overlap=1)
    assert (made.boundary, made.carried, made.publications) == (1, 1, schedule(plan(winograd())).publications)
    assert not any(p.resume for turn in made.turns for p in turn.publications)


def test_only_planes_of_a_hold_up_the_first_phase_where_b_is_constant():
    made = schedule(plan(winograd()), overlap=3, constant_b=True)
    first = made.turns[: made.boundary]
    assert len(first) == 3 and not any(turn.a.plane for turn in first) and any(turn.b.plane for turn in first)
    # A block that meets a plane of another type would have to be converted first.
    assert all(turn.plain for turn in schedule(plan(winograd()), True, 3, True).turns[:2])


def test_the_second_phase_of_winograds_form_takes_up_one_part():
    made = schedule(plan(winograd()), overlap=2)
    assert (made.boundary, made.carried, made.publications) == (2, 1, 8)
    assert all(turn.plain for turn in made.turns[: made.boundary])
    resumed = [turn for turn in made.turns if any(p.resume for p in turn.publications)]
    assert len(resumed) == 1
    # The other publication beside it must need no partial sum, for which nothing could be done meanwhile.
    assert all(p.resume or p.first for p in resumed[0].publications)


def test_without_products_to_overlap_with_it_is_refused():
    with pytest.raises(ValueError, match="need no planes"):
        schedule(plan(strassen()), overlap=1)
