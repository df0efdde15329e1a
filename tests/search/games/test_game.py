import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen
from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from search.games.game import (
    change_basis,
    factor_sizes,
    inverse,
    inverse_basis,
    moves_of,
    opening,
    random_basis,
    require_playable,
    scheme_of,
    tensor_of,
)
from tests.fuzzing import examples

formats = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)).map(lambda t: Format(*t))


@examples(20)
@given(format=formats)
def test_the_opening_is_the_matrix_multiplication_tensor(format):
    m, k, n = format
    tensor = opening(format).reshape(m, k, k, n, m, n)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    np.testing.assert_array_equal(np.einsum("ijpqst,ij,pq->st", tensor.astype(int), a, b), a @ b)


@examples(20)
@given(format=formats, seed=st.integers(0, 2**32))
def test_moves_empty_the_board_in_any_order_and_basis(format, seed):
    rng = np.random.default_rng(seed)
    sizes = factor_sizes(format)
    moves = rng.permutation(moves_of(classical(format, Ring.F2)))
    basis = random_basis(sizes, rng)
    moved = change_basis(moves, basis)
    residual = tensor_of(moved, sizes)
    for move in moved:
        assert residual.any()
        residual = residual ^ tensor_of(move[None], sizes)
    assert not residual.any()
    back = change_basis(moved, inverse_basis(basis))
    np.testing.assert_array_equal(back, moves)
    assert is_exact(scheme_of(format, back))


def test_scheme_and_moves_are_the_same_thing():
    scheme = strassen(Ring.F2)
    again = scheme_of(scheme.format, moves_of(scheme))
    assert all(np.array_equal(f, g) for f, g in zip(scheme.factors, again.factors, strict=True))


@examples(20)
@given(size=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_random_bases_are_invertible(size, seed):
    matrix, _, _ = random_basis((size, 1, 1), np.random.default_rng(seed))
    np.testing.assert_array_equal(matrix.astype(int) @ inverse(matrix).astype(int) % 2, np.eye(size))


@pytest.mark.parametrize("text", ["4x4x4", "1x13x1", "2x2x7"])
def test_formats_beyond_the_bound_name_the_remedy(text):
    with pytest.raises(ValueError, match=f"{text}.*flips"):
        require_playable(Format.parse(text))
