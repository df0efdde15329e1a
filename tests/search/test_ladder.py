"""The ladder of formats and the pools."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.verify import is_exact
from search.blocks import advance
from search.counters import RANK
from search.ladder import add, build, default_policies, formats_below, grow, merge, pooled
from search.policies import Policy
from tests.fuzzing import examples

sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))


@examples(30)
@given(sizes)
def test_each_rung_is_the_one_below_with_one_slice_more(target):
    plan = formats_below(Format(*target))
    assert plan[-1][0] == target and plan[0][1] is None
    for (small, _), (large, axis) in zip(plan, plan[1:], strict=False):
        assert small._replace(**{axis: getattr(small, axis) + 1}) == large


def test_small_formats_stand_alone():
    assert formats_below(Format(3, 3, 3)) == [(Format(3, 3, 3), None)]
    assert [str(size) for size, _ in formats_below(Format(4, 3, 5))] == ["3x3x3", "3x3x4", "4x3x4", "4x3x5"]


@examples(20)
@given(st.tuples(*[st.integers(0, 2)] * 3), st.sampled_from([Ring.F2, Ring.Z]))
def test_grown_schemes_are_exact(extra, ring):
    target = Format(*(2 + e for e in extra))
    grown = grow(strassen(ring), target)
    assert grown.format == target and is_exact(grown) and grown.rank == 7 + target.volume - 8


def test_a_pool_keeps_distinct_schemes_of_the_lowest_rank():
    (rung,) = build(Format(2, 2, 2), Ring.Z, 0, default_policies(Format(2, 2, 2), 2), (), True)
    assert rung.rank == 8
    base = strassen()
    assert add(rung, base) and rung.rank == 7 and len(rung.pool) == 1
    turned = Scheme(base.format, base.ring, *(f[:, ::-1] for f in base.factors))
    assert not add(rung, turned)
    assert not add(rung, classical(Format(2, 2, 2)))
    assert add(rung, winograd()) and len(rung.pool) == 2
    kept = pooled(rung, Ring.Z, 0)
    assert is_exact(kept) and sorted(map(tuple, kept.U.T.tolist())) == sorted(map(tuple, base.U.T.tolist()))


@pytest.mark.parametrize("ring", [Ring.F2, Ring.Z])
def test_better_schemes_climb_and_stagnant_walks_restart(ring):
    policies = [Policy(1_000, 1, 1)] * 3
    ladder = build(Format(3, 3, 4), ring, 7, policies, (), True)
    assert [rung.format for rung in ladder] == [(3, 3, 3), (3, 3, 4)]
    low, top = ladder
    add(low, grow(strassen(ring), low.format))
    for rung in ladder:
        for walk in rung.walks:
            advance(walk, 1_000, 0, Policy(1_000, 1, 1))
    fresh = merge(ladder, ring, 7, 500)
    assert all(is_exact(scheme) and (scheme.format, scheme.rank) == ((3, 3, 4), top.rank) for scheme in fresh)
    assert (top.rank < 36) <= bool(fresh)
    assert (top.restarts == 1).all()
    # The rung below has rank 26 or less, so that every walk above goes on from an extended scheme.
    assert {int(walk.counters[RANK]) for walk in top.walks} == {low.rank + 9} and low.rank <= 26
    assert not np.array_equal(top.walks[0].rng, top.walks[1].rng)


def test_a_rung_rests_after_many_steps_for_nothing_and_wakes_with_a_gain():
    low, _ = build(Format(3, 3, 4), Ring.F2, 1, default_policies(Format(3, 3, 4), 2), (), True)
    low.spent[:] = 10**7, 10**5
    assert not low.resting
    low.spent[0] = 10**9
    assert low.resting
    low.spent[1] = 10**9
    assert not low.resting
