"""Walks on orbits keep the scheme exact and invariant, and are the same however they are cut into calls."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import digest
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import rotate
from catalog.verify import is_exact
from search.campaign import run
from search.config import Config
from search.events import Checkpoint, Done, Found
from search.walks.blocks import ARRAYS, Walk, advance, begin, lowest
from search.walks.counters import ACTIVE, BEST, BEST_AT, FLIPS, RANK, STEPS, STUCK
from search.walks.orbits import decompose, expand, standard
from search.walks.policies import Policy
from search.walks.symmetry import Symmetry, parse_diagonal, portfolio
from tests.fuzzing import examples

POLICY = Policy(plus_interval=40, margin=2, restart=1)


@st.composite
def diagonals(draw):
    """A size and a set partition of its indices."""
    n = draw(st.integers(2, 5))
    labels = [draw(st.integers(0, n - 1)) for _ in range(n)]
    return n, tuple(tuple(i for i in range(n) if labels[i] == label) for label in sorted(set(labels)))


def current(walk: Walk) -> Scheme:
    cubes = walk.sign[walk.sign != 0]
    rows = walk.rows(int(walk.counters[RANK]), walk.sign)
    return expand(walk.format.n, walk.value[: 4 * rows].reshape(-1, 4)[:, :3], cubes)


def equal_slots(walk: Walk) -> set[int]:
    """Slots that share their factor with another one, by brute force."""
    rows = walk.rows(int(walk.counters[RANK]), walk.sign)
    factors = {slot: int(walk.value[slot]) for slot in range(4 * rows) if slot % 4 != 3}
    return {slot for slot, factor in factors.items() if list(factors.values()).count(factor) > 1}


def reducible(walk: Walk) -> bool:
    """Whether an orbit is zero or a cube, or two orbits agree in two places in some turn."""
    rows = walk.rows(int(walk.counters[RANK]), walk.sign)
    orbits = [tuple(int(f) for f in walk.value[4 * row : 4 * row + 3]) for row in range(rows)]
    pairs = (
        sum(a == b for a, b in zip(one, other[turn:] + other[:turn], strict=True))
        for index, one in enumerate(orbits)
        for other in orbits[:index]
        for turn in range(3)
    )
    return any(0 in orbit or len(set(orbit)) == 1 for orbit in orbits) or any(equal > 1 for equal in pairs)


def invariant(scheme: Scheme) -> bool:
    """Whether the cyclic role permutation maps the set of terms to itself."""
    one, other = (sorted(column.tobytes() for column in np.concatenate(s.factors).T) for s in (scheme, rotate(scheme)))
    return one == other


@examples(30)
@given(diagonals(), st.integers(0, 1 << 70), st.integers(1, 300))
def test_every_move_keeps_the_scheme_exact_and_the_table_true(start, seed, pause):
    n, diagonal = start
    scheme = standard(n, diagonal)
    assert is_exact(scheme) and invariant(scheme)
    walk = begin(scheme, seed, symmetry="Z3")
    for _ in range(6):
        advance(walk, pause, 0, POLICY)
        for seen, counter in ((current(walk), RANK), (lowest(walk), BEST)):
            assert is_exact(seen) and invariant(seen) and seen.rank == walk.counters[counter]
        assert (walk.counters[RANK] - len(diagonal)) % 3 == 0 or n < 5
        assert set(walk.active[: walk.counters[ACTIVE]].tolist()) == equal_slots(walk)
        assert walk.is_sound and not reducible(walk)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8])
def test_long_walks_stay_exact_through_plus_and_reductions(n):
    walk = begin(standard(n, ((0, 1), *((i,) for i in range(2, n)))), 3, symmetry="Z3")
    ranks = set()
    for _ in range(20):
        advance(walk, 10_000, 0, Policy(300, 2, 1))
        ranks.add(int(walk.counters[RANK]))
    assert is_exact(current(walk)) and is_exact(lowest(walk)) and invariant(lowest(walk))
    assert len(ranks) > 1
    assert walk.counters[STEPS] == 200_000 and 100_000 < walk.counters[FLIPS] <= 200_000


@examples(20)
@given(diagonals(), st.integers(0, 1 << 32), st.lists(st.integers(1, 700), max_size=6))
def test_a_walk_cut_into_calls_is_the_same_walk(start, seed, cuts):
    whole, parts = (begin(standard(*start), seed, symmetry="Z3") for _ in range(2))
    advance(whole, sum(cuts) + 500, 0, POLICY)
    for steps in [*cuts, 500]:
        advance(parts, steps, 0, POLICY)
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


@pytest.mark.parametrize(("n", "rank"), [(2, 7), (3, 23)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_best_known_ranks_are_reached(n, rank, seed):
    config = Config(Format(n, n, n), "F2", rank, steps=20_000_000, seed=seed, symmetry=Symmetry(portfolio(n, rank)))
    events = list(run(config))
    assert events[-1].status == "found" and events[-1].rank == rank
    for event in events:
        if isinstance(event, Found):
            assert is_exact(event.scheme) and invariant(event.scheme) and event.scheme.rank == event.rank


def test_a_walk_stops_at_its_target():
    walk = begin(standard(2, ((0, 1),)), 1, symmetry="Z3")
    advance(walk, 2_000_000, 7, Policy(1_000, 1, 1))
    assert walk.counters[RANK] == walk.counters[BEST] == lowest(walk).rank == 7
    assert walk.counters[STEPS] == walk.counters[BEST_AT] < 2_000_000


def test_steps_give_the_same_run_for_any_number_of_workers_and_resuming_continues_it():
    symmetry = Symmetry(portfolio(4, 49))
    config = Config(Format(4, 4, 4), "F2", 1, steps=3_000_001, seed=7, restart=100_000, symmetry=symmetry)
    ends = []
    for workers in (1, 3):
        events = list(run(dataclasses.replace(config, workers=workers)))
        ends.append([event for event in events if isinstance(event, Checkpoint)][-1].state)
    half = [e for e in run(dataclasses.replace(config, steps=1_234_567)) if isinstance(e, Checkpoint)][-1].state
    events = list(run(config, resume=half))
    ends.append([event for event in events if isinstance(event, Checkpoint)][-1].state)
    assert isinstance(events[-1], Done) and events[-1].steps == 3_000_001
    for other in ends[1:]:
        assert ends[0].keys() == other.keys()
        assert [k for k in other if k != "seconds" and not np.array_equal(ends[0][k], other[k])] == []


def test_given_starts_are_extended_and_restarted_from():
    walk = begin(standard(3, ((0, 1, 2),)), 4, symmetry="Z3")
    advance(walk, 1_000_000, 25, Policy(1_000, 2, 1))
    start = lowest(walk)
    assert start.rank == 25
    symmetry = Symmetry(portfolio(4, 47))
    config = Config(Format(4, 4, 4), "F2", 1, steps=4_000_000, seed=2, restart=20_000, symmetry=symmetry)
    events = list(run(config, starts=[start]))
    ranks = [event.rank for event in events if isinstance(event, Found)]
    # 25 and the standard algorithm's 64 - 27 for the new slices; two cubes, so that all ranks are 2 modulo 3.
    assert ranks[0] == 62 and ranks[-1] < 60 and all(rank % 3 == 2 for rank in ranks)
    state = [event for event in events if isinstance(event, Checkpoint)][-1].state
    assert state["0/restarts"].sum() > 0
    assert all((int(state[f"0/{index}/counters"][RANK]) - 2) % 3 == 0 for index in range(8))


def test_a_damaged_or_foreign_checkpoint_is_refused():
    config = Config(Format(3, 3, 3), "F2", 1, steps=10_000, symmetry=Symmetry(portfolio(3, 23)))
    state = [event for event in run(config) if isinstance(event, Checkpoint)][-1].state
    with pytest.raises(ValueError, match="resume it as it was started"):
        run(dataclasses.replace(config, symmetry=None), resume=state)
    for name, value in (("0/0/sign", 0), ("0/0/counters", 1 << 40), ("0/0/links", 1 << 30)):
        with pytest.raises(ValueError, match="the checkpoint is damaged"):
            run(config, resume={**state, name: np.full_like(state[name], value)[: len(state[name]) - (not value)]})


@examples(30)
@given(diagonals(), st.randoms(use_true_random=False))
def test_orbits_and_schemes_are_inverse(start, random):
    n, diagonal = start
    scheme = standard(n, diagonal)
    order = random.sample(range(scheme.rank), scheme.rank)
    mixed = Scheme(scheme.format, Ring.F2, *(factor[:, order] for factor in scheme.factors))
    assert digest(expand(n, *decompose(mixed))) == digest(scheme)
    assert len(decompose(mixed)[1]) == len(diagonal)


def test_terms_that_cancel_and_orbits_of_equal_factors():
    base = standard(2, ((0, 1),))
    doubled = Scheme(
        base.format,
        Ring.F2,
        *(
            np.concatenate([f, base_f[:, :1], base_f[:, :1]], axis=1)
            for f, base_f in zip(base.factors, base.factors, strict=True)
        ),
    )
    assert digest(expand(2, *decompose(doubled))) == digest(base)
    # Three times a cube is the cube over F2; a cube met twice is nothing.
    walk = begin(base, 1, symmetry="Z3")
    advance(walk, 0, 0, POLICY)
    base = current(walk)
    rank, rows = int(walk.counters[RANK]), walk.rows(int(walk.counters[RANK]), walk.sign)
    for factor, change in ((6, 1), (int(walk.sign[0]), -1)):
        walk = begin(base, 1, symmetry="Z3")
        walk.value[4 * rows : 4 * rows + 3] = factor
        walk.counters[RANK] += 3
        advance(walk, 0, 0, POLICY)
        assert walk.counters[RANK] == rank + change


def test_a_walk_without_any_move_is_stuck():
    walk = begin(classical(Format(1, 1, 1), Ring.F2), 1, symmetry="Z3")
    advance(walk, 1_000, 0, POLICY)
    assert walk.counters[STUCK] == 1 and walk.counters[STEPS] == 0


def test_starts_without_the_symmetry_are_refused():
    with pytest.raises(ValueError, match="is not invariant under the cyclic shift"):
        u, v, w = (factor.copy() for factor in strassen(Ring.F2).factors)
        begin(Scheme(Format(2, 2, 2), Ring.F2, u[:, ::-1], v, w), 1, symmetry="Z3")
    with pytest.raises(ValueError, match="format 2x2x3 is not square"):
        begin(classical(Format(2, 2, 3), Ring.F2), 1, symmetry="Z3")
    with pytest.raises(ValueError, match="is not over F2"):
        begin(strassen(), 1, symmetry="Z3")
    with pytest.raises(ValueError, match="need ring F2, not ZT"):
        Config(Format(2, 2, 2), "ZT", 7, steps=1, symmetry=Symmetry(portfolio(2, 7)))


def test_diagonals_are_read_and_nonsense_refused():
    assert parse_diagonal("10001,01010,00100", 5) == ((0, 4), (1, 3), (2,))
    assert is_exact(standard(3, parse_diagonal("110,101,111,010,001", 3)))
    for text, message in (
        ("110,01", "'01' is not a vector of 3 digits"),
        ("110,00x", "'00x' is not a vector"),
        ("110,000", "'000' is not a vector"),
        ("", "'' is not a vector"),
        ("110,011", "index 2 in 2 of its terms"),
        ("110", "index 3 in 0 of its terms"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_diagonal(text, 3)


@pytest.mark.parametrize(("n", "target"), [(2, 7), (3, 23), (4, 47), (4, 48), (5, 93), (6, 153), (8, 329)])
def test_the_portfolio_suits_the_target(n, target):
    found = portfolio(n, target)
    assert found and all((len(diagonal) - target) % 3 == 0 for diagonal in found)
    assert all(sorted(i for part in diagonal for i in part) == list(range(n)) for diagonal in found)
    assert len(set(found)) == len(found)


@examples(20)
@given(diagonals(), st.integers(0, 1 << 70), st.integers(1, 300))
def test_exchanges_of_orbits_and_cubes_keep_the_scheme_exact(start, seed, pause):
    walk = begin(standard(*start), seed, symmetry="Z3")
    policy = dataclasses.replace(POLICY, exchange=0.5)
    for _ in range(6):
        advance(walk, pause, 0, policy)
        for seen, counter in ((current(walk), RANK), (lowest(walk), BEST)):
            assert is_exact(seen) and invariant(seen) and seen.rank == walk.counters[counter]
        assert set(walk.active[: walk.counters[ACTIVE]].tolist()) == equal_slots(walk)
        assert walk.is_sound and not reducible(walk)
        assert np.unique(walk.sign[walk.sign != 0]).size == np.count_nonzero(walk.sign)


def test_exchanges_lead_to_ranks_that_flips_alone_do_not_meet():
    # From one cube flips, reductions and plus transitions meet ranks of 1 modulo 3 only.
    best = []
    for exchange in (0.0, 0.25):
        walk = begin(standard(3, ((0, 1, 2),)), 1, symmetry="Z3")
        advance(walk, 3_000_000, 23, Policy(1_000, 2, 1, exchange=exchange))
        best.append(walk.counters[BEST])
    assert best == [25, 23]


def test_a_walk_with_exchanges_cut_into_calls_is_the_same_walk():
    policy = dataclasses.replace(POLICY, exchange=0.3)
    whole, parts = (begin(standard(4, ((0, 1), (2,), (3,))), 5, symmetry="Z3") for _ in range(2))
    advance(whole, 10_000, 0, policy)
    for steps in (1, 39, 60, 400, 4_500, 5_000):
        advance(parts, steps, 0, policy)
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
