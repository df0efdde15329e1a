"""Moves between the flips, over every ring: plus transitions, splits, full reductions."""

import importlib
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from catalog.verify import is_exact
from search.walks.blocks import Walk, advance, begin, to_scheme
from search.walks.counters import ACTIVE, PLUS_LEFT, RANK
from search.walks.policies import Policy
from tests.fuzzing import examples

RINGS = {Ring.F2: "f2", Ring.F3: "f3", Ring.Z: "zt"}
POLICY = Policy(plus_interval=40, margin=3, restart=1)
FORMATS = ((1, 2, 3), (2, 2, 2), (2, 3, 4), (4, 2, 3), (3, 3, 2))


def standing_at(scheme: Scheme, seed: int = 1, steps: int = 0) -> Walk:
    """A walk whose table is in order."""
    walk = begin(scheme, seed)
    advance(walk, steps, 0, POLICY)
    return walk


def current(walk: Walk) -> Scheme:
    end = 4 * int(walk.counters[RANK])
    return to_scheme(walk.format, walk.ring, walk.value[:end], walk.sign[:end])


def tensor(scheme: Scheme) -> np.ndarray:
    whole = np.einsum("ar,br,cr->abc", *(factor.astype(np.int64) for factor in scheme.factors))
    return whole % scheme.ring.modulus if scheme.ring.modulus else whole


def do(move: str, walk: Walk, seed: int | None = None) -> int:
    """Make a move in place; by how much the rank grew."""
    name = f"{move}_{RINGS[walk.ring]}"
    kernel = getattr(importlib.import_module(f"search.walks.rare_{RINGS[walk.ring]}"), name)
    rank = np.uint64(walk.counters[RANK])
    masks = (walk.value,) if walk.ring is Ring.F2 else (walk.value, walk.sign)
    table = () if move == "plus" else (walk.links, walk.active, np.uint64(walk.counters[ACTIVE]))
    state = () if seed is None else (np.uint64(seed),)
    found = kernel(*masks, *table, rank, *state)
    new = int(found[0] if state else found)
    walk.counters[RANK], walk.counters[ACTIVE] = new, -1
    return new - int(rank)


@examples(40)
@given(
    st.sampled_from(["plus", "split"]),
    st.sampled_from(FORMATS),
    st.sampled_from(list(RINGS)),
    st.integers(1, 1 << 60),
    st.integers(0, 400),
)
def test_plus_and_split_add_one_product_and_stay_exact(move, sizes, ring, seed, steps):
    walk = standing_at(classical(Format(*sizes), ring), seed, steps)
    assume(walk.counters[ACTIVE] > 0)
    before = current(walk)
    grown = do(move, walk, seed)
    after = current(walk)
    assert grown in (0, 1) and is_exact(after) and after.rank == before.rank + grown
    assert after.is_ternary or ring is not Ring.Z
    assert all(factor.any(axis=0).all() for factor in after.factors)
    if not grown:
        assert all(np.array_equal(a, b) for a, b in zip(before.factors, after.factors, strict=True))


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("move", ["plus", "split"])
def test_from_the_standard_algorithm_plus_and_split_find_a_place(move, ring):
    walks = [standing_at(classical(Format(3, 2, 4), ring)) for _ in range(20)]
    assert [do(move, walk, seed) for seed, walk in enumerate(walks, 1)] == [1] * 20


@pytest.mark.parametrize("ring", RINGS)
def test_a_split_leaves_two_terms_that_a_plus_would_not(ring):
    walk = standing_at(classical(Format(2, 2, 2), ring))
    before = {term(current(walk), i) for i in range(8)}
    do("split", walk, 5)
    after = current(walk)
    # Two terms have lost a part of one factor, the third has taken the parts up; the others are as they were.
    assert len(before & {term(after, i) for i in range(9)}) == 6


@pytest.mark.parametrize(("ring", "signs"), [(Ring.F2, 1), (Ring.F3, 2), (Ring.Z, 4)])
def test_a_plus_occurs_in_all_six_orders_of_the_modes(ring, signs):
    ends = Scheme(Format(2, 2, 2), ring, *(np.eye(4, dtype=np.int64)[:, :2] for _ in range(3)))
    seen = set()
    for seed in range(1, 600):
        walk = standing_at(ends)
        assert do("plus", walk, seed * 0x9E3779B97F4A7C15 % (1 << 64)) == 1
        assert np.array_equal(tensor(current(walk)), tensor(ends))
        seen.add(frozenset(term(current(walk), i) for i in range(3)))
    orders = {frozenset(support(name) for name in found) for found in seen}
    assert len(orders) == 6 and len(seen) == 6 * signs


def term(scheme: Scheme, index: int) -> bytes:
    """A rank-one term, whatever the signs of its factors."""
    whole = np.einsum("a,b,c->abc", *(factor[:, index].astype(np.int64) for factor in scheme.factors))
    return (whole % scheme.ring.modulus if scheme.ring.modulus else whole).tobytes()


def support(name: bytes) -> bytes:
    return (np.frombuffer(name, np.int64) != 0).tobytes()


def planted(ring, mode, ys, zs, signs):
    """Terms that share a factor in one mode, with given factors in the next two, times signs."""
    count = len(signs)
    factors = [np.zeros((9, count), np.int64) for _ in range(3)]
    factors[mode][[1, 4]] = np.array([[1], [-1 if ring is not Ring.F2 else 1]])
    factors[(mode + 1) % 3][:] = np.array(ys).T
    factors[(mode + 2) % 3][:] = np.array(zs).T * np.array(signs)
    modulus = ring.modulus
    return Scheme(Format(3, 3, 3), ring, *(factor % modulus if modulus else factor for factor in factors))


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("size", [3, 4])
@examples(20)
@given(data=st.data())
def test_a_planted_dependence_is_reduced(ring, size, data):
    mode, turned = data.draw(st.integers(0, 2)), data.draw(st.booleans())
    signs = data.draw(st.lists(st.sampled_from([1, -1]), min_size=size, max_size=size))
    weights = data.draw(st.lists(st.sampled_from([1, -1]), min_size=size - 1, max_size=size - 1))
    ys = np.zeros((size, 9), np.int64)
    ys[np.arange(size - 1), data.draw(st.permutations(range(9)))[: size - 1]] = 1
    ys[-1] = np.array(weights) @ ys[:-1]
    zs = np.eye(9, dtype=np.int64)[data.draw(st.permutations(range(9)))[:size]]
    order = data.draw(st.permutations(range(size)))
    pair = (zs[order], ys[order]) if turned else (ys[order], zs[order])
    walk = standing_at(planted(ring, mode, *pair, signs))
    before = tensor(current(walk))
    assert walk.counters[RANK] == size and do("reduce", walk) == -1
    assert np.array_equal(tensor(current(walk)), before)
    advance(walk, 0, 0, POLICY)
    assert walk.counters[RANK] == size - 1 and np.array_equal(tensor(current(walk)), before)
    assert do("reduce", walk) == 0


@examples(150)
@given(st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=3, max_size=3))
def test_over_z_a_dependence_is_used_just_when_its_results_are_ternary(zs):
    zs = np.pad(np.array(zs), ((0, 0), (0, 6)))
    ys = np.array([[1, 0], [0, 1], [-1, -1]]) @ np.eye(9, dtype=np.int64)[:2]
    scheme = planted(Ring.Z, 0, ys, zs, [1, 1, 1])
    walk = standing_at(scheme)
    assume(walk.counters[RANK] == 3 and zs.any(axis=1).all())
    # The third factors must be independent, or they would be reduced along.
    assume(all(np.array(h) @ zs @ (0.0 + zs.T @ np.array(h)) for h in product((-1, 0, 1), repeat=3) if any(h)))
    fits = any(np.abs(zs - zs[gone])[[i for i in range(3) if i != gone]].max() <= 1 for gone in range(3))
    assert do("reduce", walk) == -int(fits)
    assert np.array_equal(tensor(current(walk)), tensor(scheme)) and current(walk).is_ternary


def test_a_dependence_modulo_3_alone_is_one_over_f3_but_not_over_z():
    ys = np.zeros((3, 9), np.int64)
    ys[:, :2] = [[1, 1], [1, -1], [1, 0]]  # their sum is (3, 0)
    zs = np.eye(9, dtype=np.int64)[:3]
    assert do("reduce", standing_at(planted(Ring.Z, 0, ys, zs, [1, -1, 1]))) == 0
    assert do("reduce", standing_at(planted(Ring.F3, 0, ys, zs, [1, -1, 1]))) == -1


@pytest.mark.parametrize("ring", RINGS)
def test_nothing_is_reduced_where_nothing_depends(ring):
    walk = standing_at(classical(Format(3, 4, 2), ring))
    assert do("reduce", walk) == 0 and is_exact(current(walk))


@pytest.mark.parametrize("ring", RINGS)
def test_a_walk_looks_for_reductions_if_its_policy_says_so(ring):
    ys = np.zeros((4, 9), np.int64)
    ys[:3, :3] = np.eye(3)
    ys[3, :3] = 1
    scheme = planted(ring, 0, ys, np.eye(9, dtype=np.int64)[:4], [1] * 4)
    hits = []
    for reduce in (True, False):
        walks = [standing_at(scheme, seed) for seed in range(10)]
        for walk in walks:
            walk.counters[PLUS_LEFT] = 0  # flips could lead to coefficients beyond 1 and -1
            advance(walk, 1, 3, Policy(plus_interval=1, margin=0, restart=1, reduce=reduce))
        hits.append(sum(walk.counters[RANK] == 3 for walk in walks))
    assert hits[0] == 10 > hits[1]


@pytest.mark.parametrize("ring", RINGS)
def test_a_walk_splits_as_often_as_its_policy_says(ring):
    ends = []
    for split in (0.0, 0.5, 1.0):
        walk = standing_at(classical(Format(3, 3, 3), ring))
        advance(walk, 2_000, 0, Policy(plus_interval=100, margin=3, restart=1, split=split))
        assert is_exact(current(walk))
        ends.append(walk.value.tobytes())
    assert len(set(ends)) == 3
