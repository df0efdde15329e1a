"""Chains in two phases: what they compute, by replaying accumulator, slots and blocks."""

import numpy as np
import pytest

from catalog.known import strassen, winograd
from codegen.overlap import overlapped
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.schemes import plans


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


@pytest.mark.parametrize("name", ["winograd", "winograd2", "rectangular", "mixed"])
def test_two_phases_compute_the_scheme(name):
    W = plans()[name].scheme.W
    U, V = plans()[name].scheme.U, plans()[name].scheme.V
    ready = [r for r in range(W.shape[1]) if (U[:, r] != 0).sum() == 1 == (V[:, r] != 0).sum()]
    found = overlapped(W, ready, frozenset(ready))
    assert {step.product for step in found.steps[: found.boundary]} == set(ready)
    assert sorted(step.product for step in found.steps) == list(range(W.shape[1]))
    np.testing.assert_array_equal(replay(found, *W.shape), W)


def test_the_second_phase_of_winograds_form_takes_up_one_part():
    made = schedule(plan(winograd()), overlap=True)
    assert (made.boundary, made.carried, made.publications) == (2, 1, 8)
    assert all(turn.plain for turn in made.turns[: made.boundary])
    resumed = [turn for turn in made.turns if any(p.resume for p in turn.publications)]
    assert len(resumed) == 1
    # The other publication beside it must need no partial sum, for which nothing could be done meanwhile.
    assert all(p.resume or p.first for p in resumed[0].publications)


def test_without_products_to_overlap_with_it_is_refused():
    with pytest.raises(ValueError, match="need no planes"):
        schedule(plan(strassen()), overlap=True)
