import numpy as np
import pytest
import sympy
from hypothesis import given

from catalog.formulas import describe, formulas
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from tests.catalog.catalog_examples import exact_schemes
from tests.fuzzing import examples


def test_strassen_reads_as_in_the_textbook():
    lines = formulas(strassen())
    assert lines[0] == "M1 = (a11 + a22)*(b11 + b22)"
    assert lines[1] == "M2 = (a21 + a22)*b11"
    assert lines[5] == "M6 = (-a11 + a21)*(b11 + b12)"
    assert lines[7:] == ["c11 = M1 + M4 - M5 + M7", "c12 = M3 + M5", "c21 = M2 + M4", "c22 = M1 - M2 + M3 + M6"]


@examples(12)
@given(exact_schemes())
def test_the_formulas_mean_the_matrix_product(scheme):
    """Read the text back with sympy, put integers in, compare with A @ B in the ring."""
    m, k, n = scheme.format
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    values = {f"a{i + 1}{j + 1}": sympy.Integer(int(a[i, j])) for i in range(m) for j in range(k)}
    values |= {f"b{i + 1}{j + 1}": sympy.Integer(int(b[i, j])) for i in range(k) for j in range(n)}
    for line in formulas(scheme):
        name, text = line.split(" = ")
        values[name] = sympy.sympify(text, locals=values)
    product = a @ b
    for i in range(m):
        for j in range(n):
            difference = values[f"c{i + 1}{j + 1}"] - int(product[i, j])
            assert difference % scheme.ring.modulus == 0 if scheme.ring.modulus else difference == 0


def test_fractions_signs_and_empty_sums():
    u = np.array([[1, -3, 0]])
    scheme = Scheme(Format(1, 1, 1), Ring.Q, u, u, [[2, -1, 4]], denominators=(2, 1, 4))
    assert formulas(scheme) == [
        "M1 = (1/2*a11)*b11",
        "M2 = (-3/2*a11)*(-3*b11)",
        "M3 = 0*0",
        "c11 = 1/2*M1 - 1/4*M2 + M3",
    ]


def test_two_digit_indices_are_separated():
    assert formulas(classical(Format(1, 11, 1)))[10] == "M11 = a1_11*b11_1"


@pytest.mark.parametrize(
    ("ring", "note"), [(Ring.Z, "C is not transposed."), (Ring.F2, "modulo 2"), (Ring.F3, "modulo 3")]
)
def test_the_convention_is_stated(ring, note):
    text = describe(strassen(ring))
    assert text.startswith(f"2x2x2, rank 7 over {ring}: A 2x2 . B 2x2.\n") and note in text
    assert text.splitlines()[2:] == formulas(strassen(ring))
