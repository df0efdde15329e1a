"""A wrong kernel is caught on every kind of input where its error is larger than that of a right one.

Where it is not: with cancellation, the rounding of a right kernel in a 16-bit type is as large as C, so one wrong row
cannot be told from it; in fp32 it can. With inputs that are not finite, an element that such an input may reach can be
NaN, so that one that was never written is not seen there.
"""

from dataclasses import replace

import numpy as np
import pytest

from catalog.known import strassen, winograd
from catalog.transform import extend
from codegen.plan import plan
from evaluate.accuracy import errors, is_correct, tolerance
from evaluate.emulate import emulate, emulate_baseline
from evaluate.emulate_fused import emulate_fused
from evaluate.operands import DISTRIBUTIONS, draw, narrow, poison, widen

SIZES = 128, 192, 120  # M, K, N
PLANS = {"strassen": plan(strassen()), "winograd": plan(winograd()), "extended": plan(extend(winograd(), "n"))}


def operands(dtype, distribution, seed=0):
    m, k, n = SIZES
    rng = np.random.default_rng(seed)
    return draw(np, rng, (m, k), dtype, distribution, "a"), draw(np, rng, (k, n), dtype, distribution, "b")


def judged(made, outputs, a, b, dtype):
    """The errors of each output [M, N] of stored values, and whether it passes."""
    found = errors(np, outputs, a, b, dtype, blocks=made.format)
    limit = tolerance(made, dtype, dtype, SIZES[1])
    return [(one, is_correct(one, limit)) for one in found]


def computed(compute, made, a, b, dtype):
    return narrow(np, compute(made, *(widen(np, x, dtype, "float32") for x in (a, b)), dtype), dtype)


def tampered(made, product, change):
    """The plan with a coefficient of W changed in the column of a product; planning such a scheme is refused."""
    weights = made.scheme.W.copy()
    if change == "dropped":
        weights[:, product] = 0
    else:
        weights[np.argmax(weights[:, product] != 0), product] *= -1
    return replace(made, scheme=replace(made.scheme, W=weights))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", PLANS)
def test_a_right_kernel_passes(name, dtype, distribution):
    for seed, compute in enumerate((emulate, emulate_fused)):
        a, b = operands(dtype, distribution, seed)
        found = judged(PLANS[name], [computed(compute, PLANS[name], a, b, dtype)], a, b, dtype)
        assert found[0][1], found


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("change", ["dropped", "sign"])
@pytest.mark.parametrize("name", PLANS)
def test_a_wrong_product_is_caught(name, change, distribution):
    made = PLANS[name]
    a, b = operands("bf16", distribution)
    wrong = [computed(emulate, tampered(made, product, change), a, b, "bf16") for product in range(made.rank)]
    passed = [product for product, (_, passes) in enumerate(judged(made, wrong, a, b, "bf16")) if passes]
    assert passed == []


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("last", ["zero", "previous"])
def test_a_wrong_last_row_is_caught(last, dtype, distribution):
    made = PLANS["winograd"]
    a, b = operands(dtype, distribution)
    c = computed(emulate, made, a, b, dtype)
    c[-1] = 0 if last == "zero" else c[-2]
    lost = distribution == "cancellation" and dtype == "bf16"
    assert judged(made, [c], a, b, dtype)[0][1] == lost


@pytest.mark.parametrize("distribution", [name for name in DISTRIBUTIONS if name != "nonfinite"])
def test_a_last_row_that_is_never_written_is_caught(distribution):
    made = PLANS["winograd"]
    a, b = operands("bf16", distribution)
    c = computed(emulate, made, a, b, "bf16")
    c[-1] = poison(np, (1, SIZES[2]), "bf16")
    assert not judged(made, [c], a, b, "bf16")[0][1]


def test_what_is_not_finite_must_come_out_and_may_only_spread_to_the_same_place_of_other_blocks():
    made = PLANS["winograd"]
    a, b = operands("bf16", "nonfinite")
    plain = narrow(np, emulate_baseline(*(widen(np, x, "bf16", "float32") for x in (a, b)), "bf16"), "bf16")
    c = computed(emulate, made, a, b, "bf16")
    (baseline, right), (ours, passes) = judged(made, [plain, c], a, b, "bf16")
    assert right and passes and baseline.spread == baseline.missing == ours.missing == 0
    column = int(np.argmax(np.isnan(widen(np, b, "bf16")).any(axis=0)))
    # Two rows and a column of C are not finite; each has one mate, so at most so many more elements may be spoiled.
    assert 0 < ours.spread <= 2 * SIZES[2] + SIZES[0]
    hidden, elsewhere = c.copy(), c.copy()
    hidden[0, (column + 5) % SIZES[2]] = 0
    elsewhere[5, (column + 5) % (SIZES[2] // 2)] = poison(np, (1, 1), "bf16")[0, 0]
    (missing, _), (_, spread_passes) = found = judged(made, [hidden, elsewhere], a, b, "bf16")
    assert missing.missing == 1 and not any(passes for _, passes in found) and not spread_passes
    # The same beside a plain GEMM, which mixes nothing.
    assert not is_correct(errors(np, [c], a, b, "bf16")[0], 1.0)
