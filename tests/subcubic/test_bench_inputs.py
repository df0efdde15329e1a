"""Inputs that ``subcubic bench`` draws: their distribution and seeds."""

import pytest

from evaluate.operands import DISTRIBUTIONS


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_distribution_can_be_measured(cli, distribution):
    found = cli(
        *("bench", "strassen", "--device", "cpu", "--size", 40, "--dtype", "bf16", "--levels", 1),
        *("--distribution", distribution, "--seeds", 2, "--json"),
    )
    assert found.code == 0, found.err
    (row,) = found.json["rows"]
    assert row["distribution"] == distribution and row["error_seeds"] == 2 and row["correct"]
    assert row["error_fro"] <= row["error_fro_worst"] and row["error_fro_median"] <= row["error_fro_worst"]


def test_less_than_one_seed_is_a_usage_error(cli):
    assert cli("bench", "strassen", "--device", "cpu", "--seeds", 0).code == 2
