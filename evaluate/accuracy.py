"""How wrong a computed product is, against a reference that is exact to far below the last bit of the result.

Four measures, because the first looks harmless where others do not (Ballard, Benson, Druinsky, Lipshitz and Schwartz,
arXiv 1507.00687): relative Frobenius, max|e| / max|C|, the componentwise max |e| / (|A||B|), and units in the last
place of all but one element in a thousand.
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
from evaluate.cut import Cut
from evaluate.mixing import Mixing
from evaluate.operands import DTYPES, widen
from evaluate.spoiled import Spoiled

# Larger C than this many rows is judged on a sample of rows, over all their columns.
WHOLE_ROWS, SAMPLE_ROWS = 1024, 256
_COLUMNS = 2048  # columns of the reference made at a time
_PEAKED = 2  # the largest of millions of errors, each beside its own size, over the root of their mean square
_ATOMS = 32  # roundings to subnormal numbers that may meet in one element
_SLICES = 4  # of each fp64 operand; 4 x 18 bits cover 53 for elements down to 2^-19 of the largest in their row


@dataclass(frozen=True)
class Errors:
    """Errors of one computed C; NaN where C is not finite but should be.

    Attributes:
        fro: |e|_F / |C|_F.
        max: max |e_ij| / max |c_ij|.
        componentwise: max |e_ij| / (|A||B|)_ij.
        normalised: componentwise divided by K times the unit roundoff of the dtype of C.
        rows: rows of C that were compared.
        ulp: 99.9th percentile of |e_ij| in units in the last place of c_ij in the dtype of C.
        cancellation: how much larger C would be, in the Frobenius norm, if the signs of its terms were random; at
            least 1.
        missing: elements that are finite where the true one is not.
        spread: elements that are not finite where the true one is, though a block scheme may mix it with such.
        mixed: max |e_ij| over the size of what a block scheme may mix into c_ij: the root of the sum of squares of c_ij
            and of all terms. What rounding to subnormal numbers can do is left out.
    """

    fro: float
    max: float
    componentwise: float
    normalised: float
    rows: int
    ulp: float = 0.0
    cancellation: float = 1.0
    missing: int = 0
    spread: int = 0
    mixed: float = 0.0


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
    xp: Any,
    outputs: Sequence[Any],
    a: Any,
    b: Any,
    dtype: str,
    rows: NDArray[np.int64] | None = None,
    blocks: tuple[int, int, int] = (1, 1, 1),
    block_units: Sequence[int] = (1, 1, 1),
) -> list[Errors]:
    """Errors of several computed products of the same operands.

    Args:
        xp: numpy or cupy, to which the arrays belong.
        outputs: matrices [M, N] that claim to be A B, stored as ``dtype``.
        a: [M, K], stored as ``dtype``.
        b: [K, N], stored as ``dtype``.
        dtype: a key of ``evaluate.operands.DTYPES``.
        rows: rows of C to compare; default all.
        blocks: blocks along M, K and N, see ``mixed`` and ``spread``.
        block_units: to multiples of which the sizes of blocks are rounded up, in the same order.
    """
    inner, columns = b.shape
    rows = np.arange(a.shape[0]) if rows is None else rows
    index = xp.asarray(rows)
    left = widen(xp, a[index], dtype)
    along_m, along_k, along_n = (
        Cut(*each) for each in zip((a.shape[0], inner, columns), blocks, block_units, strict=True)
    )
    spoiled = Spoiled.of(xp, a, b, dtype, (along_m, along_n))
    mixing = Mixing(xp, a, b, dtype, index, (along_m, along_k, along_n))
    reference = _Reference()
    tallies = [_Tally(xp, _ATOMS * DTYPES[dtype].smallest) for _ in outputs]
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, columns, _COLUMNS):
            span = slice(start, min(start + _COLUMNS, columns))
            right = widen(xp, b[:, span], dtype)
            parts = exact_parts(xp, left, right, dtype)
            truth, bound = sum(parts[1:], parts[0]), xp.abs(left) @ xp.abs(right)
            masks = spoiled.masks(xp, index, span) if spoiled else None
            reference.add(xp, truth, (left * left) @ (right * right), masks[0] if masks else None)
            # Terms of one sign add up to more than the root of the sum of their squares.
            sizes = xp.hypot(mixing.sizes(span), xp.where(xp.isfinite(truth), truth, 0))
            for tally, output in zip(tallies, outputs, strict=True):
                found = widen(xp, output[index, span], dtype)
                error = found
                for part in parts:  # largest first: the first difference is exact where C is nearly right
                    error = error - part
                error = xp.abs(error)
                if masks:  # errors of what is not finite say nothing; it is counted
                    finite, excused = masks
                    wrong = ~xp.isfinite(found)
                    tally.missing += int((~finite & ~wrong).sum())
                    tally.spread += int((finite & excused & wrong).sum())
                    error = xp.where(~finite | (excused & wrong), 0, error)
                tally.add(error, bound, units(xp, truth, dtype), sizes)
    unit = inner * DTYPES[dtype].roundoff
    size, largest = sqrt(reference.square), reference.largest
    cancellation = max(1.0, _ratio(sqrt(reference.walk), size))
    return [
        Errors(
            _ratio(sqrt(t.square) if t.square >= 0 else t.square, size),
            _ratio(t.peak, largest),
            t.ratio,
            t.ratio / unit,
            len(rows),
            t.percentile(),
            cancellation,
            t.missing,
            t.spread,
            t.mixed,
        )
        for t in tallies
    ]


def units(xp: Any, values: Any, dtype: str) -> Any:
    """The distance [same shape] from the magnitude of each value, in fp64, to the next larger number of a dtype."""
    kind = DTYPES[dtype]
    _, exponent = xp.frexp(values)
    smallest = round(log2(kind.smallest))
    exponent = xp.where(values == 0, smallest, xp.maximum(exponent + round(log2(kind.roundoff)), smallest))
    return xp.ldexp(xp.ones(values.shape), exponent.astype("int32"))


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


def is_correct(found: Errors, limit: float, mixed: bool = True) -> bool:
    """Whether the errors are rounding.

    Frobenius and largest error must be within ``limit``. Where C is small because its terms cancel, rounding is as
    large as if they did not, so for these two the limit is larger by that. With ``mixed`` every element is judged
    beside the terms that may be mixed into it, which finds mistakes in rows or columns that are small beside others.
    NaN is never right, nor is a finite number where there should be none.

    Args:
        found: see ``errors``.
        limit: see ``tolerance``.
        mixed: false where stored planes or products have less range than the operands, so that small rows are lost.
    """
    wide = limit * found.cancellation
    right = isfinite(found.componentwise) and found.fro <= wide and found.max <= wide and not found.missing
    return right and (found.mixed <= _PEAKED * limit or not mixed)


def _slices(xp: Any, values: Any, axis: int, bits: int) -> list[Any]:
    _, exponent = xp.frexp(xp.abs(values).max(axis=axis, keepdims=True))
    slices = []
    for s in range(1, _SLICES + 1):
        unit = xp.ldexp(xp.ones(exponent.shape), exponent - bits * s)
        part = xp.rint(values / unit) * unit
        slices.append(part)
        values = values - part
    return slices


class _Reference:
    """Sizes of the true product, summed over its parts."""

    def __init__(self) -> None:
        self.square = self.walk = self.largest = 0.0

    def add(self, xp: Any, truth: Any, walk: Any, finite: Any | None) -> None:
        if finite is not None:
            truth, walk = xp.where(finite, truth, 0), xp.where(finite, walk, 0)
        self.square += float((truth * truth).sum())
        self.walk += float(walk.sum())
        self.largest = max(self.largest, float(xp.abs(truth).max()))


class _Tally:
    """Errors of one computed product, summed over its parts."""

    def __init__(self, xp: Any, negligible: float) -> None:
        self.xp, self.negligible = xp, negligible
        self.square = self.peak = self.ratio = self.mixed = 0.0
        self.missing = self.spread = 0
        self.in_units: list[Any] = []

    def add(self, error: Any, bound: Any, unit: Any, sizes: Any) -> None:
        xp = self.xp
        self.square += float((error * error).sum())
        self.peak = _larger(self.peak, float(error.max()))
        self.ratio = _larger(self.ratio, self._largest(error, bound))
        self.mixed = _larger(self.mixed, self._largest(error - xp.minimum(error, self.negligible), sizes))
        self.in_units.append((error / unit).astype("float32").ravel())

    def _largest(self, error: Any, bound: Any) -> float:
        """The largest ratio; an element whose terms are all zero must be zero."""
        xp = self.xp
        excess = xp.where(error > 0, xp.inf, error)
        return float(xp.where(bound > 0, error / xp.where(bound > 0, bound, 1), excess).max())

    def percentile(self) -> float:
        """The 99.9th percentile of the errors in units in the last place, NaN if any is."""
        values = self.xp.concatenate(self.in_units)
        place = len(values) - 1 - len(values) // 1000
        return self.peak if self.peak != self.peak else float(self.xp.partition(values, place)[place])


def _larger(a: float, b: float) -> float:
    """The maximum, NaN if either is."""
    return b if b != b or b > a else a


def _ratio(error: float, size: float) -> float:
    return error / size if size else (0.0 if error == 0 else float("inf"))
