"""Walks in which some of the terms stand still."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate
from catalog.verify import is_exact
from search import checkpoint
from search.dask_executor import pack, unpack
from search.ladder import build, merge
from search.rungs import NEIGHBOURHOOD, SEAM, Goal
from search.walks.blocks import ARRAYS, Walk, advance, begin, lowest, to_masks
from search.walks.counters import STEPS, STUCK
from search.walks.policies import Policy
from search.walks.regions import neighbourhood, neighbours, seam
from tests.fuzzing import examples

RINGS = (Ring.F2, Ring.F3, Ring.Z)
FORMATS = ((1, 2, 3), (2, 2, 2), (2, 3, 4), (4, 2, 3), (3, 4, 2))
POLICY = Policy(plus_interval=40, margin=3, restart=1, split=0.25)


def terms(scheme: Scheme) -> set[bytes]:
    return {term.tobytes() for term in to_masks(scheme).reshape(2, -1, 4).transpose(1, 0, 2)}


def anything(_scheme):
    return True


@examples(40)
@given(st.sampled_from(FORMATS), st.sampled_from(RINGS), st.integers(0, 1 << 60), st.data())
def test_terms_that_stand_still_are_never_touched(sizes, ring, seed, data):
    scheme = classical(Format(*sizes), ring)
    free = data.draw(st.sets(st.integers(0, scheme.rank - 1), max_size=scheme.rank))
    still = terms(Scheme(scheme.format, ring, *(np.delete(factor, sorted(free), axis=1) for factor in scheme.factors)))
    whole, parts = (begin(scheme, seed, free=np.array(sorted(free), np.int64)) for _ in range(2))
    assert whole.rank == whole.lowest_rank == scheme.rank and whole.standing == scheme.rank - len(free)
    advance(whole, 900, 0, POLICY)
    for steps in (200, 700):
        advance(parts, steps, 0, POLICY)
        low = lowest(parts)
        assert is_exact(low) and low.rank == parts.lowest_rank and still <= terms(low)
        assert low.is_ternary or ring is not Ring.Z
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


@pytest.mark.parametrize("ring", RINGS)
def test_the_target_is_of_the_whole_scheme(ring):
    scheme = concatenate(classical(Format(2, 2, 2), ring), classical(Format(2, 2, 1), ring), "n")
    walk = begin(scheme, 1, free=np.arange(8))
    advance(walk, 5_000_000, 11, Policy(10_000, 1, 1))
    assert walk.rank == walk.lowest_rank == lowest(walk).rank == 11 and walk.counters[STEPS] < 5_000_000


@pytest.mark.parametrize("ring", RINGS)
def test_without_a_term_that_moves_a_walk_is_stuck_and_stays_as_it_is(ring):
    walk = begin(classical(Format(2, 2, 2), ring), 1, free=np.zeros(0, np.int64))
    drawn = walk.rng.copy()
    for _ in range(2):
        advance(walk, 100, 0, POLICY)
        assert walk.counters[STUCK] and walk.rank == 8 and is_exact(lowest(walk))
        assert np.array_equal(walk.rng, drawn)


def test_a_symmetric_walk_has_no_terms_that_stand_still():
    with pytest.raises(ValueError, match="leave out free or symmetry"):
        begin(classical(Format(2, 2, 2), Ring.F2), 1, symmetry="Z3", free=np.arange(3))


@examples(30)
@given(st.sampled_from(FORMATS), st.sampled_from(RINGS), st.integers(0, 1 << 30))
def test_neighbours_share_a_factor_up_to_its_sign(sizes, ring, seed):
    walk = begin(classical(Format(*sizes), ring), seed)
    advance(walk, 300, 0, POLICY)
    scheme = lowest(walk)
    modulus = ring.modulus or 0
    found = neighbours(scheme)
    for i in range(scheme.rank):
        for j in range(scheme.rank):
            pairs = [(factor[:, i].astype(int), factor[:, j].astype(int)) for factor in scheme.factors]
            opposite = [((a + b) % modulus if modulus else a + b) for a, b in pairs]
            equal = any(np.array_equal(a, b) for a, b in pairs) or any(not total.any() for total in opposite)
            assert found[i, j] == equal


@examples(30)
@given(st.integers(0, 1 << 30), st.sampled_from([(3, 3, 4), (4, 4, 5), (2, 5, 3)]))
def test_a_neighbourhood_is_a_connected_part(seed, sizes):
    scheme = classical(Format(*sizes), Ring.F2)
    region = neighbourhood(scheme, np.random.default_rng(seed))
    assert scheme.rank / 3 - 1 <= len(region) <= scheme.rank / 2 + 1 and len(set(region.tolist())) == len(region)
    shared = neighbours(scheme)[np.ix_(region, region)]
    reached = shared[0]
    for _ in region:
        reached = shared[reached].any(axis=0)
    assert reached.all()


def test_at_a_seam_the_new_terms_move_and_those_that_touch_them():
    joined = concatenate(classical(Format(2, 2, 1), Ring.F2), strassen(Ring.F2), "n")
    moving = set(seam(joined, 4).tolist())
    shared = neighbours(joined)
    assert {0, 1, 2, 3} < moving < set(range(11))
    assert moving == {term for term in range(11) if shared[term, :4].any()}


def climbing(seed=7):
    """A ladder whose top is restarted in every round until the start kinds with terms that stand still have come."""
    ladder = build(Format(4, 4, 5), Goal(Ring.F2, "F2"), seed, 6, {"plus_interval": 1_000, "restart": 4_000}, (), True)
    seen = set()
    for _ in range(40):
        for rung in ladder:
            for index, walk in enumerate(rung.walks):
                advance(walk, 2_000, 0, rung.policy(index))
        merge(ladder, seed, 10**9, anything)
        seen |= {int(kind) for walk, kind in zip(ladder[-1].walks, ladder[-1].kind, strict=True) if walk.standing}
        if seen == {SEAM, NEIGHBOURHOOD} and any(walk.standing for walk in ladder[-1].walks):
            break
    assert seen == {SEAM, NEIGHBOURHOOD}
    return ladder


def test_walks_start_with_a_part_and_are_released_when_it_stagnates():
    ladder = climbing()
    top = ladder[-1]
    held = [index for index, walk in enumerate(top.walks) if walk.standing]
    before = {index: (top.walks[index].lowest_rank, int(top.restarts[index])) for index in held}
    for index in held:
        top.walks[index].counters[STUCK] = 1
    merge(ladder, 7, 10**9, anything)
    for index in held:
        walk = top.walks[index]
        assert not walk.standing and (walk.lowest_rank, int(top.restarts[index])) == before[index]
        assert is_exact(lowest(walk))


def test_checkpoints_and_parcels_carry_the_terms_that_stand_still():
    ladder, totals = climbing(), checkpoint.Totals()
    state = checkpoint.save(ladder, totals, Ring.F2, 7)
    again = build(Format(4, 4, 5), Goal(Ring.F2, "F2"), 7, 6, {"plus_interval": 1_000, "restart": 4_000}, (), True)
    checkpoint.restore(state, again, totals, Ring.F2, 7)
    for old, new in zip(ladder[-1].walks, again[-1].walks, strict=True):
        for copy in (new, unpack(pack(old))):
            assert isinstance(copy, Walk) and all(np.array_equal(getattr(old, n), getattr(copy, n)) for n in ARRAYS)
        assert is_exact(lowest(new))
    held = next(index for index, walk in enumerate(ladder[-1].walks) if walk.standing)
    name = f"{len(ladder) - 1}/{held}/fixed"
    with pytest.raises(ValueError, match="damaged"):
        checkpoint.restore({**state, name: state[name][:-1]}, again, totals, Ring.F2, 7)
