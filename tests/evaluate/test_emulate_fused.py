"""The emulated fused kernel: its order of sums, its roundings, and the known factors of its error."""

from dataclasses import replace

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Scheme
from codegen.chain import assemble
from codegen.plan import plan
from codegen.schedule import Operand, Schedule, Turn, schedule
from evaluate.accuracy import errors
from evaluate.emulate import emulate, emulate_baseline, rounded
from evaluate.emulate_fused import emulate_fused
from evaluate.operands import draw, narrow, widen
from tests.codegen.schemes import plans

PLANS = plans()


def integers(m, k, n):
    rng = np.random.default_rng([m, k, n])
    return (rng.integers(-2, 3, size).astype(np.float32) for size in ((m, k), (k, n)))


@pytest.mark.parametrize("name", [name for name in PLANS if name not in ("rational", "rational2", "rectangular2")])
@pytest.mark.parametrize("planes", ["fp16", "fp32"])
def test_small_integers_come_out_exactly(name, planes):
    a, b = integers(13, 19, 17)
    np.testing.assert_array_equal(emulate_fused(PLANS[name], a, b, "fp32", plane_dtype=planes, scaled=True), a @ b)


def test_denominators_divide():
    a, b = integers(13, 19, 17)
    np.testing.assert_allclose(emulate_fused(PLANS["rational"], a, b, "fp32"), a @ b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "least", "resumed"), [("winograd", 1, False), ("winograd", 2, True), ("winograd2", 4, True)]
)
def test_what_a_first_phase_leaves_is_gone_on_with(name, least, resumed):
    a, b = integers(16, 24, 8)
    order = schedule(PLANS[name], overlap=least)
    assert order.carried and any(each.resume for turn in order.turns for each in turn.publications) == resumed
    np.testing.assert_array_equal(emulate_fused(PLANS[name], a, b, "bf16", order=order), rounded(a @ b, "bf16"))


def scheme_with_a_detour() -> Scheme:
    """C = a1 b1 + x + a2 b2 - x with x = (a1 + a2)(b1 + b2): exact, since the last product takes back the second."""
    u = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
    v = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
    return replace(classical(Format(1, 2, 1)), U=u, V=v, W=np.array([[1, 1, 1, -1]]))


def test_a_plus_c_plus_b_minus_c_is_not_a_plus_b():
    # In fp32 a1 b1 = 1 and a2 b2 = 2^-4 lie far below x = 2^24 or so, whose unit is 1 or 2.
    made = plan(scheme_with_a_detour())
    a = np.array([[2.0**-12, 2.0**12 + 1]], np.float32)
    b = np.array([[2.0**12 + 2], [2.0**-12]], np.float32)
    one, two = a[0, 0] * b[0, 0], a[0, 1] * b[1, 0]
    x = (a[0, 0] + a[0, 1]) * (b[0, 0] + b[1, 0])
    detour = ((one + x) + two) - x
    assert detour != one + two, "these numbers show the order"
    assert emulate(made, a, b, "fp32")[0, 0] == detour
    assert emulate(plan(classical(Format(1, 2, 1))), a, b, "fp32")[0, 0] == one + two

    # The fused kernel adds in the order of its chain.
    operands = [Operand(False, 0), Operand(True, 0), Operand(False, 1), Operand(True, 0)]

    def ordered(products):
        chain = assemble(made.scheme.W, products, [1] * 4)
        turns = [Turn(operands[s.product], operands[s.product], s.clear, s.publications) for s in chain.steps]
        return Schedule(made, ((1, 1),), ((1, 1),), tuple(turns), chain.slots)

    late = ((one + two) + x) - x
    assert late != detour
    assert emulate_fused(made, a, b, "fp32", order=ordered([0, 1, 2, 3]))[0, 0] == detour
    assert emulate_fused(made, a, b, "fp32", order=ordered([0, 2, 1, 3]))[0, 0] == late


def test_publications_are_made_in_fp32_in_the_order_of_the_schedule():
    rng = np.random.default_rng(8)
    made = PLANS["winograd"]
    a, b = (widen(np, draw(np, rng, (32, 32), "bf16"), "bf16", "float32") for _ in range(2))
    order = schedule(made)
    grid = [[x[:16, :16], x[:16, 16:], x[16:, :16], x[16:, 16:]] for x in (a, b)]

    def factor(side, operand):
        if not operand.plane:
            return grid[side][operand.index]
        vector = (order.planes_a, order.planes_b)[side][operand.index]
        terms = sorted((c < 0, i) for i, c in enumerate(vector) if c)
        total = np.zeros((16, 16), np.float32)
        for _, i in terms:
            total = total + vector[i] * grid[side][i]
        return rounded(total, "bf16")

    # By block instead of by slot, which a wrong slot would show.
    sums, accumulator = {}, np.zeros((16, 16), np.float32)
    for turn in order.turns:
        product = factor(0, turn.a) @ factor(1, turn.b)
        accumulator = product if turn.clear else accumulator + product
        for each in turn.publications:
            added = np.float32(each.coefficient) * accumulator
            sums[each.block] = added + sums[each.block] if each.block in sums else added
    expected = np.block([[sums[0], sums[1]], [sums[2], sums[3]]])
    np.testing.assert_array_equal(emulate_fused(made, a, b, "bf16"), rounded(expected, "bf16"))


# Factors of the relative Frobenius error over a plain GEMM with bf16 operands, simulated independently at n = 1024 from
# one draw: planes bf16 for Strassen, Winograd and two levels of each, then planes fp16. The last number is how far
# apart the logarithms may be. Normal and uniform inputs average over n^2 elements, which leaves a few per cent at
# n = 384. With positive ones C grows like n and the rounding of planes like its root, so that the excess over 1 is
# larger at small n. Outliers leave 8 columns that decide, log-normal scales a few rows and columns that may meet in one
# block or not: there only the order of magnitude is compared.
FACTORS = {
    "normal": ((2.83, 3.74, 5.80, 9.93), (1.01, 1.03, 1.10, 1.42), 0.03),
    "uniform": ((2.83, 3.77, 5.86, 10.0), (1.00, 1.02, 1.07, 1.36), 0.03),
    "positive": ((1.01, 1.00, 1.05, 1.01), (1.00, 1.00, 1.00, 1.00), 0.13),
    "outliers60": ((2.74, 3.62, 5.69, 9.60), (1.02, 1.05, 1.14, 1.45), 0.15),
    "lognormal": ((2.63, 3.73, 11.2, 13.3), (1.05, 1.04, 1.22, 1.65), 1.2),
}


@pytest.fixture(scope="module")
def scheduled():
    made = [plan(scheme, levels) for levels in (1, 2) for scheme in (strassen(), winograd())]
    return [(one, {planes: schedule(one, planes != "bf16") for planes in ("bf16", "fp16")}) for one in made]


@pytest.mark.parametrize("distribution", FACTORS)
def test_errors_grow_by_the_known_factors(scheduled, distribution):
    n, seeds = 384, 3 if distribution == "lognormal" else 1
    *known, tolerance = FACTORS[distribution]
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        a, b = (draw(np, rng, (n, n), "bf16", distribution, side) for side in "ab")
        x, y = (widen(np, stored, "bf16", "float32") for stored in (a, b))
        outputs = [emulate_baseline(x, y, "bf16")]
        for planes in ("bf16", "fp16"):
            for made, orders in scheduled:
                outputs.append(
                    emulate_fused(made, x, y, "bf16", plane_dtype=planes, scaled=planes == "fp16", order=orders[planes])
                )
        plain, *ours = errors(np, [narrow(np, c, "bf16") for c in outputs], a, b, "bf16")
        found.append([one.fro / plain.fro for one in ours])
    assert np.abs(np.log(np.median(found, axis=0) / np.concatenate(known))).max() < tolerance


def test_narrow_pending_tiles_cost_little_and_keep_what_is_not_finite():
    found, rng = plan(winograd()), np.random.default_rng(0)
    a, b = (widen(np, draw(np, rng, (256, 256), "bf16"), "bf16").astype(np.float32) for _ in "ab")
    exact = a.astype(np.float64) @ b
    wide, tight = (
        float(np.linalg.norm(emulate_fused(found, a, b, "bf16", plane_dtype="fp16", pending_bits=bits) - exact))
        for bits in (32, 16)
    )
    assert wide < tight < 1.03 * wide
    ones = [(rng.integers(-1, 2, (40, 40)) * 2.0**60).astype(np.float32) for _ in "ab"]
    np.testing.assert_array_equal(emulate_fused(found, *ones, "fp32", pending_bits=16), ones[0] @ ones[1])
    a[3, 7] = np.inf
    with np.errstate(invalid="ignore"):
        result = emulate_fused(found, a, b, "bf16", pending_bits=16)
    finite = np.isfinite(result)
    assert not finite[3].any() and finite[[0, 1, 2, 4, 5, 130, 132]].all()
    assert np.abs(result[2] - exact[2]).max() < 0.05 * np.abs(exact[2]).max()  # in the same strip as the infinity


def test_bad_calls_are_refused():
    a, b = np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(ValueError, match="A has 3 columns but B has 4 rows"):
        emulate_fused(plan(strassen()), a, b, "fp16")
    with pytest.raises(ValueError, match="unknown plane dtype"):
        emulate_fused(plan(strassen()), a, b[:3], "fp16", plane_dtype="fp8")
