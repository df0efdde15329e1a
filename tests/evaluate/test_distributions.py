"""Hard inputs are what they say, on either side, stored either way, drawn in chunks or at once."""

import numpy as np
import pytest

from evaluate import operands
from evaluate.operands import DISTRIBUTIONS, draw, widen
from subcubic.bench_options import Distribution

DTYPES = ["fp16", "bf16", "fp32", "fp64"]


def drawn(distribution, side, transposed=False, dtype="fp32", outer=120, inner=80, seed=3):
    """A matrix with the inner dimension last, as fp64 values."""
    shape = (outer, inner) if (side == "a") != transposed else (inner, outer)
    matrix = draw(np, np.random.default_rng(seed), shape, dtype, distribution, side, transposed)
    assert matrix.shape == shape and matrix.dtype == operands.DTYPES[dtype].storage
    values = widen(np, matrix, dtype)
    return values if shape == (outer, inner) else values.T


def test_the_command_line_offers_all_distributions():
    assert {item.value for item in Distribution} == set(DISTRIBUTIONS)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lognormal_scales_rows_of_a_and_columns_of_b(dtype, side, transposed):
    x = drawn("lognormal", side, transposed, dtype, outer=400, inner=300)
    if dtype == "fp16":
        assert 1 < np.abs(x).max() < 10  # the largest scale is 1
        return
    scales = np.log(np.sqrt((x * x).mean(axis=1)))
    assert scales.std() == pytest.approx(3, rel=0.15) and abs(scales.mean()) < 0.6
    scaled = x / np.exp(scales)[:, None]
    assert np.abs((scaled * scaled).mean(axis=0) - 1).max() < 0.4  # along the inner dimension all are alike


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("name", "factor"), [("outliers", 1000), ("outliers60", 60)])
def test_outliers_are_eight_columns_of_a(name, factor, transposed):
    size = np.sort(np.sqrt((drawn(name, "a", transposed) ** 2).mean(axis=0)))
    assert np.abs(size[-8:] / factor - 1).max() < 0.4 and size[-9] < 1.4
    assert np.abs(drawn(name, "b", transposed)).max() < 7


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cancellation_leaves_one_part_in_32(dtype, transposed):
    a, b = (drawn("cancellation", side, transposed, dtype, inner=81, seed=7 + (side == "b")) for side in "ab")
    np.testing.assert_array_equal(a[:, :40], a[:, 40:80])
    left = b[:, :40] + b[:, 40:80]
    assert np.sqrt((left**2).mean() / (b**2).mean()) == pytest.approx(1 / 32, rel=0.15)
    assert np.abs(a[:, :80] @ b[:, :80].T).max() < 0.2 * (np.abs(a) @ np.abs(b).T).min()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nonfinite_lies_in_the_outer_rows_of_a_and_one_column_of_b(dtype, transposed):
    a, b = (drawn("nonfinite", side, transposed, dtype) for side in "ab")
    assert (a == np.inf).sum() == 1 and (a[0] == np.inf).any()
    assert (a == -np.inf).sum() == 1 and (a[-1] == -np.inf).any()
    assert np.isnan(b).sum() == 1 and np.isfinite(b).sum() == b.size - 1


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_seed_decides_and_chunks_are_seamless(distribution, monkeypatch):
    once, again, other = (drawn(distribution, "a", dtype="bf16", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other, equal_nan=True)
    monkeypatch.setattr(operands, "_CHUNK", 7 * 80)
    np.testing.assert_array_equal(drawn(distribution, "a", dtype="bf16", seed=1), once)
    b = drawn("cancellation", "b")  # whose second half is made of the first in chunks too
    assert np.sqrt(((b[:, :40] + b[:, 40:]) ** 2).mean()) == pytest.approx(1 / 32, rel=0.15)


def test_an_unknown_side_is_refused():
    with pytest.raises(ValueError, match="unknown side 'c'"):
        draw(np, np.random.default_rng(0), (2, 2), "fp32", side="c")
