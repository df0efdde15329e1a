import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from search.lifts.gf3 import Elimination3, eliminate3, planes
from tests.fuzzing import examples


def eliminated(matrix: np.ndarray) -> Elimination3:
    done = eliminate3(planes(matrix), matrix.shape[1])
    assert done is not None
    return done


def random_matrix(seed: int, equations: int, unknowns: int, density: float) -> np.ndarray:
    """Sparse matrices are rank deficient, which is the interesting case."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 3, (equations, unknowns)) * (rng.random((equations, unknowns)) < density)


def rank_by_rows(matrix: np.ndarray) -> int:
    """Rank over F3 by textbook elimination on plain integers."""
    rows, rank = matrix % 3, 0
    for column in range(rows.shape[1]):
        below = np.flatnonzero(rows[rank:, column])
        if len(below):
            rows[[rank, rank + below[0]]] = rows[[rank + below[0], rank]]
            rows[rank] = rows[rank] * rows[rank, column] % 3
            others = np.arange(len(rows)) != rank
            rows[others] = (rows[others] - np.outer(rows[others, column], rows[rank])) % 3
            rank += 1
    return rank


matrices = st.builds(
    random_matrix,
    seed=st.integers(0, 2**32),
    equations=st.integers(1, 150),
    unknowns=st.integers(1, 150),
    density=st.sampled_from([0.01, 0.1, 0.6]),
)


@examples(30)
@given(matrix=matrices, seed=st.integers(0, 2**32))
def test_solves_what_is_solvable_with_free_unknowns_at_zero(matrix, seed):
    rhs = matrix @ np.random.default_rng(seed).integers(0, 3, matrix.shape[1]) % 3
    elimination = eliminated(matrix)
    solution = elimination.solve(rhs)
    assert solution is not None and set(solution.tolist()) <= {-1, 0, 1}
    np.testing.assert_array_equal(matrix @ solution % 3, rhs)
    assert set(np.flatnonzero(solution)) <= set(elimination.columns.tolist())


@examples(30)
@given(matrix=matrices, seed=st.integers(0, 2**32))
def test_refuses_exactly_what_would_raise_the_rank(matrix, seed):
    rng = np.random.default_rng(seed)
    rhs = rng.integers(0, 3, len(matrix)) * (rng.random(len(matrix)) < 0.3)
    elimination = eliminated(matrix)
    assert elimination.rank == rank_by_rows(matrix)
    grown = rank_by_rows(np.concatenate([matrix, rhs[:, None]], axis=1))
    assert (elimination.solve(rhs) is None) == (grown == elimination.rank + 1)


@examples(20)
@given(seed=st.integers(0, 2**32), equations=st.integers(1, 5), unknowns=st.integers(1, 5))
def test_agrees_with_trying_every_vector(seed, equations, unknowns):
    rng = np.random.default_rng(seed)
    matrix, rhs = rng.integers(0, 3, (equations, unknowns)), rng.integers(0, 3, equations)
    vectors = np.array(list(itertools.product(range(3), repeat=unknowns)))
    images = vectors @ matrix.T % 3
    elimination = eliminated(matrix)
    assert 3 ** (unknowns - elimination.rank) == (images == 0).all(axis=1).sum()
    assert (elimination.solve(rhs) is not None) == (images == rhs).all(axis=1).any()


@examples(30)
@given(matrix=matrices, seed=st.integers(0, 2**32))
def test_kernel_vectors_are_taken_to_zero_and_keep_their_free_unknowns(matrix, seed):
    elimination = eliminated(matrix)
    free = np.random.default_rng(seed).integers(-1, 2, matrix.shape[1])
    vector = elimination.kernel(free)
    assert not (matrix @ vector % 3).any()
    np.testing.assert_array_equal(np.delete(vector, elimination.columns), np.delete(free, elimination.columns))


@examples(20)
@given(matrix=matrices, cut=st.integers(1, 150))
def test_earlier_columns_become_pivots_first(matrix, cut):
    assert rank_by_rows(matrix[:, :cut]) == int((eliminated(matrix).columns < cut).sum())


def test_elimination_stops_when_it_is_told_to():
    answers = iter([False, True])
    assert eliminate3(planes(np.eye(640, dtype=np.int64)), 640, lambda: next(answers)) is None
    assert list(answers) == []
