import numpy as np
import pytest
from hypothesis import given

from catalog.known import classical, strassen, winograd
from catalog.measures import exponent, growth, planes, stability
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron, rotate, transpose
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.fuzzing import examples


def test_published_figures():
    assert growth(strassen()) == pytest.approx(12 + 2 * np.sqrt(2))
    assert growth(winograd()) == pytest.approx(17.853, abs=1e-3)
    assert (stability(strassen()), stability(winograd())) == (12, 18)
    assert (planes(strassen()), planes(winograd())) == ((5, 5), (4, 4))
    assert exponent(strassen()) == pytest.approx(np.log2(7))


def test_the_standard_algorithm():
    scheme = classical(Format(2, 3, 4))
    assert (growth(scheme), stability(scheme), planes(scheme)) == (24, 3, (0, 0))
    assert exponent(scheme) == pytest.approx(3) and exponent(classical(Format(1, 1, 1))) == 3


@examples(SMALL)
@given(exact_schemes())
def test_growth_is_invariant_under_roles_and_at_least_the_norm_of_the_tensor(scheme):
    assert growth(rotate(scheme)) == pytest.approx(growth(scheme))
    assert planes(transpose(scheme)) == planes(scheme)[::-1]
    if scheme.ring in (Ring.Z, Ring.Q):
        assert growth(scheme) >= np.sqrt(scheme.format.volume) * (1 - 1e-12)
        assert stability(scheme) >= scheme.k * (1 - 1e-12)


@examples(SMALL)
@given(exact_schemes([Ring.Z, Ring.Q]))
def test_growth_and_stability_multiply_over_levels(scheme):
    nested = kron(scheme, strassen(scheme.ring))
    assert growth(nested) == pytest.approx(growth(scheme) * growth(strassen()))


def test_denominators_divide():
    halves = Scheme(Format(1, 1, 1), Ring.Q, [[3]], [[2]], [[4]], denominators=(3, 2, 4))
    assert growth(halves) == stability(halves) == 1


def test_planes_that_differ_by_a_scalar_count_once():
    u = np.array([[1, 2, -3, 1], [1, 2, -3, -1]])
    scheme = Scheme(Format(1, 2, 1), Ring.Z, u, u, np.ones((1, 4), dtype=int))
    assert planes(scheme) == (2, 2)
    assert planes(Scheme(Format(1, 2, 1), Ring.F2, u, u, np.ones((1, 4), dtype=int))) == (1, 1)
    assert planes(Scheme(Format(1, 2, 1), Ring.F3, u, u, np.ones((1, 4), dtype=int))) == (2, 2)


def test_huge_coefficients_do_not_wrap():
    scheme = sandwich(strassen(), [[1, 1 << 40], [0, 1]], *[np.eye(2, dtype=int)] * 2)
    assert growth(scheme) > 2.0**80
