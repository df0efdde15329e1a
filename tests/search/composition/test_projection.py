import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, rotate
from catalog.transform import project as delete_index
from catalog.verify import is_exact
from search.composition.directions import normalise, row_directions, shared, tidy
from search.composition.projection import Projection, apply, best_index, project, project_best, projections
from tests.catalog.catalog_examples import RINGS, SMALL, exact_schemes
from tests.fuzzing import examples

axes = st.sampled_from("mkn")


@examples(2 * SMALL)
@given(exact_schemes(), axes, st.integers(0, 99))
def test_every_pair_projects_to_an_exact_scheme_and_kills_what_it_says(scheme, axis, number):
    if getattr(scheme.format, axis) == 1:
        with pytest.raises(ValueError, match="it has size 1"):
            next(projections(scheme, axis))
        return
    pairs = list(projections(scheme, axis))
    assert [p.killed for p in pairs] == sorted((p.killed for p in pairs), reverse=True)
    pair = pairs[number % len(pairs)]
    small = apply(scheme, pair)
    assert is_exact(small)
    assert getattr(small.format, axis) == getattr(scheme.format, axis) - 1
    assert small.rank <= scheme.rank - pair.killed


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


@examples(SMALL)
@given(exact_schemes(), axes)
def test_deleting_an_index_is_a_pair_of_unit_vectors(scheme, axis):
    size = getattr(scheme.format, axis)
    if size == 1:
        return
    deleted = [delete_index(scheme, axis, index) for index in range(size)]
    best = best_index(scheme, axis)
    assert scheme.rank - best.killed == min(small.rank for small in deleted)
    index = best.x.index(1)
    assert str(best) == f"{axis}={index + 1}"
    mine, plain = apply(scheme, best), tidy(deleted[index])
    assert all(np.array_equal(a, b) for a, b in zip(mine.factors, plain.factors, strict=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("axis", "mkn")
def test_over_f2_no_basis_does_better_than_the_best_pair(seed, axis):
    """Every x, y over F2 is a change of basis followed by the deletion of an index: all of them are tried."""
    rng = np.random.default_rng(seed)
    base = concatenate(winograd(Ring.F2), classical(Format(2, 2, 1), Ring.F2), "n")
    for _ in range(seed % 3):
        base = rotate(base)
    scheme = sandwich(base, *(_invertible(size, rng) for size in base.format))
    size = getattr(scheme.format, axis)
    vectors = [v for v in itertools.product((0, 1), repeat=size) if any(v)]
    killed = max(
        scheme.rank - _alive(scheme, Projection(axis, x, y, 0)) for x in vectors for y in vectors if np.dot(x, y) % 2
    )
    assert next(projections(scheme, axis)).killed == killed > 0


def _alive(scheme: Scheme, pair: Projection) -> int:
    """Terms left before mergers, by a way of its own: the projector I - x y^T on the factors of A and C."""
    position = "mkn".index(pair.axis)
    for _ in range(position):
        scheme = rotate(scheme)
    m, k, n = scheme.format
    projector = (np.eye(m, dtype=int) - np.outer(pair.x, pair.y)) % 2
    u = np.einsum("im,ikr->mkr", projector, scheme.U.reshape(m, k, -1)) % 2
    w = np.einsum("mi,inr->mnr", projector, scheme.W.reshape(m, n, -1)) % 2
    return int((u.any(axis=(0, 1)) & w.any(axis=(0, 1))).sum())


def _invertible(size: int, rng: np.random.Generator) -> np.ndarray:
    matrix = np.eye(size, dtype=np.int64)
    for _ in range(4):
        i, j = rng.choice(size, 2, replace=False)
        matrix[i] = (matrix[i] + matrix[j]) % 2
    return matrix


def test_strassen_projects_to_the_exact_rank_of_a_smaller_product():
    for ring in RINGS:
        for axis in "mkn":
            assert project(strassen(ring), axis)[1].rank == 4


@pytest.mark.parametrize("seed", range(4))
def test_a_ternary_scheme_stays_ternary(seed):
    scheme = concatenate(strassen(), classical(Format(2, 2, 2)), "k")
    pair, small = project(scheme, "k", np.random.default_rng(seed), tries=4)
    assert small.is_ternary and is_exact(small) and small.rank <= scheme.rank - pair.killed


@examples(SMALL)
@given(exact_schemes(), st.integers(0, 2), st.data())
def test_tidy_merges_what_agrees_in_two_factors(scheme, mode, data):
    """Any term cut in two, also with factors rescaled, grows together again."""
    term = data.draw(st.integers(0, scheme.rank - 1))
    row = data.draw(st.integers(0, len(scheme.factors[mode]) - 1))
    columns = [factor[:, term].copy() for factor in scheme.factors]
    part = np.zeros_like(columns[mode])
    part[row] = 1
    rest = columns[mode] - part
    other = (mode + 1) % 3
    factors = []
    for i, factor in enumerate(scheme.factors):
        kept = factor.copy()
        new = columns[i]
        if i == mode:
            kept[:, term], new = rest, -part
        elif i == other:
            new = -new
        factors.append(np.concatenate([kept, new[:, None]], axis=1))
    cut = Scheme(scheme.format, scheme.ring, *factors, denominators=scheme.denominators)
    assert is_exact(cut)
    together = tidy(cut)
    assert is_exact(together) and together.rank <= scheme.rank
    assert together.is_ternary or not cut.is_ternary


@examples(SMALL)
@given(exact_schemes())
def test_factors_split_into_primitive_vectors_and_scalars(scheme):
    for factor in scheme.factors:
        primitive, scale = normalise(factor, scheme.ring.modulus)
        assert np.array_equal(primitive * scale, factor)
        labels = shared(factor, scheme.ring.modulus)
        for i, j in itertools.combinations(range(scheme.rank), 2):
            a, b = (factor[:, t].astype(object) for t in (i, j))
            minors = np.outer(a, b) - np.outer(b, a)
            parallel = not (minors % scheme.ring.modulus if scheme.ring.modulus else minors).any()
            assert parallel == (labels[i] == labels[j])


def test_rank_one_factors_show_their_rows():
    blocks = np.zeros((2, 3, 3), dtype=np.int64)
    blocks[:, :, 0] = np.outer([2, -4], [0, 3, 1])
    blocks[:, :, 1] = [[1, 0, 0], [0, 1, 0]]
    assert row_directions(blocks, 0) == [(1, -2), None, None]
