import itertools
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend, kron, orientations, reduce_mod
from catalog.verify import NotExactError, first_violation, is_exact
from search import events
from search.find import find
from search.games.tree import Found, play
from search.lifts import lifting
from search.lifts.lifting import lift
from search.query import Query
from search.walks.blocks import advance, begin, lowest
from search.walks.orbits import decompose
from search.walks.policies import Policy
from tests.fuzzing import examples

BASES = [
    strassen(Ring.F2),
    winograd(Ring.F2),
    classical(Format(1, 2, 3), Ring.F2),
    extend(strassen(Ring.F2), "n"),
    extend(extend(winograd(Ring.F2), "m"), "k"),
    concatenate(strassen(Ring.F2), winograd(Ring.F2), "k"),
    kron(winograd(Ring.F2), classical(Format(1, 1, 2), Ring.F2)),
]

ORDERS = list(itertools.permutations(range(3)))


def invertible(size: int, rng: np.random.Generator) -> np.ndarray:
    lower = np.tril(rng.integers(0, 2, (size, size)), -1) + np.eye(size, dtype=np.int64)
    upper = np.triu(rng.integers(0, 2, (size, size)), 1) + np.eye(size, dtype=np.int64)
    return lower[rng.permutation(size)] @ upper % 2


def flip_walk(format: Format, target: int, seed: int, steps: int = 2_000_000) -> Scheme:
    """A plain random walk in the flip graph with plus transitions, to have schemes without structure."""
    rng = random.Random(seed)
    start = classical(format, Ring.F2)
    weights = [1 << np.arange(len(f)) for f in start.factors]
    rows = [list(t) for t in zip(*((w @ f).tolist() for w, f in zip(weights, start.factors, strict=True)), strict=True)]
    best, last = len(rows), 0
    for step in range(steps):
        if len(rows) <= target:
            break
        p, q = rows[rng.randrange(len(rows))], rows[rng.randrange(len(rows))]
        x, y, z = rng.choice(ORDERS)
        if p is q:
            continue
        if p[x] == q[x]:
            p[y] ^= q[y]
            q[z] ^= p[z]
        elif step - last > 5_000 and len(rows) < best + 2:
            last = step
            rows.append([q[0], p[1] ^ q[1], p[2]])
            p[0] ^= q[0]
            q[2] ^= p[2]
        else:
            continue
        merged: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            key = (row[x], row[y])
            if key in merged:
                merged[key][z] ^= row[z]
            else:
                merged[key] = row
        rows = [row for row in merged.values() if all(row)]
        if len(rows) < best:
            best, last = len(rows), step
    factors = [
        np.array([[row[mode] >> i & 1 for row in rows] for i in range(len(f))]) for mode, f in enumerate(weights)
    ]
    return Scheme(format, Ring.F2, *factors)


def assert_lifts(scheme: Scheme, seed: int) -> Scheme:
    lifted = lift(scheme, seed=seed)
    assert lifted is not None
    assert lifted.ring is Ring.Z
    assert first_violation(lifted) is None
    for factor, original in zip(lifted.factors, scheme.factors, strict=True):
        np.testing.assert_array_equal(factor & 1, original)
    return lifted


@examples(30)
@given(base=st.sampled_from(BASES), turn=st.integers(0, 5), seed=st.integers(0, 2**32))
def test_sandwiched_schemes_lift_to_z(base, turn, seed):
    rng = np.random.default_rng(seed)
    scheme = orientations(base)[turn]
    scheme = sandwich(scheme, *(invertible(size, rng) for size in scheme.format))
    assert_lifts(scheme, seed)


@examples(15)
@given(format=st.sampled_from([Format(2, 3, 4), Format(3, 3, 3), Format(3, 3, 4)]), seed=st.integers(0, 2**32))
def test_sandwiched_standard_algorithms_lift_to_z(format, seed):
    # Far above the least rank the free unknowns are many, and most choices of them have no small limit.
    rng = np.random.default_rng(seed)
    base = classical(format, Ring.F2)
    assert_lifts(sandwich(base, *(invertible(size, rng) for size in format)), seed)


def test_products_of_strassens_scheme_lift_to_ternary_ones():
    for left, right in itertools.product((strassen, winograd), repeat=2):
        assert assert_lifts(kron(left(Ring.F2), right(Ring.F2)), 0).is_ternary


@examples(5)
@given(seed=st.integers(0, 2**32))
def test_a_ternary_lift_after_a_change_of_bases(seed):
    rng = np.random.default_rng(seed)
    base = kron(strassen(Ring.F2), strassen(Ring.F2))
    scheme = sandwich(base, *(invertible(size, rng) for size in base.format))
    lifted = lift(scheme, seed=seed, keep_bases=False)
    assert lifted is not None and lifted.is_ternary and is_exact(lifted)
    assert lifted.format == scheme.format and lifted.rank == scheme.rank
    kept = assert_lifts(scheme, seed)
    assert max(np.abs(factor).max() for factor in kept.factors) <= 8


@pytest.mark.parametrize(("text", "rank", "count"), [("2x2x2", 7, 20), ("2x2x3", 11, 20)])
def test_schemes_of_a_random_walk_lift_to_z(text, rank, count):
    for seed in range(count):
        scheme = flip_walk(Format.parse(text), rank, seed)
        assert scheme.rank == rank and is_exact(scheme)
        assert_lifts(scheme, seed)


def test_schemes_of_the_tree_search_lift_to_z():
    for event in play(Format(2, 3, 2), target=11, seed=1, simulations=3000):
        if isinstance(event, Found):
            assert_lifts(event.scheme, 1)


@pytest.mark.parametrize(("text", "rank"), [("2x3x3", 16), ("3x3x3", 23), ("3x3x3", 25), ("2x4x3", 21), ("3x3x4", 32)])
def test_schemes_of_the_flip_walks_lift_to_z_and_to_ternary_ones(text, rank):
    schemes = []
    for seed in range(4):
        query = Query(Format.parse(text), "F2", rank, steps=20_000_000, seed=seed, workers=1)
        schemes += [event.scheme for event in find(query) if isinstance(event, events.Found) and event.rank <= rank]
    assert len(schemes) >= 3
    for scheme in schemes:
        assert_lifts(scheme, 0)
        lifted = lift(scheme, keep_bases=False)
        assert lifted is not None and lifted.is_ternary and is_exact(lifted) and lifted.rank == scheme.rank


@pytest.mark.parametrize("symmetric", [False, True])
def test_walked_products_of_size_6x6x6_lift(symmetric):
    """Flips of whole orbits over F2, or flips over Z; both leave liftable schemes here."""
    method = "symmetric" if symmetric else "flips"
    query = Query(Format(3, 3, 3), "F2", 23, seed=1, steps=50_000_000, workers=1, method=method)
    inner = [event.scheme for event in find(query) if isinstance(event, events.Found)][-1]
    lifted = lift(inner, keep_bases=False, symmetric=symmetric)
    assert inner.rank == 23 and lifted is not None and lifted.is_ternary
    walk = begin(
        kron(strassen(Ring.F2), inner) if symmetric else kron(strassen(), lifted),
        1,
        symmetry="Z3" if symmetric else None,
    )
    advance(walk, 300_000, 0, Policy(1 << 40, 0, 1 << 40))
    scheme = lowest(walk) if symmetric else reduce_mod(lowest(walk), Ring.F2)
    found = lift(scheme, symmetric=symmetric)
    assert found is not None and found.is_ternary and is_exact(found) and found.rank == 161
    if symmetric:
        decompose(reduce_mod(found, Ring.F2))


def test_a_lift_is_the_same_for_the_same_seed():
    scheme = sandwich(extend(strassen(Ring.F2), "k"), [[1, 1], [0, 1]], np.eye(3, dtype=int), [[1, 0], [1, 1]])
    first, second = lift(scheme, seed=3), lift(scheme, seed=3)
    assert first is not None and second is not None
    assert all(np.array_equal(f, g) for f, g in zip(first.factors, second.factors, strict=True))


def test_strassen_lifts_to_a_ternary_scheme():
    assert assert_lifts(strassen(Ring.F2), 0).is_ternary


def test_a_term_that_is_zero_is_no_obstacle():
    base = strassen(Ring.F2)
    u, v, w = (np.concatenate([factor, factor[:, :1]], axis=1) for factor in base.factors)
    v[:, -1] = 0
    assert_lifts(Scheme(base.format, Ring.F2, u, v, w), 0)


def test_a_rational_lift_is_given_only_when_asked_for(monkeypatch):
    # Without signs only Hensel lifting is left. Of its limits for this scheme some are rational and none is integral.
    monkeypatch.setattr(lifting, "signs_mod4", lambda *_: None)
    rng = np.random.default_rng(18)
    scheme = sandwich(classical(Format(2, 3, 4), Ring.F2), *(invertible(size, rng) for size in (2, 3, 4)))
    assert lift(scheme, attempts=1) is None
    lifted = lift(scheme, attempts=1, rational=True)
    assert lifted is not None and lifted.ring is Ring.Q and is_exact(lifted)
    assert lifted.denominator > 1 and lifted.denominator % 2 == 1
    for factor, original in zip(lifted.factors, scheme.factors, strict=True):
        np.testing.assert_array_equal(factor & 1, original)


def test_large_formats_lift_by_signs_and_are_refused_where_memory_would_run_out(monkeypatch):
    scheme = classical(Format(8, 8, 8), Ring.F2)
    assert assert_lifts(scheme, 0).is_ternary
    monkeypatch.setattr(lifting, "signs_mod4", lambda *_: None)
    with pytest.raises(ValueError, match=r"8x8x8 scheme of rank 512 would take 3\.\d\d GiB, the limit is 3 GiB"):
        lift(scheme)


def test_lifting_can_be_interrupted():
    rng = np.random.default_rng(0)
    scheme = sandwich(classical(Format(5, 5, 5), Ring.F2), *(invertible(5, rng) for _ in range(3)))
    assert lift(scheme, should_stop=lambda: True) is None
    for patience in (1, 5, 20, 60):
        asked: list[float] = []

        def should_stop(asked=asked, patience=patience) -> bool:
            asked.append(time.thread_time())
            return len(asked) > patience

        lift(scheme, should_stop=should_stop)
        assert len(asked) > patience
        assert max(np.diff([*asked, time.thread_time()])) < 0.5


def alphatensor_f2(key: str) -> Scheme:
    """A scheme of AlphaTensor's F2 file; its C is transposed."""
    folder = os.environ.get("SUBCUBIC_TEST_DATA")
    path = Path(folder or "") / "schemes/alphatensor/factorizations_f2.npz"
    if not folder or not path.is_file():
        pytest.skip("SUBCUBIC_TEST_DATA does not name a folder with alphatensor/factorizations_f2.npz")
    with np.load(path, allow_pickle=True) as file:
        u, v, w = (np.asarray(factor).astype(np.int64) for factor in file[key])
    m, k, n = (int(size) for size in key.split(","))
    w = w.reshape(n, m, -1).transpose(1, 0, 2).reshape(m * n, -1)
    return Scheme(Format(m, k, n), Ring.F2, u, v, w)


def test_alphatensors_47_does_not_lift():
    scheme = alphatensor_f2("4,4,4")
    assert scheme.rank == 47 and is_exact(scheme)
    assert lift(scheme) is None
    assert lift(scheme, keep_bases=False, rational=True) is None


@pytest.mark.parametrize("key", ["2,2,5", "2,3,3", "3,3,3", "3,4,5"])
def test_alphatensors_small_schemes_lift(key):
    assert_lifts(alphatensor_f2(key), 0)


def test_only_exact_schemes_over_a_finite_field_are_accepted():
    for ring in (Ring.Z, Ring.Q):
        with pytest.raises(ValueError, match=f"over F2 and F3 can be lifted, not one over {ring}"):
            lift(strassen(ring))
    good = strassen(Ring.F2)
    wrong = good.W.copy()
    wrong[2, 3] ^= 1
    with pytest.raises(NotExactError):
        lift(Scheme(good.format, Ring.F2, good.U, good.V, wrong))


@pytest.mark.parametrize("options", [{"attempts": 0}, {"max_bits": 1}, {"max_bits": 61}])
def test_numbers_out_of_range_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        lift(strassen(Ring.F2), **options)
