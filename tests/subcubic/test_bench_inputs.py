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


@pytest.mark.parametrize("what", [["--path", "thin"], ["strassen", "--epilogue", "gelu"]], ids=["thin", "epilogue"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", -1], "--size -1 must be at least 1"),
        (["--size", 1 << 40], "must be at most 1048576"),
        (["--levels", 10**17], "must be at most 12"),
        (["--limit", "nan"], "--limit nan must be a positive number of seconds"),
        (["--limit", -1], "--limit -1.0 must be a positive number of seconds"),
        (["--seeds", 0], "--seeds 0 must be at least 1"),
        (["--seed", -1], "--seed -1 must be at least 0"),
        (["--total", 5], "has no --total; leave it out"),
        (["--resume"], "has no --resume; leave it out"),
        (["--device", "cpu"], "measures on a GPU; leave it or --device cpu out"),
        (["--nvbench"], "has no --nvbench; leave it out"),
        (["--emitter", "overlap=1"], "has no --emitter; leave it out"),
    ],
)
def test_other_measurements_heed_their_options_or_refuse_them(cli, home, what, words, message):
    """Before a device is asked for, and before levels beyond all reason are planned."""
    done = cli("bench", *what, *words, "--out", home / "results")
    assert done.code == 2 and message in done.err
    assert not (home / "results").exists()


def test_thin_products_have_few_rows(cli):
    done = cli("bench", "--path", "thin", "--shape", "17,8,8")
    assert done.code == 2 and "17 rows are no thin product; M is at most 16" in done.err
