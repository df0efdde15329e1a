import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring
from catalog.transform import concatenate, extend, orientations
from catalog.verify import is_exact
from search.meta import candidates, merge, project_best
from tests.catalog.catalog_examples import RINGS, SMALL, exact_schemes
from tests.fuzzing import examples

axes = st.sampled_from("mkn")


@examples(SMALL)
@given(exact_schemes(), axes, st.integers(0, 99))
def test_project_best_is_exact_and_depends_on_the_seed_alone(scheme, axis, seed):
    if getattr(scheme.format, axis) == 1:
        with pytest.raises(ValueError, match="it has size 1"):
            project_best(scheme, axis)
        return
    first, second = (project_best(scheme, axis, np.random.default_rng(seed)) for _ in range(2))
    assert is_exact(first) and first.rank <= scheme.rank
    assert all(np.array_equal(a, b) for a, b in zip(first.factors, second.factors, strict=True))


@pytest.mark.parametrize("ring", RINGS)
def test_merge_joins_terms_that_fit(ring):
    whole = merge(strassen(ring), winograd(ring), "n")
    assert is_exact(whole) and whole.format == (2, 2, 4) and whole.rank <= 14
    with pytest.raises(ValueError, match="other sizes differ"):
        merge(strassen(ring), classical(Format(3, 2, 2), ring), "n")


@pytest.mark.parametrize("ring", RINGS)
def test_candidates_are_exact_of_the_rank_they_promise_and_sorted(ring):
    pool = {
        (Format(2, 2, 2), ring): [strassen(ring), winograd(ring)],
        (Format(3, 2, 2), ring): [orientations(extend(strassen(ring), "n"))[1]],
        (Format(2, 4, 2), ring): [concatenate(strassen(ring), strassen(ring), "k")],
        (Format(1, 2, 1), ring): [classical(Format(1, 2, 1), ring)],
        (Format(2, 2, 5), Ring.F3 if ring is not Ring.F3 else Ring.F2): [],
    }
    moves = set()
    for format in (Format(2, 3, 2), Format(4, 2, 2), Format(2, 2, 3), Format(4, 4, 4), Format(2, 5, 2)):
        starts = candidates(format, ring, pool, np.random.default_rng(0))
        assert starts and [s.rank for s in starts] == sorted(s.rank for s in starts)
        for start in starts:
            scheme = start.make()
            moves.add(start.move)
            assert scheme.format == format and scheme.ring is ring and is_exact(scheme)
            assert scheme.rank <= start.rank
            assert all(any(parent is s for held in pool.values() for s in held) for parent in start.parents)
    assert moves == {"permute", "project", "extend", "merge", "kron"}


def test_candidates_take_the_best_move_first():
    pool = {(Format(2, 2, 2), Ring.Z): [winograd()]}
    best = candidates(Format(4, 4, 4), Ring.Z, pool)[0]
    assert (best.rank, best.move) == (49, "kron") and best.make().is_ternary
    best = candidates(Format(2, 2, 4), Ring.Z, pool)[0]
    assert (best.rank, best.move) == (14, "merge")
    assert candidates(Format(2, 2, 4), Ring.F2, pool) == []


def test_ternary_candidates_need_ternary_parents():
    doubled = merge(strassen(), strassen(), "n")
    wide = type(doubled)(doubled.format, Ring.Z, doubled.U, 2 * doubled.V, doubled.W)
    pool = {(wide.format, Ring.Z): [wide], (Format(2, 2, 2), Ring.Z): [strassen()]}
    assert all(wide not in s.parents for s in candidates(Format(2, 2, 4), Ring.Z, pool, ternary=True))
    assert any(wide in s.parents for s in candidates(Format(2, 2, 4), Ring.Z, pool))
