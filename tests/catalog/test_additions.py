from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catalog.additions import additions_cse, additions_naive, kron_program, relabel, sides, straight_line
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring
from catalog.transform import kron, orientations
from tests.fuzzing import examples

matrices = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-3, 3))
)


def evaluate(matrix: np.ndarray, inputs: list) -> list:
    return [sum((c * x for c, x in zip(row, inputs, strict=True)), Fraction(0)) for row in matrix.tolist()]


def distinct_inputs(count: int) -> list[Fraction]:
    # Powers of a large base: two linear forms with small coefficients agree here only if they are equal.
    return [Fraction(1009) ** i for i in range(count)]


@examples(30)
@given(matrices)
def test_program_equals_matrix(matrix):
    program = straight_line(matrix)
    assert program.run(distinct_inputs(matrix.shape[1])) == evaluate(matrix, distinct_inputs(matrix.shape[1]))
    assert program.additions <= int(np.maximum(np.count_nonzero(matrix, axis=1) - 1, 0).sum())
    assert straight_line(matrix) == program


@examples(20)
@given(matrices, matrices)
def test_kronecker_program_equals_kronecker_product(left, right):
    program = kron_program(straight_line(left), straight_line(right))
    inputs = distinct_inputs(left.shape[1] * right.shape[1])
    assert program.run(inputs) == evaluate(np.kron(left, right), inputs)


@examples(20)
@given(matrices, st.randoms(use_true_random=False))
def test_relabel_moves_inputs_and_outputs(matrix, random):
    columns, rows = list(range(matrix.shape[1])), list(range(matrix.shape[0]))
    random.shuffle(columns)
    random.shuffle(rows)
    moved = np.zeros_like(matrix)
    moved[:, columns] = matrix[rows]
    program = relabel(straight_line(matrix), columns, rows)
    inputs = distinct_inputs(matrix.shape[1])
    assert program.run(inputs) == evaluate(moved, inputs)


def test_counts_of_known_schemes():
    assert (additions_naive(strassen()), additions_cse(strassen())) == (18, 18)
    assert (additions_naive(winograd()), additions_cse(winograd())) == (24, 15)
    assert [straight_line(side).additions for side in sides(winograd())] == [4, 4, 7]
    assert [additions_naive(turned) for turned in orientations(strassen())] == [18] * 6
    # m*n outputs of k terms each.
    assert additions_naive(classical(Format(2, 3, 4))) == additions_cse(classical(Format(2, 3, 4))) == 2 * 4 * 2


@pytest.mark.parametrize("ring", list(Ring))
def test_every_ring_keeps_its_meaning(ring):
    scheme = kron(winograd(ring), classical(Format(1, 2, 3), ring))
    rng = np.random.default_rng(1)
    for side in sides(scheme):
        inputs = rng.integers(-9, 9, size=(side.shape[1], 2))
        results = np.array(straight_line(side).run(list(inputs)))
        np.testing.assert_array_equal(results, side @ inputs)


def test_coefficients_beyond_one_cost_no_additions():
    program = straight_line(np.array([[2, -3], [0, 0], [0, -1]]))
    assert program.additions == 1
    assert program.run([5, 7]) == [-11, 0, -7]
    # The pair 2x-3y is shared by both rows, whatever their scale.
    shared = straight_line(np.array([[2, -3, 0], [-4, 6, 1]]))
    assert shared.additions == 2 and shared.run([1, 1, 1]) == [-1, 3]


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="matrix of integers"):
        straight_line(np.ones((2, 2)))
    with pytest.raises(ValueError, match="matrix of integers"):
        straight_line(np.zeros((2, 0), dtype=np.int64))
    with pytest.raises(ValueError, match="takes 2 inputs, not 3"):
        straight_line(np.ones((1, 2), dtype=np.int64)).run([1, 2, 3])
