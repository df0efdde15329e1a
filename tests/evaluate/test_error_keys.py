"""The keys of a row about errors, over several seeds and for C that is not finite."""

import json

import pytest

from catalog.known import strassen, winograd
from codegen.plan import plan
from evaluate.accuracy import Errors
from evaluate.bench import bench
from evaluate.cases import Settings
from evaluate.error_keys import error_keys, ratio
from evaluate.report import text

MEASURES = ("fro", "max", "componentwise", "ulp_p999")


def test_rows_have_every_measure_of_both_and_their_ratio():
    found = bench([plan(strassen())], [(40, 50, 60)], ["bf16", "fp64"], device="cpu", pairs=1)
    for row in found["rows"]:
        for name in MEASURES:
            ours, baseline = row[f"error_{name}"], row[f"baseline_error_{name}"]
            assert ours > 0 and baseline > 0 and row[f"error_{name}_ratio"] == pytest.approx(ours / baseline)
        assert row["growth"] == pytest.approx(14.83, abs=0.01) and row["stability"] == 12
        assert row["error_seeds"] == 1 and row["correct"] and "error_fro_worst" not in row


def test_seeds_are_measured_as_if_alone():
    def rows(**settings):
        made = [plan(winograd())]
        return bench(
            made, [(48, 40, 56)], ["fp16", "fp32"], device="cpu", pairs=1, distribution="outliers", **settings
        )["rows"]

    alone = [rows(seed=seed) for seed in (5, 6, 7)]
    for number, row in enumerate(rows(seed=5, seeds=3)):
        values = sorted(one[number]["error_fro_ratio"] for one in alone)
        assert row["error_fro_ratio"] == alone[0][number]["error_fro_ratio"]
        assert [row["error_fro_ratio_median"], row["error_fro_ratio_worst"]] == values[1:]
        assert row["error_seeds"] == 3
    with pytest.raises(ValueError, match="seeds must be at least 1, not 0"):
        Settings(seeds=0)


def test_inputs_that_are_not_finite_give_a_row_like_others():
    found = bench([plan(winograd())], [(48, 40, 56)], ["bf16", "fp32"], device="cpu", pairs=1, distribution="nonfinite")
    for row in found["rows"]:
        assert row["correct"] and row["error_missing"] == 0 < row["error_spread"]
        assert 0 < row["error_fro"] < 0.05
    json.dumps(found["rows"], allow_nan=False)
    assert "WRONG" not in text(found["rows"])


def test_what_is_not_a_number_is_null_and_one_wrong_seed_makes_a_row_wrong():
    good = Errors(1e-3, 1e-3, 1e-3, 1.0, 8, 2.0)
    bad = Errors(float("nan"), float("nan"), float("nan"), float("nan"), 8, float("nan"))
    row = error_keys(plan(strassen()), [(good, good), (bad, good)], "bf16", "bf16", 64)
    assert row["error_fro"] == 1e-3 and row["error_fro_worst"] is None and not row["correct"]
    assert error_keys(plan(strassen()), [(good, good)] * 2, "bf16", "bf16", 64)["correct"]
    json.dumps(row, allow_nan=False)
    assert ratio(0.0, 0.0) == 1 and ratio(1.0, 0.0) == float("inf")
