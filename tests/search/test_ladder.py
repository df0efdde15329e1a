"""The ladder of formats, its pools and where its walks start anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import transpose
from catalog.verify import is_exact
from search.ladder import build, formats_below, grow, merge, owe
from search.restarts import mergers, ways_to
from search.rungs import EXTENDED, MERGED, OWN, Goal, Rung
from search.walks.blocks import advance
from search.walks.counters import BEST, RANK
from search.walks.policies import choose, forget, portfolio
from tests.fuzzing import examples

sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
F2, ZT = Goal(Ring.F2, "F2"), Goal(Ring.Z, "ZT")
OFTEN = {"plus_interval": 1_000, "margin": 1, "restart": 1}


def anything(_scheme):
    return True


def ladder_of(format, goal=F2, walkers=4, given=OFTEN, starts=(), climb=True, seed=7):
    return build(Format(*format), goal, seed, walkers, dict(given), starts, climb)


def walk_all(ladder, steps=1_000):
    for rung in ladder:
        for index, walk in enumerate(rung.walks):
            advance(walk, steps, 0, rung.policy(index))


@examples(50)
@given(sizes)
def test_mergers_are_two_parts_of_the_whole(target):
    whole = Format(*target)
    found = list(mergers(whole))
    assert len(found) == sum(size // 2 for size in whole)
    for axis, first, second in found:
        assert first.volume + second.volume == whole.volume
        assert getattr(first, axis) + getattr(second, axis) == getattr(whole, axis)
    assert all(merger.extends == (1 == min(getattr(p, merger.axis) for p in merger[1:])) for merger in found)


@examples(30)
@given(sizes, st.sampled_from([F2, ZT, Goal(Ring.F2, "Z")]))
def test_every_rung_but_the_lowest_extends_another(target, goal):
    plan = formats_below(Format(*target), goal)
    assert plan[-1] == target and [f.volume for f in plan] == sorted(f.volume for f in plan)
    for size in plan:
        parts = {part.sorted for merger in mergers(size) if merger.extends for part in merger[1:]}
        assert size.volume <= 27 or parts & {f.sorted for f in plan} or min(size.sorted[:2]) == 1


def test_small_formats_stand_alone():
    assert formats_below(Format(3, 3, 3), F2) == [(3, 3, 3)]
    assert [str(size) for size in formats_below(Format(3, 3, 4), F2)] == ["2x3x4", "3x3x3", "3x3x4"]


@examples(20)
@given(st.tuples(*[st.integers(0, 2)] * 3), st.sampled_from([Ring.F2, Ring.Z]))
def test_grown_schemes_are_exact(extra, ring):
    target = Format(*(2 + e for e in extra))
    grown = grow(strassen(ring), target)
    assert grown.format == target and is_exact(grown) and grown.rank == 7 + target.volume - 8


def test_a_pool_keeps_distinct_schemes_of_the_lowest_rank_one_of_every_descent():
    (rung,) = ladder_of((2, 2, 2), ZT)
    assert rung.rank == 8
    base = strassen()
    assert rung.add(base, 1) and rung.rank == 7 and len(rung.pool) == 1
    turned = Scheme(base.format, base.ring, *(f[:, ::-1] for f in base.factors))
    assert not rung.add(turned, 2)
    assert not rung.add(classical(Format(2, 2, 2)), 2)
    assert rung.add(winograd(), 2) and len(rung.pool) == 2
    assert rung.add(transpose(base), 2) and len(rung.pool) == 2 and rung.lines.tolist() == [1, 2]
    kept = rung.pooled(0)
    assert is_exact(kept) and sorted(map(tuple, kept.U.T.tolist())) == sorted(map(tuple, base.U.T.tolist()))


@pytest.mark.parametrize("goal", [F2, ZT])
def test_better_schemes_climb_and_stagnant_walks_restart(goal):
    ladder = ladder_of((3, 3, 4), goal)
    assert [rung.format for rung in ladder] == [(2, 3, 4), (3, 3, 3), (3, 3, 4)]
    _, low, top = ladder
    low.add(grow(strassen(goal.walked), low.format), 9)
    walk_all(ladder)
    fresh = merge(ladder, 7, 500, anything)
    assert all(is_exact(scheme) and (scheme.format, scheme.rank) == ((3, 3, 4), top.rank) for scheme in fresh)
    assert (top.rank < 36) <= bool(fresh)
    assert (top.restarts == 1).all()
    assert all(walk.counters[RANK] == at for walk, at in zip(top.walks, top.begun_at, strict=True))
    # The rungs below have lower ranks now, so that every other walk goes on from an extended scheme.
    assert (top.kind[1::2] == EXTENDED).all() and (top.begun_at[1::2] < 36).all() and low.rank <= 26
    assert not np.array_equal(top.walks[0].rng, top.walks[1].rng)


@pytest.mark.parametrize("goal", [F2, ZT])
def test_walks_restart_from_exact_schemes_of_every_kind(goal):
    ladder = ladder_of((3, 4, 4), goal)
    for rung in ladder[:-1]:
        rung.add(grow(strassen(goal.walked), rung.format), 9)
    seen = set()
    for number in range(30):
        owe(ladder, number, 1_000)
        walk_all(ladder)
        merge(ladder, 7, 10**9, anything)
        for rung in ladder:
            seen |= {(rung.format.volume > 27, int(kind)) for kind in rung.kind}
            assert all(is_exact(rung.pooled(i)) for i in range(min(2, len(rung.pool))))
    assert {kind for large, kind in seen if large} >= {OWN, EXTENDED, MERGED}


def test_ways_are_those_whose_parts_are_rungs():
    ways = ways_to(Format(3, 3, 4), {Format(3, 3, 3): 23, Format(2, 3, 3): 15})
    assert [rank for rank, _ in ways[EXTENDED]] == [32] and [rank for rank, _ in ways[MERGED]] == [30]
    assert ways_to(Format(3, 3, 4), {Format(3, 3, 3): 27}) == {}


def test_a_scheme_that_is_a_dead_end_neither_enters_the_pool_nor_is_walked_on_from():
    ladder = ladder_of((2, 2, 3), given={**OFTEN, "restart": 10**9})
    walk_all(ladder, 200_000)
    (rung,) = ladder
    assert all(walk.counters[BEST] == 11 for walk in rung.walks)
    asked = []
    merge(ladder, 7, 500, lambda scheme: asked.append(scheme.rank) or scheme.rank > 11)
    assert asked == [11] * 4 and rung.rank == 12 and (rung.restarts == 1).all()
    assert all(walk.counters[BEST] > 11 for walk in rung.walks) and (rung.by_policy[:, 1].sum()) == 4


def test_what_a_walk_was_cleared_for_is_not_asked_again():
    ladder = ladder_of((2, 2, 3), given={**OFTEN, "restart": 10**9})
    walk_all(ladder, 200_000)
    asked = []
    for _ in range(2):
        merge(ladder, 7, 500, lambda scheme: asked.append(scheme) or True)
        walk_all(ladder)
    assert len(asked) == 4 and ladder[0].rank == 11


def test_lower_rungs_stop_at_the_best_known_rank_of_the_wanted_ring():
    over_z, over_f2 = ladder_of((4, 4, 5), Goal(Ring.F2, "Z"))[-2], ladder_of((4, 4, 5))[-2]
    assert over_z.format == over_f2.format == (4, 4, 4)
    assert over_z.floor == 49 and over_f2.floor == 47


def test_a_rung_settles_after_many_steps_for_nothing_or_at_the_best_known_rank():
    low = Rung(Format(3, 3, 4), F2, portfolio(Format(3, 3, 4), Ring.F2))
    low.add(classical(low.format, Ring.F2), 0)
    low.spent[:] = 10**7, 10**5
    assert not low.settled
    low.spent[0] = 10**9
    assert low.settled
    low.spent[1] = 10**9
    assert not low.settled
    small = Rung(Format(2, 2, 2), F2, portfolio(Format(2, 2, 2), Ring.F2))
    small.add(strassen(Ring.F2), 1)
    assert not small.settled
    small.pool *= 4
    assert small.settled


def test_settled_rungs_step_back_and_the_top_always_moves():
    ladder = ladder_of((3, 3, 4))
    owe(ladder, 1, 100)
    assert all(rung.owed.any() for rung in ladder) and (ladder[-1].owed == 100).all()
    ladder[0].spent[0] = 10**10
    owe(ladder, 1, 100)
    assert not ladder[0].owed.any() and ladder[1].owed.any() and ladder[-1].owed.all()
    owe(ladder, 16, 100)
    assert ladder[0].owed.all()


def test_given_schemes_go_to_the_rungs_that_they_fit():
    ladder = ladder_of((3, 3, 4), starts=[grow(strassen(Ring.F2), Format(3, 3, 3)), strassen(Ring.F2)])
    assert ladder[1].rank == 26
    assert ladder[-1].rank == 35 and {int(walk.counters[RANK]) for walk in ladder[-1].walks} == {35}


def test_choices_follow_what_has_worked():
    rng = np.random.default_rng(1)
    tally = np.array([[0, 40], [40, 0], [0, 0]])
    picks = np.bincount([choose(tally, rng) for _ in range(300)], minlength=3)
    assert picks[1] > picks[2] > picks[0]
    forget(tally)
    assert tally.tolist() == [[0, 20], [20, 0], [0, 0]]


def test_fixed_settings_leave_what_is_not_fixed_to_choose():
    fixed = {(policy.plus_interval, policy.margin, policy.restart) for policy in ladder_of((3, 3, 3))[0].policies}
    assert fixed == {(1_000, 1, 1)}
    assert len(ladder_of((3, 3, 3), given={"margin": 2})[0].policies) > 2


def test_a_walk_that_has_not_moved_tells_nothing():
    ladder = ladder_of((3, 3, 4))
    low = ladder[0]
    low.add(grow(strassen(Ring.F2), low.format), 9)
    before = low.by_kind.copy()
    for _ in range(3):
        merge(ladder, 7, 10**9, anything)
    assert not low.by_policy.any() and np.array_equal(low.by_kind, before)


def test_walks_begin_at_the_best_given_scheme_and_at_others_by_turns():
    near, far = grow(strassen(Ring.F2), Format(3, 3, 4)), classical(Format(3, 3, 4), Ring.F2)
    ladder = ladder_of((3, 3, 4), starts=[far, far, near])
    assert [int(walk.counters[RANK]) for walk in ladder[-1].walks] == [35, 36, 35, 36]


def test_a_given_start_has_its_time_before_an_extension_takes_its_place():
    far = classical(Format(4, 4, 5), Ring.F2)
    ladder = ladder_of((4, 4, 5), given={**OFTEN, "restart": 10**9}, starts=[far])
    for rung in ladder[:-1]:
        rung.add(grow(strassen(Ring.F2), rung.format), 9)
    walk_all(ladder[-1:], 10)
    for _ in range(2):
        merge(ladder, 7, 1, anything)
    assert not ladder[-1].restarts.any()


def test_lower_rungs_with_their_best_rank_descend_anew():
    ladder = ladder_of((3, 3, 4))
    low = ladder[0]
    for _ in range(40):
        walk_all(ladder, 50_000)
        merge(ladder, 7, 10**9, anything)
    assert low.rank == 20 and len(low.pool) > 1 and OWN not in low.kind
