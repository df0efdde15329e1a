import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen
from catalog.proof import symbolic_violation
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron
from catalog.verify import first_violation
from tests.catalog.catalog_examples import RINGS, corrupted, exact_schemes
from tests.fuzzing import examples

FEW = 12


@examples(FEW)
@given(exact_schemes())
def test_exact_schemes_are_proved(scheme):
    assert symbolic_violation(scheme) is None


@examples(FEW)
@given(exact_schemes(), st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.sampled_from([-2, -1, 1, 3]))
def test_both_checks_name_the_same_equation(scheme, mode, row, term, by):
    wrong = corrupted(scheme, mode, row, term, by)
    assert symbolic_violation(wrong) == first_violation(wrong)


@pytest.mark.parametrize("ring", RINGS)
def test_an_empty_scheme_and_a_zero_factor_are_named_alike(ring):
    empty = np.zeros((1, 0), dtype=np.int64)
    zero = np.zeros((1, 1), dtype=np.int64)
    for factor in (empty, zero):
        scheme = Scheme(Format(1, 1, 1), ring, factor, factor, factor)
        assert symbolic_violation(scheme) == first_violation(scheme) is not None


def test_coefficients_beyond_64_bits_are_proved():
    scheme = Scheme(Format(1, 1, 1), Ring.Z, [[1, 1 << 32]], [[1, 1 << 32]], [[1, 1]])
    assert symbolic_violation(scheme) == first_violation(scheme)


def test_a_dense_scheme_of_three_by_three_is_proved_within_the_bar():
    """Rank 27 with every plane full is more work than any scheme of rank 23."""
    base = [[1, 1, 1], [1, 2, 2], [1, 2, 3]]
    scheme = sandwich(classical(Format(3, 3, 3)), base, base, base)
    start = time.thread_time()
    assert symbolic_violation(scheme) is None
    assert time.thread_time() - start < 20


def test_rank_49_is_proved():
    assert symbolic_violation(kron(strassen(), strassen())) is None
