"""The attribution of an error to its roundings."""

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format
from codegen.plan import plan
from evaluate.attribution import ARMS, attribution

SHAPE = 256, 256, 256


def by_arm(*arguments, **options):
    rows = attribution(*arguments, **options)
    assert [row["arm"] for row in rows] == list(ARMS)
    return {row["arm"]: row for row in rows}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_squares_of_the_parts_add_up(dtype):
    # Roundings are independent, so what planes and products add to the squared factor over a plain GEMM adds up: 7 and
    # 4 for Strassen's scheme, which follows from its coefficients.
    found = by_arm(plan(strassen()), SHAPE, dtype, seeds=2)
    excess = {arm: row["error_fro_ratio_median"] ** 2 - 1 for arm, row in found.items()}
    expected = {"fp32": 0, "planes": 7, "products": 4, "both": 11, "fused": 7}
    assert excess == pytest.approx(expected, rel=0.06, abs=0.01)
    assert all(row["correct"] and row["growth"] == pytest.approx(14.83, abs=0.01) for row in found.values())
    assert all(row["stability"] == 12 for row in found.values())


def test_planes_of_fp16_keep_what_bf16_rounds():
    found = by_arm(plan(winograd()), SHAPE, "bf16", plane_dtype="fp16")
    assert found["fused"]["error_fro_ratio"] < 1.05 < 2.5 < found["both"]["error_fro_ratio"]
    assert found["products"]["error_fro_ratio"] == pytest.approx(found["both"]["error_fro_ratio"], rel=0.02)


def test_a_scheme_without_planes_has_only_products_to_round():
    found = by_arm(plan(classical(Format(1, 2, 1))), SHAPE, "bf16")
    assert found["fp32"]["error_fro_ratio"] == pytest.approx(1, abs=0.01)
    assert found["planes"]["error_fro"] == found["fp32"]["error_fro"]
    assert found["both"]["error_fro"] == found["products"]["error_fro"]
    # Each product has half of C's variance. Where in its binade a typical number lies, which differs by the root of 2,
    # changes the mean square of roundings by a tenth.
    assert found["products"]["error_fro_ratio"] == pytest.approx(np.sqrt(2), rel=0.07)


def test_seeds_give_median_and_worst():
    found = by_arm(plan(strassen()), (48, 40, 56), "bf16", seeds=3, distribution="lognormal")
    single = [by_arm(plan(strassen()), (48, 40, 56), "bf16", seed=s, distribution="lognormal") for s in range(3)]
    for key in ("error_fro", "error_max", "error_componentwise_ratio", "baseline_error_ulp_p999"):
        for arm, row in found.items():
            values = sorted(one[arm][key] for one in single)
            assert (row[key], row[f"{key}_median"], row[f"{key}_worst"]) == (single[0][arm][key], values[1], values[2])
            assert row["error_seeds"] == 3


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="unknown dtype 'fp32'"):
        attribution(plan(strassen()), SHAPE, "fp32")
    with pytest.raises(ValueError, match="must be at least 1"):
        attribution(plan(strassen()), (0, 1, 1), "bf16")
