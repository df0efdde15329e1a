"""Every move keeps the scheme exact, and a walk is the same however it is cut into calls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate
from catalog.verify import is_exact
from search.walks.blocks import ARRAYS, Walk, advance, begin, lowest, to_masks, to_scheme
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, RANK, STEPS, STUCK
from search.walks.policies import Policy
from tests.fuzzing import examples

RINGS = (Ring.F2, Ring.F3, Ring.Z)
FORMATS = ((1, 1, 3), (1, 2, 3), (2, 2, 2), (2, 3, 4), (4, 2, 3), (3, 3, 2), (3, 4, 5))
POLICY = Policy(plus_interval=40, margin=3, restart=1, split=0.25)


def current(walk: Walk) -> Scheme:
    end = 4 * int(walk.counters[RANK])
    return to_scheme(walk.format, walk.ring, walk.value[:end], walk.sign[:end])


def equal_slots(walk: Walk) -> set[int]:
    """Slots that share their factor with another one, by brute force."""
    count = 4 * int(walk.counters[RANK])
    keys = [(slot % 4, int(walk.value[slot]), int(walk.sign[slot])) for slot in range(count)]
    return {slot for slot, key in enumerate(keys) if slot % 4 != 3 and keys.count(key) > 1}


@examples(30)
@given(
    sizes=st.sampled_from(FORMATS), ring=st.sampled_from(RINGS), seed=st.integers(0, 1 << 70), pause=st.integers(1, 300)
)
def test_every_move_keeps_the_scheme_exact_and_the_table_true(sizes, ring, seed, pause):
    format = Format(*sizes)
    walk = begin(classical(format, ring), seed)
    for _ in range(12):
        advance(walk, pause, 0, POLICY)
        assert is_exact(current(walk))
        assert is_exact(lowest(walk))
        assert lowest(walk).rank == walk.counters[BEST] <= format.volume
        assert current(walk).is_ternary or ring is not Ring.Z
        assert set(walk.active[: walk.counters[ACTIVE]].tolist()) == equal_slots(walk)


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 4, 3), (5, 5, 5)])
def test_long_walks_stay_exact_through_plus_and_reductions(ring, sizes):
    walk = begin(classical(Format(*sizes), ring), 3)
    ranks = {Format(*sizes).volume}
    for _ in range(20):
        advance(walk, 5_000, 0, Policy(300, 2, 1))
        ranks.add(int(walk.counters[RANK]))
    assert is_exact(current(walk)) and is_exact(lowest(walk))
    assert len(ranks) > 1 or sizes == (2, 2, 2)
    assert walk.counters[STEPS] == 100_000 and 0 < walk.counters[FLIPS] <= 100_000


@pytest.mark.parametrize("ring", RINGS)
@examples(20)
@given(sizes=st.sampled_from(FORMATS), seed=st.integers(0, 1 << 32), cuts=st.lists(st.integers(1, 700), max_size=6))
def test_a_walk_cut_into_calls_is_the_same_walk(ring, sizes, seed, cuts):
    whole, parts = (begin(classical(Format(*sizes), ring), seed) for _ in range(2))
    advance(whole, sum(cuts) + 500, 0, POLICY)
    for steps in [*cuts, 500]:
        advance(parts, steps, 0, POLICY)
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    for walk in (whole, parts):
        assert is_exact(lowest(walk)) and lowest(walk).rank == walk.counters[BEST]


@pytest.mark.parametrize(("ring", "steps"), [(Ring.F2, 2_000_000), (Ring.F3, 5_000_000), (Ring.Z, 5_000_000)])
def test_a_walk_stops_at_its_target(ring, steps):
    walk = begin(classical(Format(2, 2, 2), ring), 1)
    advance(walk, steps, 7, Policy(10_000, 1, 1))
    assert walk.counters[RANK] == walk.counters[BEST] == 7
    assert walk.counters[STEPS] == walk.counters[BEST_AT] < steps
    assert is_exact(lowest(walk))


@pytest.mark.parametrize("ring", RINGS)
def test_a_redundant_start_is_reduced_at_once(ring):
    doubled = Scheme((2, 2, 2), ring, *(np.repeat(f, 2, axis=1) for f in strassen(ring).factors))
    # Every product twice over: over F2 they cancel, over F3 twice is minus once, over Z they would need a 2.
    walk = begin(doubled, 1)
    advance(walk, 0, 0, POLICY)
    assert walk.counters[RANK] == {Ring.F2: 0, Ring.F3: 7, Ring.Z: 14}[ring]


@pytest.mark.parametrize("ring", [Ring.F3, Ring.Z])
def test_opposite_terms_cancel(ring):
    base = strassen(ring)
    u, v, w = (np.concatenate([f, f[:, :1], f[:, :1]], axis=1) for f in base.factors)
    u[:, -1] *= -1
    walk = begin(Scheme(base.format, ring, u, v, w), 1)
    advance(walk, 0, 0, POLICY)
    assert is_exact(current(walk)) and walk.counters[RANK] == 7


@pytest.mark.parametrize("ring", RINGS)
def test_a_walk_without_any_move_is_stuck(ring):
    walk = begin(classical(Format(1, 1, 1), ring), 1)
    advance(walk, 1_000, 0, POLICY)
    assert walk.counters[STUCK] == 1 and walk.counters[STEPS] == 0


@pytest.mark.parametrize("ring", RINGS)
def test_masks_and_schemes_are_inverse(ring):
    scheme = concatenate(strassen(ring), classical(Format(2, 3, 2), ring), "k")
    value, sign = to_masks(scheme)
    again = to_scheme(scheme.format, ring, value, sign)
    assert all(np.array_equal(a, b) for a, b in zip(scheme.factors, again.factors, strict=True))


def test_factors_of_64_bits_are_walked_and_larger_ones_refused():
    walk = begin(classical(Format(8, 8, 8), Ring.F2), 1)
    advance(walk, 2_000, 0, POLICY)
    assert is_exact(current(walk))
    with pytest.raises(ValueError, match="format 13x5x2 has 65 blocks in A"):
        begin(classical(Format(13, 5, 2), Ring.F2), 1)


def test_other_coefficients_are_refused():
    doubled = Scheme((1, 1, 1), Ring.Q, [[2]], [[1]], [[1]], denominators=(2, 1, 1))
    with pytest.raises(ValueError, match="neither over F2 or F3 nor ternary"):
        begin(doubled, 1)
