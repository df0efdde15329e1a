"""Walks on orbits of the shift with a transpose: exact, invariant, and the same however they are cut into calls."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron, rotate
from catalog.verify import is_exact
from search.campaign import run
from search.config import Config
from search.events import Checkpoint, Found
from search.walks.blocks import ARRAYS, Walk, advance, begin, lowest
from search.walks.counters import ACTIVE, BEST, FLIPS, RANK, STEPS
from search.walks.orbits import anti_transposed, decompose, expand, rows_of, standard, transposed
from search.walks.policies import Policy
from search.walks.symmetry import Symmetry, portfolio, symmetry_for
from tests.fuzzing import examples

POLICY = Policy(plus_interval=40, margin=2, restart=1)
IMAGE = {"Z3T": transposed, "Z3A": anti_transposed}


@st.composite
def starts(draw):
    """A group, a size and a diagonal that the group keeps."""
    group, n = draw(st.sampled_from(["Z3T", "Z3A"])), draw(st.integers(2, 5))
    if group == "Z3A":
        return group, n, draw(st.sampled_from(sum((portfolio(n, target, group) for target in range(3)), ())))
    labels = [draw(st.integers(0, n - 1)) for _ in range(n)]
    return group, n, tuple(tuple(i for i in range(n) if labels[i] == label) for label in sorted(set(labels)))


def rows(walk: Walk) -> np.ndarray:
    count = walk.rows(int(walk.counters[RANK]), walk.sign)
    return walk.value[: 4 * count].reshape(-1, 4)


def current(walk: Walk) -> Scheme:
    return expand(walk.format.n, rows(walk)[:, :3], walk.sign[walk.sign != 0])


def terms(scheme: Scheme) -> set[tuple[int, int, int]]:
    orbits, cubes = decompose(scheme)
    turns = {(int(t[s]), int(t[s - 2]), int(t[s - 1])) for t in orbits for s in range(3)}
    return turns | {(int(x),) * 3 for x in cubes}


def invariant(scheme: Scheme, group: str) -> bool:
    """Whether shift and transpose map the set of terms to itself, by brute force."""
    one, other = (sorted(column.tobytes() for column in np.concatenate(s.factors).T) for s in (scheme, rotate(scheme)))
    images = {tuple(IMAGE[group](mask, scheme.n) for mask in term[::-1]) for term in terms(scheme)}
    return one == other and images == terms(scheme)


def table_is_true(walk: Walk) -> bool:
    """Whether the active slots are those that share their factor with another one."""
    factors = {4 * row + place: int(f) for row, entry in enumerate(rows(walk)) for place, f in enumerate(entry[:3])}
    counts = list(factors.values())
    return {slot for slot, f in factors.items() if counts.count(f) > 1} == set(
        walk.active[: walk.counters[ACTIVE]].tolist()
    )


@examples(40)
@given(starts(), st.integers(0, 1 << 70), st.integers(1, 600))
def test_every_move_keeps_the_scheme_exact_invariant_and_the_table_true(start, seed, pause):
    group, n, diagonal = start
    walk = begin(standard(n, diagonal), seed, symmetry=group)
    for _ in range(6):
        advance(walk, pause, 0, POLICY)
        for seen, counter in ((current(walk), RANK), (lowest(walk), BEST)):
            assert is_exact(seen) and seen.rank == walk.counters[counter] and invariant(seen, group)
        assert walk.is_sound and table_is_true(walk)
        pairs = (rows(walk)[:, 3] // 4).astype(int)
        for row, pair in enumerate(pairs):
            image = [IMAGE[group](int(mask), n) for mask in rows(walk)[pair, 2::-1]]
            assert image == rows(walk)[row, :3].tolist()


@pytest.mark.parametrize("group", ["Z3T", "Z3A"])
@pytest.mark.parametrize("n", [3, 4, 6, 8])
def test_long_walks_stay_exact_through_plus_exchanges_and_reductions(group, n):
    walk = begin(standard(n, portfolio(n, 2, group)[0]), 3, symmetry=group)
    kinds = set()
    for _ in range(20):
        advance(walk, 10_000, 0, Policy(300, 2, 1))
        own = np.arange(len(rows(walk))) * 4 == rows(walk)[:, 3]
        kinds.add((len(own) - int(own.sum()), int(own.sum())))
    assert is_exact(current(walk)) and invariant(current(walk), group) and invariant(lowest(walk), group)
    assert len(kinds) > 1  # orbits of six and of three come and go
    assert walk.counters[STEPS] == 200_000 and 0 < walk.counters[FLIPS] <= 200_000


@examples(20)
@given(starts(), st.integers(0, 1 << 32), st.lists(st.integers(1, 700), max_size=6), st.booleans())
def test_a_walk_cut_into_calls_is_the_same_walk(start, seed, cuts, even):
    group, n, diagonal = start
    cuts = [256 * (cut // 256 + 1) for cut in cuts] if even else cuts  # exchanges stand at multiples of 256 steps
    whole, parts = (begin(standard(n, diagonal), seed, symmetry=group) for _ in range(2))
    advance(whole, sum(cuts) + 500, 0, POLICY)
    for steps in [*cuts, 500]:
        advance(parts, steps, 0, POLICY)
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


@pytest.mark.parametrize(("group", "n", "rank"), [("Z3T", 2, 7), ("Z3A", 2, 7), ("Z3T", 3, 23), ("Z3A", 4, 49)])
def test_good_ranks_are_reached(group, n, rank):
    symmetry = Symmetry(portfolio(n, rank, group), group)
    config = Config(Format(n, n, n), "F2", rank, steps=60_000_000, seed=1, symmetry=symmetry)
    events = list(run(config))
    assert events[-1].status == "found" and events[-1].rank == rank
    found = [event.scheme for event in events if isinstance(event, Found)]
    assert is_exact(found[-1]) and found[-1].rank == rank and invariant(found[-1], group)


def test_resuming_continues_a_run_and_another_symmetry_is_refused():
    symmetry = Symmetry(portfolio(4, 1, "Z3A"), "Z3A")
    config = Config(Format(4, 4, 4), "F2", 1, steps=2_000_001, seed=7, restart=100_000, symmetry=symmetry)
    whole = [event for event in run(config) if isinstance(event, Checkpoint)][-1].state
    half = [e for e in run(dataclasses.replace(config, steps=834_567)) if isinstance(e, Checkpoint)][-1].state
    resumed = [event for event in run(config, resume=half) if isinstance(event, Checkpoint)][-1].state
    assert [k for k in whole if k != "seconds" and not np.array_equal(whole[k], resumed[k])] == []
    with pytest.raises(ValueError, match="resume it as it was started"):
        run(dataclasses.replace(config, symmetry=Symmetry(symmetry.diagonals, "Z3T")), resume=half)
    damaged = {**half, "0/0/value": half["0/0/value"] + np.uint64(4)}
    with pytest.raises(ValueError, match="the checkpoint is damaged"):
        run(config, resume=damaged)


def test_degenerate_orbits_collapse():
    """An orbit of six of a(x)b(x)a^T is one of three; with b = b^T its two halves cancel; equal factors are cubes."""
    base = standard(3, ((0,), (1,), (2,)))
    a, b, symmetric = 0b1101, 0b10, 0b1010
    for (left, middle, right), added in (
        ((a, b, transposed(a, 3)), 3),
        ((a, symmetric, transposed(a, 3)), 0),
        ((a, a, a), 2),
        ((symmetric, symmetric, symmetric), 0),
    ):
        walk = begin(base, 1, symmetry="Z3T")
        count = len(rows(walk))
        pair = [transposed(mask, 3) for mask in (right, middle, left)]
        walk.value[4 * count : 4 * count + 8] = [left, middle, right, 4 * count + 4, *pair, 4 * count]
        walk.counters[RANK] += 6
        advance(walk, 0, 0, POLICY)
        assert walk.counters[RANK] == base.rank + added
        # The walk has the orbit in excess: expanded, together with the six, it is the standard algorithm again.
        six = expand(3, np.array([[left, middle, right], pair], np.uint64), np.zeros(0, np.uint64))
        both = [np.concatenate(pair, axis=1) for pair in zip(current(walk).factors, six.factors, strict=True)]
        assert is_exact(Scheme(base.format, Ring.F2, *both))


def test_starts_without_the_symmetry_are_refused():
    product = kron(strassen(Ring.F2), strassen(Ring.F2))
    assert is_exact(product) and len(rows_of(product, "Z3")[0]) == 16
    walk = begin(standard(3, ((0, 1), (2,))), 1, symmetry="Z3")
    advance(walk, 10_000, 0, Policy(500, 2, 1))
    for group in ("Z3T", "Z3A"):
        with pytest.raises(ValueError, match="is not invariant under the transpose"):
            begin(lowest(walk), 1, symmetry=group)
    with pytest.raises(ValueError, match="unknown symmetry 'Z4'; choose Z3"):
        symmetry_for(Format(3, 3, 3), 23, None, "Z4")
    with pytest.raises(ValueError, match="not the same read backwards"):
        symmetry_for(Format(3, 3, 3), 23, "110,001", "Z3A")
    assert symmetry_for(Format(3, 3, 3), 23, "101,010", "Z3A").diagonals == (((0, 2), (1,)),)


@pytest.mark.parametrize("n", range(1, 9))
def test_the_portfolio_of_the_other_diagonal_is_a_partition_that_reads_the_same_backwards(n):
    for target in range(3):
        for diagonal in portfolio(n, target, "Z3A"):
            assert sorted(i for part in diagonal for i in part) == list(range(n)) and all(diagonal)
            assert {tuple(sorted(n - 1 - i for i in part)) for part in diagonal} == set(diagonal)
            assert n < 3 or (len(diagonal) - target) % 3 == 0


@pytest.mark.parametrize("group", ["Z3", "Z3T", "Z3A"])
@pytest.mark.parametrize(("n", "target", "rank"), [(4, 47, 56), (5, 93, None), (6, 153, 189)])
def test_even_sizes_start_from_products_with_strassen_too(group, n, target, rank):
    symmetry = symmetry_for(Format(n, n, n), target, None, group)
    schemes = [symmetry.start(n, turn) for turn in range(len(symmetry.diagonals) + len(symmetry.halves))]
    for scheme in schemes:
        assert is_exact(scheme) and invariant(scheme, group if group != "Z3" else "Z3T")
    assert bool(symmetry.halves) == (n % 2 == 0)
    assert rank is None or rank in {scheme.rank for scheme in schemes}
    diagonal = ",".join("0" * i + "1" + "0" * (n - 1 - i) for i in range(n))
    assert symmetry_for(Format(n, n, n), target, diagonal, group).halves == ()


def test_a_product_with_strassen_leads_to_162_at_6x6x6():
    walk = begin(symmetry_for(Format(6, 6, 6), 153, None).start(6, 2), 1, symmetry="Z3")
    advance(walk, 5_000_000, 162, Policy(20_000, 1, 1))
    assert walk.counters[BEST] == 162 and is_exact(lowest(walk))
