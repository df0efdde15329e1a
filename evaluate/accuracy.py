"""How wrong a computed product is, against a reference that is exact to far below the last bit of the result.

Three measures, because the first looks harmless where the last does not (Ballard, Benson, Druinsky, Lipshitz and
Schwartz, arXiv 1507.00687): relative Frobenius, max|e| / max|C|, and the componentwise max |e| / (|A||B|).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.measures import growth
from codegen.plan import Plan
from evaluate.operands import DTYPES, widen

# Larger C than this many rows is judged on a sample of rows, over all their columns.
WHOLE_ROWS, SAMPLE_ROWS = 1024, 256
_COLUMNS = 2048  # columns of the reference made at a time
_SLICES = 4  # of each fp64 operand; 4 x 18 bits cover 53 for elements down to 2^-19 of the largest in their row


@dataclass(frozen=True)
class Errors:
    """Errors of one computed C; NaN where C is not finite.

    Attributes:
        fro: |e|_F / |C|_F.
        max: max |e_ij| / max |c_ij|.
        componentwise: max |e_ij| / (|A||B|)_ij.
        normalised: componentwise divided by K times the unit roundoff of the dtype of C.
        rows: rows of C that were compared.
    """

    fro: float
    max: float
    componentwise: float
    normalised: float
    rows: int


def sample_rows(rows: int, blocks: int, seed: int, count: int = SAMPLE_ROWS) -> NDArray[np.int64]:
    """Rows of C to compare, ascending: all of a small C, else a stratified sample.

    The sample has one random row from each of ``count`` equal stripes, and always the first and last row of each of
    the ``blocks`` block rows, where mistakes in handling edges show.
    """
    if rows <= WHOLE_ROWS:
        return np.arange(rows)
    rng = np.random.default_rng(seed)
    stripes = np.linspace(0, rows, count + 1)
    chosen = rng.integers(np.floor(stripes[:-1]).astype(int), np.ceil(stripes[1:]).astype(int))
    height = -(-rows // blocks)
    starts = np.arange(0, rows, height)
    edges = np.concatenate([starts, starts[1:] - 1, [rows - 1]])
    return np.unique(np.concatenate([chosen, edges]))


def errors(
    xp: Any, outputs: Sequence[Any], a: Any, b: Any, dtype: str, rows: NDArray[np.int64] | None = None
) -> list[Errors]:
    """Errors of several computed products of the same operands.

    Args:
        xp: numpy or cupy, to which the arrays belong.
        outputs: matrices [M, N] that claim to be A B, stored as ``dtype``.
        a: [M, K], stored as ``dtype``.
        b: [K, N], stored as ``dtype``.
        dtype: a key of ``evaluate.operands.DTYPES``.
        rows: rows of C to compare; default all.
    """
    inner, columns = b.shape
    rows = np.arange(a.shape[0]) if rows is None else rows
    index = xp.asarray(rows)
    left = widen(xp, a[index], dtype)
    square, largest = 0.0, 0.0
    sums, peaks, ratios = ([0.0] * len(outputs) for _ in range(3))
    for start in range(0, columns, _COLUMNS):
        span = slice(start, min(start + _COLUMNS, columns))
        right = widen(xp, b[:, span], dtype)
        parts = exact_parts(xp, left, right, dtype)
        truth, bound = sum(parts[1:], parts[0]), xp.abs(left) @ xp.abs(right)
        square += float((truth * truth).sum())
        largest = max(largest, float(xp.abs(truth).max()))
        for i, output in enumerate(outputs):
            error = widen(xp, output[index, span], dtype)
            for part in parts:  # largest first: the first difference is exact where C is nearly right
                error = error - part
            error = xp.abs(error)
            sums[i] += float((error * error).sum())
            peaks[i] = _larger(peaks[i], float(error.max()))
            # An element whose terms are all zero must be zero.
            excess = xp.where(error > 0, xp.inf, error)
            ratio = xp.where(bound > 0, error / xp.where(bound > 0, bound, 1), excess)
            ratios[i] = _larger(ratios[i], float(ratio.max()))
    unit = inner * DTYPES[dtype].roundoff
    return [
        Errors(_ratio(sqrt(s) if s >= 0 else s, sqrt(square)), _ratio(p, largest), r, r / unit, len(rows))
        for s, p, r in zip(sums, peaks, ratios, strict=True)
    ]


def exact_parts(xp: Any, left: Any, right: Any, dtype: str) -> list[Any]:
    """Matrices whose sum is ``left @ right`` far below the roundoff of ``dtype``, largest first.

    FP64 itself is that good for the narrower types. For fp64 the operands are cut into slices of so few bits that
    products of slices are exact in FP64 (Ozaki, Ogita, Oishi and Rump, Numerical Algorithms 59, 2012).
    """
    if dtype != "fp64":
        return [left @ right]
    bits = (53 - ceil(log2(max(2, left.shape[1])))) // 2
    lefts, rights = _slices(xp, left, 1, bits), _slices(xp, right, 0, bits)
    pairs = sorted((s + t, s, t) for s in range(_SLICES) for t in range(_SLICES) if s + t < _SLICES)
    return [lefts[s] @ rights[t] for _, s, t in pairs]


def tolerance(plan: Plan, dtype: str, product_dtype: str, inner: int) -> float:
    """The relative error above which a result is wrong rather than rounded.

    A few roundings of what is stored and a random walk of the accumulation, times the growth factor of the plan over
    that of the standard algorithm. A missing or wrong term gives errors near 1.
    """
    stored = max(DTYPES[dtype].roundoff, DTYPES[product_dtype].roundoff)
    factor = max(1.0, growth(plan.scheme) / plan.format.volume)  # the standard algorithm has the growth factor mkn
    return (6 * stored + 8 * sqrt(inner) * DTYPES[dtype].accumulator_roundoff) * factor


def is_correct(found: Errors, limit: float) -> bool:
    """Whether the errors are rounding: Frobenius and largest error are within ``limit``; NaN never is."""
    return isfinite(found.componentwise) and found.fro <= limit and found.max <= limit


def _slices(xp: Any, values: Any, axis: int, bits: int) -> list[Any]:
    _, exponent = xp.frexp(xp.abs(values).max(axis=axis, keepdims=True))
    slices = []
    for s in range(1, _SLICES + 1):
        unit = xp.ldexp(xp.ones(exponent.shape), exponent - bits * s)
        part = xp.rint(values / unit) * unit
        slices.append(part)
        values = values - part
    return slices


def _larger(a: float, b: float) -> float:
    """The maximum, NaN if either is."""
    return b if b != b or b > a else a


def _ratio(error: float, size: float) -> float:
    return error / size if size else (0.0 if error == 0 else float("inf"))
