"""Errors against an exact reference; a wrong kernel is caught."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Scheme
from catalog.transform import extend
from codegen.plan import Plan, plan
from evaluate.accuracy import (
    SAMPLE_ROWS,
    WHOLE_ROWS,
    errors,
    exact_parts,
    is_correct,
    sample_rows,
    tolerance,
    units,
)
from evaluate.cut import Cut
from evaluate.emulate import emulate
from evaluate.operands import DTYPES, draw, narrow, widen
from tests.fuzzing import examples


def operands(dtype, m=40, k=70, n=50, seed=0):
    rng = np.random.default_rng(seed)
    return draw(np, rng, (m, k), dtype), draw(np, rng, (k, n), dtype)


def test_errors_are_those_of_the_definition():
    a, b = operands("fp32")
    truth = a.astype(float) @ b.astype(float)
    wrong = (truth + 1e-3 * np.abs(truth)).astype(np.float32)
    found = errors(np, [wrong], a, b, "fp32")[0]
    error = np.abs(wrong.astype(float) - truth)
    assert found.fro == pytest.approx(np.linalg.norm(error) / np.linalg.norm(truth), rel=1e-9)
    assert found.max == pytest.approx(error.max() / np.abs(truth).max(), rel=1e-9)
    bound = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    assert found.componentwise == pytest.approx((error / bound).max(), rel=1e-9)
    assert found.normalised == pytest.approx(found.componentwise / (70 * 2.0**-24), rel=1e-9)


def test_the_fp64_reference_is_far_better_than_fp64():
    a, b = operands("fp64", 3, 40, 4)
    parts = exact_parts(np, a, b, "fp64")
    for i in range(3):
        for j in range(4):
            true = sum((Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j], strict=True)), Fraction(0))
            ours = sum((Fraction(float(part[i, j])) for part in parts), Fraction(0))
            scale = sum(abs(Fraction(x) * Fraction(y)) for x, y in zip(a[i], b[:, j], strict=True))
            assert abs(ours - true) <= scale * Fraction(1, 2**62)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_a_rounded_exact_result_has_errors_of_half_a_unit(dtype):
    a, b = operands(dtype)
    wide = "float64"
    c = narrow(np, (widen(np, a, dtype, wide) @ widen(np, b, dtype, wide)), dtype)
    found = errors(np, [c], a, b, dtype)[0]
    assert 0 < found.fro < {"fp16": 2**-11, "bf16": 2**-8, "fp32": 2**-24, "fp64": 2**-50}[dtype]


def test_nan_and_infinity_are_never_correct():
    a, b = operands("fp32")
    for bad in (np.nan, np.inf):
        c = a @ b
        c[3, 4] = bad
        assert not is_correct(errors(np, [c], a, b, "fp32")[0], 1.0)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_units_in_the_last_place_are_distances_between_numbers(dtype):
    smallest = DTYPES[dtype].smallest
    values = np.array([1.0, 1.75, 2.0, -3.0, 0.75, smallest, 3 * smallest, 0.0])
    unit = 2 * DTYPES[dtype].roundoff
    expected = [unit, unit, 2 * unit, 2 * unit, unit / 2, smallest, smallest, smallest]
    np.testing.assert_array_equal(units(np, values, dtype), expected)


def test_all_but_one_element_in_a_thousand_is_within_the_percentile():
    a, b = np.eye(100), np.random.default_rng(1).uniform(1, 2, (100, 100))
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = b.copy()
    c.flat[:10] += 1  # one in a thousand
    c.flat[10] += 3 * 2.0**-23
    assert errors(np, [c], a, b, "fp32")[0].ulp == 3
    assert errors(np, [b], a, b, "fp32")[0].ulp == 0


def test_an_error_is_judged_beside_what_may_be_mixed_into_it():
    a, b = operands("fp32", 8, 12, 6)
    a[2] = a[6] = 0
    c = a @ b
    assert errors(np, [c], a, b, "fp32")[0].mixed < 1e-6
    c[2, 1] = 1e-3
    whole, halves = (errors(np, [c], a, b, "fp32", blocks=blocks)[0].mixed for blocks in ((1, 1, 1), (2, 2, 2)))
    assert whole == halves == np.inf  # rows 2 and 6 are mates, and both are zero
    a[6] = 1000.0
    c[6] = a[6] @ b
    halves = errors(np, [c], a, b, "fp32", blocks=(2, 3, 2))[0].mixed
    wide = np.abs(b.astype(float)).reshape(3, 4, 2, 3) ** 2
    size = np.sqrt(3e6 * wide.sum(axis=(0, 2))[:, 1].sum())
    assert halves == pytest.approx(1e-3 / size, rel=1e-3)


def test_small_results_are_compared_whole_and_large_ones_by_stripes_and_edges():
    assert sample_rows(WHOLE_ROWS, 2, 0).tolist() == list(range(WHOLE_ROWS))
    rows = sample_rows(10_001, 4, 5)
    assert len(rows) <= SAMPLE_ROWS + 10 and rows[-1] == 10_000 and rows[0] == 0
    assert {2500, 2501, 5001, 5002, 7502, 7503} <= set(rows.tolist())
    assert np.diff(rows).max() < 2 * 10_001 / SAMPLE_ROWS + 2


def broken(whole: Plan, change) -> Plan:
    """A plan whose last side has been tampered with; planning one from a wrong scheme is refused."""
    weights = whole.scheme.W.copy()
    change(weights)
    return replace(whole, scheme=replace(whole.scheme, W=weights))


def drop_product(weights):
    weights[:, 3] = 0


def flip_sign(weights):
    weights[np.argmax(weights[:, 1] != 0), 1] *= -1


def wrong_place(weights):
    weights[[0, 1]] = weights[[1, 0]]


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("change", [drop_product, flip_sign, wrong_place])
@pytest.mark.parametrize("scheme", [strassen(), winograd(), extend(winograd(), "n")], ids=str)
def test_a_wrong_kernel_is_caught(scheme: Scheme, change, dtype):
    right = plan(scheme)
    a, b = operands(dtype, 64, 96, 60)
    wide = [widen(np, x, dtype, "float32") for x in (a, b)]
    outputs = [narrow(np, emulate(p, *wide, dtype), dtype) for p in (right, broken(right, change))]
    good, bad = errors(np, outputs, a, b, dtype)
    limit = tolerance(right, dtype, dtype, 96)
    assert is_correct(good, limit)
    assert not is_correct(bad, limit) and bad.fro > 20 * good.fro


def test_a_missing_last_row_is_caught():
    a, b = operands("bf16", 2000, 32, 16)
    c = narrow(np, widen(np, a, "bf16", "float32") @ widen(np, b, "bf16", "float32"), "bf16")
    limit = tolerance(plan(winograd()), "bf16", "bf16", 32)
    rows = sample_rows(2000, 2, 0)
    assert is_correct(errors(np, [c], a, b, "bf16", rows)[0], limit)
    c[-1] = 0
    assert not is_correct(errors(np, [c], a, b, "bf16", rows)[0], limit)


def test_blocks_that_are_rounded_up_have_other_mates():
    a, b = operands("fp32", 10, 8, 12)
    a[0, 0] = b[3, 1] = np.inf
    with np.errstate(invalid="ignore"):
        c = a @ b
    c[8], c[:, 9] = np.nan, np.nan  # the mates of row 0 and column 1 in blocks of 8
    rounded = errors(np, [c], a, b, "fp32", blocks=(2, 1, 2), block_units=(8, 8, 8))[0]
    assert rounded.spread == 11 + 9 - 1 and rounded.missing == 0 and is_correct(rounded, 1e-5)
    assert not is_correct(errors(np, [c], a, b, "fp32", blocks=(2, 1, 2))[0], 1e-5)
    assert [Cut(10, 2, 8).side, Cut(10, 2).side, Cut(1000, 2, 64).side] == [8, 5, 512]


@examples(10)
@given(seed=st.integers(0, 2**32), sizes=st.tuples(*(st.integers(1, 40) for _ in "mkn")), levels=st.integers(1, 2))
@example(seed=1, sizes=(4, 1, 3), levels=1)  # one element is small beside what is mixed into it
def test_right_kernels_stay_within_the_tolerance(seed, sizes, levels):
    a, b = operands("fp16", *sizes, seed=seed)
    the_plan = plan(winograd() if seed % 2 else classical(Format(1, 2, 2)), levels)
    c = narrow(np, emulate(the_plan, *(widen(np, x, "fp16", "float32") for x in (a, b)), "fp16"), "fp16")
    found = errors(np, [c], a, b, "fp16", blocks=tuple(the_plan.format))[0]
    assert is_correct(found, tolerance(the_plan, "fp16", "fp16", sizes[1]))
