from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.additions import Program, Step, additions_cse, sides, straight_line
from catalog.cse_search import Programs, search_programs, shorter_program, transposed
from catalog.known import classical, strassen, winograd
from catalog.program_text import program_lines
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.catalog.test_additions import distinct_inputs, evaluate, matrices
from tests.fuzzing import examples


def matrix_of(program: Program) -> np.ndarray:
    """The matrix that a program stands for, from the unit vectors."""
    outputs = program.run(list(np.eye(program.inputs, dtype=object)))
    return np.array([output + np.zeros(program.inputs, dtype=object) for output in outputs])


@examples(40)
@given(matrices, st.integers(0, 99))
def test_program_equals_matrix_and_is_never_worse(matrix, seed):
    program = shorter_program(matrix, seed=seed, tries=12)
    assert program.run(distinct_inputs(matrix.shape[1])) == evaluate(matrix, distinct_inputs(matrix.shape[1]))
    assert program.additions <= straight_line(matrix).additions
    assert shorter_program(matrix, seed=seed, tries=12) == program


@examples(40)
@given(matrices)
def test_transposed_program_is_that_of_the_transposed_matrix(matrix):
    program = straight_line(matrix)
    turned = transposed(program)
    assert np.array_equal(matrix_of(turned), matrix.T)
    assert np.array_equal(matrix_of(transposed(turned)), matrix)
    if matrix.any(axis=0).all() and matrix.any(axis=1).all():
        assert turned.additions == program.additions + matrix.shape[0] - matrix.shape[1]


@examples(SMALL)
@given(exact_schemes(), st.integers(0, 99))
def test_programs_of_a_scheme_compute_its_three_sides(scheme, seed):
    programs = search_programs(scheme, seed=seed, tries=3)
    for side, program in zip(sides(scheme), (programs.a, programs.b, programs.c), strict=True):
        assert np.array_equal(matrix_of(program), side)
    assert programs.additions <= additions_cse(scheme) and programs.tries == 3
    names = {f"{letter}{i}{j}": Fraction(1000 * i + j, k) for k, letter in ((1, "a"), (7, "b")) for i in range(1, 9)
             for j in range(1, 9)}  # fmt: skip
    for line in program_lines(scheme, programs):
        name, text = line.split(" = ")
        names[name] = eval(text.replace("/", "*one/"), {"one": Fraction(1)}, names)
    m, k, n = scheme.format
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            expected = sum(names[f"a{i}{p}"] * names[f"b{p}{j}"] for p in range(1, k + 1))
            difference = names[f"c{i}{j}"] - expected
            if scheme.ring.modulus:  # 1000 * i + j over 7 is integral at 7
                assert (difference * 7) % scheme.ring.modulus == 0
            else:
                assert difference == 0


def test_known_counts():
    assert search_programs(winograd(), tries=5).additions == 15
    assert search_programs(strassen(), tries=20).additions == 18
    square = kron(winograd(), winograd())
    assert search_programs(square, tries=5).additions <= additions_cse(square)


def test_sums_that_cancel_are_found():
    # x + y + z + t, and the same without t: subtracting is as good as adding up anew, but here three rows need it.
    matrix = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, -1], [1, 1, 1, -1, 1], [1, 1, -1, 1, 1], [1, -1, 1, 1, 1]])
    best = shorter_program(matrix, seed=1, tries=200)
    assert np.array_equal(matrix_of(best), matrix)
    assert best.additions < straight_line(matrix).additions


def test_empty_sums_and_limits():
    empty = shorter_program(np.zeros((2, 3), dtype=int), tries=3)
    assert empty.additions == 0 and empty.run([1, 2, 3]) == [0, 0]
    assert shorter_program(np.zeros((0, 2), dtype=int), tries=2).outputs == ()
    with pytest.raises(ValueError, match="give tries or budget_s"):
        search_programs(strassen())
    with pytest.raises(ValueError, match="matrix of integers"):
        shorter_program(np.ones((2, 2)))
    assert search_programs(strassen(), budget_s=60, should_stop=lambda: True).tries == 0


def test_a_useless_value_and_a_cancelled_one_transpose_to_nothing():
    program = Program(2, (Step(0, 1, 1, 1), Step(2, 0, 1, -1)), ((3, 1), (3, -1)))
    assert np.array_equal(matrix_of(program), [[0, 1], [0, -1]])
    assert np.array_equal(matrix_of(transposed(program)), [[0, 0], [1, -1]])


def test_text_of_winograds_program():
    scheme = Scheme(Format(1, 1, 1), Ring.Q, [[2]], [[-1]], [[-3]], denominators=(4, 1, 3))
    programs = search_programs(scheme, tries=1)
    assert program_lines(scheme, programs) == ["M1 = (1/2*a11)*(-b11)", "c11 = -M1"]
    lines = program_lines(winograd(), search_programs(winograd(), tries=5))
    assert len(lines) == 15 + 7 + 4
    assert sum(" + " in line or " - " in line for line in lines) == 15
    assert isinstance(programs, Programs) and program_lines(classical(Format(1, 11, 1)), search_programs(
        classical(Format(1, 11, 1)), tries=1))[0] == "M1 = a1_1*b1_1"  # fmt: skip
