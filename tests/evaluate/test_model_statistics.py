"""Statistics of the model check against values that are known."""

import numpy as np
import pytest

from evaluate.model_statistics import RESAMPLES, Tally, mean, number, relative_difference, resamples


def scores(ours, theirs, **changes):
    count = len(ours)
    facts = {"bits": [ours, theirs], "right": [[1] * count, [2] * count], "agreed": [3] * count}
    return {**facts, "square": 4.0, "scale": 100.0, "largest": 0.5, "nonfinite": 0, **changes}


def test_what_does_not_vary_has_no_interval():
    chosen = resamples(20, 0)
    assert mean(np.full(20, 0.25), chosen) == (0.25, 0.25, 0.25)
    theirs = np.linspace(1, 5, 20)
    assert relative_difference(1.02 * theirs, theirs, chosen) == pytest.approx((0.02, 0.02, 0.02))


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(1).standard_normal(2000)
    middle, low, high = mean(values, resamples(2000, 0))
    half = 1.96 * values.std() / np.sqrt(2000)
    assert middle == pytest.approx(values.mean())
    assert low == pytest.approx(middle - half, abs=0.1 * half) and high == pytest.approx(middle + half, abs=0.1 * half)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng, held = np.random.default_rng(2), 0
    for seed in range(200):
        theirs = rng.uniform(50, 150, 60)
        ours = theirs * 1.01 + rng.normal(0, 1, 60)
        _, low, high = relative_difference(ours, theirs, resamples(60, seed))
        held += low <= 0.01 <= high
    assert 178 <= held <= 199  # 95 % of 200 and four deviations below


def test_pairing_leaves_out_what_sequences_have_in_common():
    rng = np.random.default_rng(3)
    theirs = rng.uniform(10, 1000, 300)  # some are far easier than others
    ours = theirs + rng.normal(0.1, 0.1, 300)
    chosen = resamples(300, 0)
    _, low, high = relative_difference(ours, theirs, chosen)
    assert 0 < low < high < 1e-3 and mean(theirs, chosen)[2] - mean(theirs, chosen)[1] > 50


def test_batches_add_up():
    tally = Tally(4)
    tally.add(scores([8.0, 16.0], [8.0, 8.0]))
    tally.add(scores([12.0], [8.0], square=5.0, largest=0.25, nonfinite=7))
    row = tally.row()
    assert (row["sequences"], row["tokens"]) == (3, 12)
    assert (row["bits_per_byte"], row["baseline_bits_per_byte"]) == (3.0, 2.0)
    assert row["bits_per_byte_relative"] == pytest.approx(0.5)
    assert (row["accuracy"], row["baseline_accuracy"], row["accuracy_difference"]) == (0.25, 0.5, -0.25)
    assert row["top1_agreement"] == 0.75 and row["logits_difference_max"] == 0.5 and row["nonfinite_logits"] == 7
    assert row["logits_difference_fro"] == pytest.approx((9 / 200) ** 0.5)
    assert row == tally.row()


def test_nothing_that_is_not_finite_is_hidden():
    tally = Tally(4)
    nan = float("nan")
    tally.add(scores([nan], [8.0], square=nan, largest=nan, nonfinite=3))
    tally.add(scores([8.0], [8.0]))
    row = tally.row()
    assert row["bits_per_byte"] is row["bits_per_byte_relative"] is row["bits_per_byte_relative_low"] is None
    assert row["logits_difference_max"] is row["logits_difference_fro"] is None and row["nonfinite_logits"] == 3
    assert row["baseline_bits_per_byte"] == 2.0 and number(float("inf")) is None


def test_resamples_draw_with_replacement():
    chosen = resamples(10, 5)
    assert chosen.shape == (RESAMPLES, 10) and set(chosen.ravel()) == set(range(10))
    assert np.mean([len(set(row)) for row in chosen]) == pytest.approx(10 * (1 - 0.9**10), abs=0.1)
    assert (chosen == resamples(10, 5)).all() and (chosen != resamples(10, 6)).any()
