"""What two sets of logits of the same text say of two ways to multiply, with intervals over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Figures = NDArray[np.float64]

RESAMPLES, LEVEL = 2000, 0.95
INTERVAL = (
    f"{LEVEL:.0%} by a percentile bootstrap of {RESAMPLES} resamples of whole sequences, since errors of neighbouring "
    "bytes depend on each other; both arms are resampled together, sequences of one file count as independent"
)


@dataclass
class Tally:
    """Sums of each sequence of T tokens, added up batch by batch; ``ours`` and ``theirs`` are two arms.

    Attributes:
        length: T.
        bits: lists of [S] bits of ours and of theirs.
        right: likewise tokens that were the most likely one.
        agreed: likewise tokens for which both have the same most likely one.
        square: sum of squares of the logits' differences.
        scale: sum of squares of their logits.
        largest: the largest difference of a logit.
        nonfinite: logits of ours that are no finite numbers.
    """

    length: int
    bits: tuple[list[Figures], list[Figures]] = field(default_factory=lambda: ([], []))
    right: tuple[list[Figures], list[Figures]] = field(default_factory=lambda: ([], []))
    agreed: list[Figures] = field(default_factory=list)
    square: float = 0.0
    scale: float = 0.0
    largest: float = 0.0
    nonfinite: int = 0

    def add(self, scores: dict[str, Any]) -> None:
        """Add a batch of B sequences.

        Args:
            scores: ``bits``, ``right`` [2, B], ``agreed`` [B], ``square``, ``scale``, ``largest``, ``nonfinite``.
        """
        for name in ("bits", "right"):
            for place, values in zip(getattr(self, name), np.asarray(scores[name], np.float64), strict=True):
                place.append(values)
        self.agreed.append(np.asarray(scores["agreed"], np.float64))
        self.square += float(scores["square"])
        self.scale += float(scores["scale"])
        # A comparison with NaN is false, which would hide it.
        self.largest = float(np.maximum(self.largest, float(scores["largest"])))
        self.nonfinite += int(scores["nonfinite"])

    @property
    def baseline_bits(self) -> float | None:
        """Bits per byte of theirs; None where it is no finite number."""
        return number(float(np.concatenate(self.bits[1]).mean()) / self.length)

    @property
    def logits_fro(self) -> float | None:
        """Relative Frobenius difference of the logits; None where it is no finite number."""
        return number(sqrt(self.square / self.scale)) if self.scale and self.square >= 0 else None

    def row(self, seed: int = 0) -> dict[str, Any]:
        """The keys of a row about a scheme (ours) and the baseline (theirs).

        Args:
            seed: of the resamples.
        """
        ours, theirs = (np.concatenate(each) for each in self.bits)
        right, other = (np.concatenate(each) / self.length for each in self.right)
        agreed = np.concatenate(self.agreed) / self.length
        chosen = resamples(len(ours), seed)
        return {
            "sequences": len(ours),
            "tokens": len(ours) * self.length,
            "bits_per_byte": number(float(ours.mean()) / self.length),
            "baseline_bits_per_byte": self.baseline_bits,
            **_keys("bits_per_byte_relative", *relative_difference(ours, theirs, chosen)),
            **_keys("accuracy", *mean(right, chosen)),
            **_keys("baseline_accuracy", *mean(other, chosen)),
            **_keys("accuracy_difference", *mean(right - other, chosen)),
            **_keys("top1_agreement", *mean(agreed, chosen)),
            "logits_difference_max": number(self.largest),
            "logits_difference_fro": self.logits_fro,
            "nonfinite_logits": self.nonfinite,
        }


def resamples(count: int, seed: int) -> NDArray[np.int64]:
    """Which of ``count`` sequences each resample has: [RESAMPLES, count], with replacement."""
    return np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))


def mean(values: Figures, chosen: NDArray[np.int64]) -> tuple[float, float, float]:
    """The mean of [S] values, and the ends of its interval by resamples."""
    return float(values.mean()), *_ends(values[chosen].mean(axis=1))


def relative_difference(ours: Figures, theirs: Figures, chosen: NDArray[np.int64]) -> tuple[float, float, float]:
    """sum(ours) / sum(theirs) - 1 of [S] paired values, and the ends of its interval by resamples."""
    difference = ours - theirs  # first, so that what both have in common is not rounded twice
    spread = difference[chosen].sum(axis=1) / theirs[chosen].sum(axis=1)
    return float(difference.sum() / theirs.sum()), *_ends(spread)


def number(value: float) -> float | None:
    """The value; None where it is not finite, since JSON has no other word for it."""
    return value if isfinite(value) else None


def _ends(values: Figures) -> tuple[float, float]:
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _keys(name: str, value: float, low: float, high: float) -> dict[str, float | None]:
    parts: Sequence[tuple[str, float]] = (("", value), ("_low", low), ("_high", high))
    return {f"{name}{end}": number(part) for end, part in parts}
