"""Statistics of interleaved timings: medians, bootstrap intervals, and whether there is a difference at all.

Both arms of a pair are measured back to back and in random order, so that drift of clocks and temperature, which
moves results by tens of percent, meets both alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from time import monotonic
from typing import Any, Literal

import numpy as np

# Queues (or does) launch number i; the number selects one of several sets of buffers.
Launch = Callable[[int], None]
# Seconds of one launch, over one window of launches.
Measure = Callable[[Launch], float]
Verdict = Literal["faster", "slower", "no difference", "not measured"]

PAIRS = 30
MIN_PAIRS = 7  # even where a time limit asks for fewer
_RESAMPLES = 2000
_FIRST_PAIRS = 3  # after which a comparison may be found hopeless


@dataclass(frozen=True)
class Comparison:
    """Timings of two arms.

    Attributes:
        seconds: median of the first arm.
        baseline_seconds: median of the second.
        ratio: baseline_seconds / seconds; above 1 the first arm is faster.
        ratio_low: lower end of its 95 % bootstrap interval.
        ratio_high: upper end.
        spread: interquartile range of the first arm over its median.
        baseline_spread: the same of the second.
        pairs: number of pairs.
    """

    seconds: float
    baseline_seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float
    spread: float
    baseline_spread: float
    pairs: int


def compare(
    measure: Measure,
    ours: Launch,
    baseline: Launch,
    *,
    pairs: int = PAIRS,
    seed: int = 0,
    limit: float | None = None,
    hopeless: float = 0.0,
) -> Comparison:
    """Measure two arms in interleaved pairs, the order within each pair random.

    Args:
        measure: times one window.
        ours: first arm.
        baseline: second arm.
        pairs: number of pairs.
        seed: of the orders and of the bootstrap.
        limit: seconds after which no further pair is begun, once there are ``MIN_PAIRS``.
        hopeless: a ratio that the first pairs must reach at least once, or there are no further ones.

    Raises:
        ValueError: ``pairs`` is below 1.
    """
    if pairs < 1:
        raise ValueError(f"pairs must be at least 1, not {pairs}")
    rng = np.random.default_rng(seed)
    began = monotonic()
    samples: list[tuple[float, float]] = []
    for done in range(pairs):
        if limit is not None and done >= MIN_PAIRS and monotonic() - began > limit:
            break
        if done == _FIRST_PAIRS and all(theirs < hopeless * our for our, theirs in samples):
            break
        if rng.integers(2):
            first = measure(ours)
            samples.append((first, measure(baseline)))
        else:
            second = measure(baseline)
            samples.append((measure(ours), second))
    return summarise([pair[0] for pair in samples], [pair[1] for pair in samples], seed=seed)


def rounds(
    measure: Measure, arms: Sequence[Launch], counts: Sequence[int], *, seed: int = 0, limit: float | None = None
) -> list[list[float]]:
    """Measure several arms once in each round, in random order. Equal numbers of rounds of two arms are pairs.

    Args:
        measure: times one window.
        arms: what is measured.
        counts: rounds of each arm, from the first round on.
        seed: of the orders.
        limit: seconds after which no further round is begun, once there are ``MIN_PAIRS``.

    Returns:
        Seconds of each arm.
    """
    rng, began = np.random.default_rng(seed), monotonic()
    samples: list[list[float]] = [[] for _ in arms]
    for done in range(max(counts)):
        if limit is not None and done >= MIN_PAIRS and monotonic() - began > limit:
            break
        for arm in rng.permutation(len(arms)):
            if done < counts[arm]:
                samples[arm].append(measure(arms[arm]))
    return samples


def summarise(seconds: Sequence[float], baseline: Sequence[float], *, seed: int = 0) -> Comparison:
    """Medians, their ratio and its bootstrap interval, resampling whole pairs (percentile method, 95 %).

    Raises:
        ValueError: the samples are empty, of unequal number, or not positive.
    """
    pairs = np.array([seconds, baseline], dtype=np.float64) if len(seconds) == len(baseline) else np.empty((2, 0))
    if not pairs.size or not (np.isfinite(pairs).all() and (pairs > 0).all()):
        raise ValueError(f"timings must be equally many positive numbers, not {list(seconds)} and {list(baseline)}")
    count = pairs.shape[1]
    picks = np.random.default_rng(seed).integers(count, size=(_RESAMPLES, count))
    ours, theirs = np.median(pairs[:, picks], axis=2)
    low, high = np.quantile(theirs / ours, [0.025, 0.975])
    medians = np.median(pairs, axis=1)
    quartiles = np.quantile(pairs, [0.25, 0.75], axis=1)
    spreads = (quartiles[1] - quartiles[0]) / medians
    return Comparison(
        seconds=float(medians[0]),
        baseline_seconds=float(medians[1]),
        ratio=float(medians[1] / medians[0]),
        ratio_low=float(low),
        ratio_high=float(high),
        spread=float(spreads[0]),
        baseline_spread=float(spreads[1]),
        pairs=count,
    )


def verdict(row: Mapping[str, Any]) -> Verdict:
    """What a row of results supports: an interval of the ratio that touches 1 is no difference.

    A row measured on fewer than ``MIN_PAIRS`` pairs, or whose result is wrong, supports nothing.
    """
    low, high = row.get("ratio_low"), row.get("ratio_high")
    if low is None or high is None or not (isfinite(low) and isfinite(high)):
        return "not measured"
    if row.get("pairs", 0) < MIN_PAIRS or row.get("correct") is False:
        return "not measured"
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "no difference"
