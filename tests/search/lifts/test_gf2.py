import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from search.lifts.gf2 import eliminate, eliminate_packed, pack
from tests.fuzzing import examples


def random_columns(seed: int, unknowns: int, equations: int, density: float) -> np.ndarray:
    """Sparse matrices are rank deficient, which is the interesting case."""
    return np.random.default_rng(seed).random((unknowns, equations)) < density


matrices = st.builds(
    random_columns,
    seed=st.integers(0, 2**32),
    unknowns=st.integers(1, 140),
    equations=st.integers(1, 140),
    density=st.sampled_from([0.01, 0.1, 0.5]),
)


@examples(30)
@given(columns=matrices, seed=st.integers(0, 2**32))
def test_solves_what_is_solvable_with_free_unknowns_at_zero(columns, seed):
    chosen = np.random.default_rng(seed).integers(0, 2, len(columns)).astype(bool)
    rhs = np.logical_xor.reduce(columns[chosen], axis=0)
    elimination = eliminate(columns)
    solution = elimination.solve(rhs)
    assert solution is not None
    np.testing.assert_array_equal(np.logical_xor.reduce(columns[solution], axis=0), rhs)
    assert set(np.flatnonzero(solution)) <= set(elimination.columns.tolist())


@examples(30)
@given(columns=matrices, seed=st.integers(0, 2**32))
def test_refuses_exactly_what_would_raise_the_rank(columns, seed):
    rhs = np.random.default_rng(seed).random(columns.shape[1]) < 0.3
    elimination = eliminate(columns)
    grown = eliminate(np.concatenate([columns, rhs[None]])).rank
    assert (elimination.solve(rhs) is None) == (grown == elimination.rank + 1)


@examples(30)
@given(columns=matrices, seed=st.integers(0, 2**32))
def test_the_kernel_is_what_the_matrix_takes_to_zero(columns, seed):
    elimination = eliminate(columns)
    basis = elimination.kernel_basis()
    assert eliminate(basis).rank == len(basis) == len(columns) - elimination.rank
    assert not (basis.astype(int) @ columns % 2).any()
    free = np.random.default_rng(seed).random(len(columns)) < 0.5
    chosen = np.delete(free, elimination.columns)
    np.testing.assert_array_equal(elimination.kernel(free), np.logical_xor.reduce(basis[chosen], axis=0))


@examples(20)
@given(columns=matrices, cut=st.integers(1, 140))
def test_earlier_columns_become_pivots_first(columns, cut):
    pivots = eliminate(columns).columns
    assert eliminate(columns[:cut]).rank == int((pivots < cut).sum())


def test_rank_of_known_matrices():
    assert eliminate(np.eye(70, dtype=bool)).rank == 70
    assert eliminate(np.ones((70, 65), dtype=bool)).rank == 1
    assert eliminate(np.zeros((3, 5), dtype=bool)).rank == 0
    # Dependent over F2 although not over the rationals.
    assert eliminate(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)).rank == 2


def test_elimination_stops_when_it_is_told_to():
    answers = iter([False, False, True])
    matrix = pack(np.eye(640, dtype=bool))
    assert eliminate_packed(matrix, 640, lambda: next(answers)) is None
    assert list(answers) == []
