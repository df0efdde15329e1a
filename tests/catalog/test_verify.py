import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron
from catalog.verify import NotExactError, _safe_dtype, first_violation, is_exact, require_exact
from tests.catalog.catalog_examples import RINGS, SMALL, corrupted, exact_schemes
from tests.fuzzing import examples


def violations_by_definition(scheme):
    """All violated equations by four nested loops over Python integers, straight from Brent 1970."""
    m, k, n = scheme.format
    for a in range(m * k):
        for b in range(k * n):
            for c in range(m * n):
                (i, j), (p, q), (s, t) = divmod(a, k), divmod(b, n), divmod(c, n)
                columns = zip(scheme.U[a].tolist(), scheme.V[b].tolist(), scheme.W[c].tolist(), strict=True)
                found = sum(x * y * z for x, y, z in columns)
                expected = scheme.denominator * int((j, q, i) == (p, t, s))
                if scheme.ring.modulus:
                    found, expected = found % scheme.ring.modulus, expected % scheme.ring.modulus
                if found != expected:
                    yield (i + 1, j + 1), (p + 1, q + 1), (s + 1, t + 1), expected, found


@examples(SMALL)
@given(exact_schemes())
def test_seeds_and_their_images_are_exact(scheme):
    assert first_violation(scheme) is None
    assert require_exact(scheme) is scheme


@examples(SMALL)
@given(exact_schemes(), st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.sampled_from([-1, 1, 7]))
def test_one_corrupted_coefficient_is_rejected_and_named(scheme, mode, row, term, by):
    wrong = corrupted(scheme, mode, row, term, by)
    found = first_violation(wrong)
    expected = next(violations_by_definition(wrong), None)
    if expected is None:  # another residue of the same class
        assert found is None
    else:
        assert (found.a, found.b, found.c, found.expected, found.found) == expected
        with pytest.raises(NotExactError, match="is not exact: the coefficient of") as caught:
            require_exact(wrong)
        assert caught.value.violation == found


@pytest.mark.parametrize("ring", RINGS)
def test_every_single_corruption_of_winograd_is_rejected(ring):
    scheme = winograd(ring)
    for mode in range(3):
        for row in range(4):
            for term in range(7):
                assert not is_exact(corrupted(scheme, mode, row, term))


@pytest.mark.parametrize("size", [1 << 20, 1 << 31, (1 << 62) + 1])
def test_sums_beyond_every_machine_type_are_exact(size):
    """Two huge terms that cancel: in a 64-bit sum their remainder would drown or wrap."""
    one = classical(Format(1, 2, 1))
    row = np.array([[size, size]], dtype=np.int64)
    u, v = (np.concatenate([f, np.repeat(row, 2, axis=0)], axis=1) for f in (one.U, one.V))
    w = np.concatenate([one.W, [[1, -1]]], axis=1)
    assert is_exact(Scheme(one.format, Ring.Z, u, v, w))
    off = v.copy()
    off[1, 3] -= 1
    violation = first_violation(Scheme(one.format, Ring.Z, u, off, w))
    assert (violation.a, violation.b, violation.found, violation.expected) == ((1, 1), (2, 1), size, 0)


def test_wrapping_to_the_right_value_is_noticed():
    """1 + 2**64 equals 1 in 64-bit arithmetic."""
    scheme = Scheme(Format(1, 1, 1), Ring.Z, [[1, 1 << 32]], [[1, 1 << 32]], [[1, 1]])
    assert first_violation(scheme).found == 1 + (1 << 64)
    assert _safe_dtype(scheme) is object


def test_the_empty_scheme_is_not_exact():
    empty = np.zeros((1, 0), dtype=np.int64)
    assert first_violation(Scheme(Format(1, 1, 1), Ring.Z, empty, empty, empty)).found == 0


def test_five_by_five_by_five_takes_under_fifty_milliseconds():
    # Rank 125, above the hundred or so of real schemes of this format.
    scheme = classical(Format(5, 5, 5))
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        assert is_exact(scheme)
        best = min(best, time.thread_time() - start)
    assert best < 0.05


def test_large_formats_are_checked_in_slabs():
    scheme = kron(kron(strassen(), strassen()), strassen())
    assert is_exact(scheme)
    assert not is_exact(corrupted(scheme, 2, 63, 342))
