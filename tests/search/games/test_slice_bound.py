import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.scheme import Format
from search.games.game import change_basis, opening, random_basis, tensor_of
from search.games.slice_bound import bound, complete
from search.lifts.gf2 import eliminate
from tests.fuzzing import examples

sizes = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 7))


@examples(30)
@given(shape=sizes, density=st.sampled_from([0.05, 0.2, 0.5]), seed=st.integers(0, 2**32))
def test_the_bound_is_constructive(shape, density, seed):
    residual = np.random.default_rng(seed).random(shape) < density
    terms = complete(residual)
    assert len(terms) == bound(residual)
    np.testing.assert_array_equal(tensor_of(terms, shape), residual)


@examples(20)
@given(shape=sizes, seed=st.integers(0, 2**32))
def test_the_bound_does_not_depend_on_bases_or_directions(shape, seed):
    rng = np.random.default_rng(seed)
    terms = np.stack([rng.integers(1, 1 << size, 4) for size in shape], axis=1)
    residual = tensor_of(terms, shape)
    assert bound(residual) == bound(tensor_of(change_basis(terms, random_basis(shape, rng)), shape))
    assert bound(residual) == bound(residual.transpose(1, 2, 0)) == bound(residual.transpose(2, 1, 0))


@examples(20)
@given(shape=sizes, seed=st.integers(0, 2**32))
def test_the_bound_lies_between_matrix_ranks_and_size(shape, seed):
    """Each unfolding's rank is a lower bound of the tensor rank; a product of two sizes is an upper one."""
    residual = np.random.default_rng(seed).random(shape) < 0.5
    a, b, c = shape
    value = bound(residual)
    assert value <= min(a * b, b * c, a * c)
    for mode in range(3):
        unfolded = np.moveaxis(residual, mode, 0).reshape(shape[mode], -1)
        assert value >= eliminate(unfolded).rank


def test_too_large_a_tensor_is_refused():
    with pytest.raises(ValueError, match="too large"):
        bound(np.ones((17, 1, 1), dtype=bool))


def test_known_bounds():
    assert bound(np.zeros((2, 3, 4), dtype=bool)) == 0
    assert bound(np.ones((2, 3, 4), dtype=bool)) == 1
    # Two slices in the first basis have rank 2 and 2, but their sum has rank 1.
    assert bound(np.array([[[1, 0], [0, 1]], [[1, 0], [0, 0]]], dtype=bool)) == 2
    for text, volume in (("2x2x2", 8), ("2x2x3", 12), ("2x3x3", 18), ("1x3x2", 6)):
        assert bound(opening(Format.parse(text))) == volume
