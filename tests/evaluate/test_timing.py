"""Statistics of interleaved timings on samples whose answer is known."""

import numpy as np
import pytest

from evaluate.timing import MIN_PAIRS, compare, rounds, summarise, verdict


def row(comparison, **facts):
    return {"ratio_low": comparison.ratio_low, "ratio_high": comparison.ratio_high, "pairs": comparison.pairs, **facts}


def noisy(rng, centre, count=40, spread=0.02):
    return centre * (1 + spread * rng.standard_normal(count))


def test_medians_and_ratio_are_those_of_the_samples():
    found = summarise([2.0, 1.0, 4.0], [6.0, 3.0, 3.0])
    assert (found.seconds, found.baseline_seconds, found.ratio, found.pairs) == (2.0, 3.0, 1.5, 3)
    assert found.ratio_low <= found.ratio <= found.ratio_high


def test_a_real_gain_is_faster_a_real_loss_is_slower():
    rng = np.random.default_rng(1)
    base = noisy(rng, 1.0)
    assert verdict(row(summarise(noisy(rng, 0.9), base))) == "faster"
    assert verdict(row(summarise(noisy(rng, 1.1), base))) == "slower"


def test_equal_arms_are_no_difference_in_nearly_all_runs():
    rng = np.random.default_rng(2)
    verdicts = [verdict(row(summarise(noisy(rng, 1.0), noisy(rng, 1.0)))) for _ in range(60)]
    assert verdicts.count("no difference") >= 50


def test_an_outlier_hardly_moves_the_ratio():
    base = [1.0 + 0.001 * i for i in range(31)]
    ours = [*base[:-1], 50.0]
    assert abs(summarise(ours, base).ratio - 1) < 0.002


def test_too_few_pairs_and_wrong_results_support_nothing():
    found = summarise([0.5] * (MIN_PAIRS - 1), [1.0] * (MIN_PAIRS - 1))
    assert verdict(row(found)) == "not measured"
    found = summarise([0.5] * 30, [1.0] * 30)
    assert verdict(row(found)) == "faster"
    assert verdict(row(found, correct=False)) == "not measured"
    assert verdict({}) == "not measured"


@pytest.mark.parametrize(("ours", "base"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([float("nan")], [1.0])])
def test_bad_samples_are_refused(ours, base):
    with pytest.raises(ValueError, match="timings must be"):
        summarise(ours, base)


def test_arms_are_interleaved_in_random_order():
    order = []
    seconds = {"ours": 0.5, "baseline": 1.0}

    def measure(launch):
        order.append(launch)
        return seconds[launch]

    found = compare(measure, "ours", "baseline", pairs=40, seed=3)
    assert found.ratio == 2.0 and found.pairs == 40
    firsts = order[::2]
    assert all({a, b} == {"ours", "baseline"} for a, b in zip(order[::2], order[1::2], strict=True))
    assert 8 < firsts.count("ours") < 32
    with pytest.raises(ValueError, match="pairs must be at least 1"):
        compare(measure, "ours", "baseline", pairs=0)


@pytest.mark.parametrize(("ratio", "pairs"), [(0.9, 3), (0.98, 11), (1.1, 11)])
def test_a_hopeless_arm_is_given_up_early(ratio, pairs):
    times = {"ours": 1.0, "base": ratio}
    found = compare(lambda launch: times[launch(0)], lambda _: "ours", lambda _: "base", pairs=11, hopeless=0.97)
    assert found.pairs == pairs and found.ratio == pytest.approx(ratio)


def test_a_time_limit_keeps_the_least_number_of_pairs():
    found = compare(lambda launch: 1.0, "ours", "baseline", pairs=1000, limit=0.0)
    assert found.pairs == MIN_PAIRS


def test_rounds_measure_each_arm_as_often_as_it_says_in_random_order():
    seen: list[int] = []
    arms = [lambda _: None, lambda _: None, lambda _: None]

    def measure(arm):
        seen.append(arms.index(arm))
        return float(seen[-1] + 1)

    assert rounds(measure, arms, [20, 20, 7]) == [[1.0] * 20, [2.0] * 20, [3.0] * 7]
    pairs = [tuple(sorted(seen[i : i + 3])) for i in range(0, 21, 3)]
    assert pairs == [(0, 1, 2)] * 7 and len({tuple(seen[i : i + 2]) for i in range(21, len(seen), 2)}) == 2
    assert [len(one) for one in rounds(measure, arms, [20, 20, 20], limit=0.0)] == [MIN_PAIRS] * 3
