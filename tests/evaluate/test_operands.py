"""Random operands and the exact conversions of bf16."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluate.operands import DTYPES, draw, narrow, poison, widen
from tests.fuzzing import examples


@examples(200)
@given(bits=st.integers(0, 2**32 - 1))
def test_bf16_rounds_like_ml_dtypes(bits):
    value = np.array([bits], dtype=np.uint32).view(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = value.astype(ml_dtypes.bfloat16)
        ours = narrow(np, value, "bf16").view(ml_dtypes.bfloat16)
    assert np.isnan(expected[0]) == np.isnan(ours[0])
    assert np.isnan(expected[0]) or expected.view(np.uint16)[0] == ours.view(np.uint16)[0]


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_widening_is_exact_and_undone_by_narrowing(dtype):
    x = draw(np, np.random.default_rng(1), (30, 40), dtype)
    np.testing.assert_array_equal(narrow(np, widen(np, x, dtype), dtype), x)


@pytest.mark.parametrize(("distribution", "mean", "low"), [("normal", 0, -9), ("uniform", 0, -1), ("positive", 0.5, 0)])
def test_distributions_are_what_they_say(distribution, mean, low):
    x = widen(np, draw(np, np.random.default_rng(2), (300, 300), "fp32", distribution), "fp32")
    assert abs(x.mean() - mean) < 0.02 and x.min() >= low
    assert distribution != "normal" or abs(x.std() - 1) < 0.02


def test_the_seed_decides():
    one, two = (draw(np, np.random.default_rng(7), (5, 6), "bf16") for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_poison_is_nan(dtype):
    assert np.isnan(widen(np, poison(np, (3, 4), dtype), dtype)).all()


def test_unknown_names_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="unknown dtype 'fp8'"):
        draw(np, rng, (2, 2), "fp8")
    with pytest.raises(ValueError, match="unknown distribution 'cauchy'"):
        draw(np, rng, (2, 2), "fp32", "cauchy")
