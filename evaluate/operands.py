"""Seeded random operands in every dtype, for NumPy and CuPy alike.

``xp`` is the array module, numpy or cupy. Matrices of bf16 are kept as their bits in uint16: NumPy has no such type
and CuPy's depends on the version, while bits can be allocated, copied and passed to a kernel everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DISTRIBUTIONS = {
    "normal": "standard normal",
    "uniform": "uniform on [-1, 1]",
    "positive": "uniform on [0, 1]",
    "lognormal": "normal, each row of A and each column of B times exp(3 N(0, 1)); in fp16 over the largest of these",
    "outliers": "normal, 8 columns of A times 1000",
    "outliers60": "normal, 8 columns of A times 60",
    "cancellation": "normal, the second half of the inner dimension takes back the first but for 1/32 of it",
    "nonfinite": "normal, infinity in the first row of A, minus infinity in its last, NaN in a column of B",
}
_CHUNK = 1 << 26  # elements drawn at a time; a chunk has several temporaries of 4 or 8 bytes an element
_OUTLIERS = {"outliers": 1000, "outliers60": 60}
_CHANNELS = 8  # columns of A that are outliers
_LEFT_OVER = 1 / 32  # of the first half, by cancellation


@dataclass(frozen=True)
class Dtype:
    """A floating-point type of A, B and C.

    Attributes:
        storage: name of the array type that holds it.
        bytes: size of an element.
        roundoff: unit roundoff, half the distance from 1 to the next number.
        accumulator_roundoff: that of the type in which products are summed.
        smallest: the smallest positive number.
    """

    storage: str
    bytes: int
    roundoff: float
    accumulator_roundoff: float
    smallest: float


DTYPES = {
    "fp16": Dtype("float16", 2, 2.0**-11, 2.0**-24, 2.0**-24),
    "bf16": Dtype("uint16", 2, 2.0**-8, 2.0**-24, 2.0**-133),
    "fp32": Dtype("float32", 4, 2.0**-24, 2.0**-24, 2.0**-149),
    "fp64": Dtype("float64", 8, 2.0**-53, 2.0**-53, 2.0**-1074),
}


def draw(
    xp: Any,
    rng: Any,
    shape: tuple[int, int],
    dtype: str,
    distribution: str = "normal",
    side: str = "a",
    transposed: bool = False,
) -> Any:
    """A random matrix, rounded to ``dtype``.

    Args:
        xp: numpy or cupy.
        rng: ``xp.random.default_rng(seed)``; advanced.
        shape: rows, columns, as it is stored.
        dtype: a key of ``DTYPES``.
        distribution: a key of ``DISTRIBUTIONS``.
        side: "a" or "b", which of the two factors it is.
        transposed: whether it is stored transposed, so that the inner dimension is the other one.

    Raises:
        ValueError: an unknown dtype, distribution or side.
    """
    check_choice("dtype", dtype, DTYPES)
    check_choice("distribution", distribution, DISTRIBUTIONS)
    check_choice("side", side, ("a", "b"))
    inner = int((side == "a") != transposed)  # the axis along which the product sums
    wide = xp.float64 if dtype == "fp64" else xp.float32
    matrix = xp.empty(shape, dtype=DTYPES[dtype].storage)
    factors = _factors(xp, rng, shape, dtype, distribution, side, inner)
    for rows in _chunks(0, *shape):
        size = (rows.stop - rows.start, shape[1])
        if distribution in ("uniform", "positive"):
            values = rng.random(size, dtype=wide)
            if distribution == "uniform":
                values = values * wide(2) - wide(1)
        else:
            values = rng.standard_normal(size, dtype=wide)
        if factors is not None:
            values *= factors[rows] if factors.shape[0] > 1 else factors
        matrix[rows] = narrow(xp, values, dtype)
    if distribution == "cancellation":
        _take_back(xp, rng, matrix, dtype, side, inner)
    if distribution == "nonfinite":
        _spoil(xp, rng, matrix, dtype, side, inner)
    return matrix


def narrow(xp: Any, values: Any, dtype: str) -> Any:
    """Round fp32 (fp64 for fp64) values to nearest even in ``dtype``; overflow gives infinity."""
    if dtype != "bf16":
        return values.astype(DTYPES[dtype].storage)
    bits = xp.ascontiguousarray(values, dtype=xp.float32).view(xp.uint32)
    # Adding half of the dropped part, less one unless the kept part is odd, carries exactly when rounding up does.
    even = (bits >> xp.uint32(16)) & xp.uint32(1)
    rounded = (bits + (xp.uint32(0x7FFF) + even)) >> xp.uint32(16)
    # The carry could turn a NaN into infinity or wrap it round to zero.
    quiet = (bits >> xp.uint32(16)) | xp.uint32(0x40)
    return xp.where((bits & xp.uint32(0x7FFFFFFF)) > xp.uint32(0x7F800000), quiet, rounded).astype(xp.uint16)


def widen(xp: Any, stored: Any, dtype: str, to: str = "float64") -> Any:
    """The values of a stored matrix, exactly, as floats of type ``to``."""
    if dtype != "bf16":
        return stored.astype(to)
    return (stored.astype(xp.uint32) << xp.uint32(16)).view(xp.float32).astype(to)


def poison(xp: Any, shape: tuple[int, int], dtype: str) -> Any:
    """A matrix of NaN, so that an element that a kernel does not write is seen."""
    return xp.full(shape, 0x7FFF if dtype == "bf16" else float("nan"), dtype=DTYPES[dtype].storage)


def check_choice(what: str, value: str, choices: Any) -> None:
    """Refuse a value that is not among the choices.

    Raises:
        ValueError: it is not.
    """
    if value not in choices:
        raise ValueError(f"unknown {what} {value!r}; choose one of {', '.join(choices)}")


def _chunks(first: int, rows: int, columns: int) -> list[slice]:
    """Rows from ``first`` on, so many at a time as have about ``_CHUNK`` elements."""
    height = max(1, _CHUNK // max(1, columns))
    return [slice(top, min(top + height, rows)) for top in range(first, rows, height)]


def _factors(
    xp: Any, rng: Any, shape: tuple[int, int], dtype: str, distribution: str, side: str, inner: int
) -> Any | None:
    """What the rows [rows, 1] or the columns [1, columns] are multiplied by; None for nothing."""
    wide = xp.float64 if dtype == "fp64" else xp.float32
    if distribution == "lognormal":
        factors = xp.exp(3 * rng.standard_normal(shape[1 - inner], dtype=wide))
        if dtype == "fp16":  # its range holds neither these factors nor the products of two of them
            factors /= factors.max()
        return factors[:, None] if inner else factors[None, :]
    if distribution in _OUTLIERS and side == "a":
        factors = xp.ones(shape[inner], dtype=wide)
        factors[xp.argsort(rng.random(shape[inner], dtype=wide))[:_CHANNELS]] = _OUTLIERS[distribution]
        return factors[None, :] if inner else factors[:, None]
    return None


def _take_back(xp: Any, rng: Any, matrix: Any, dtype: str, side: str, inner: int) -> None:
    """Repeat the first half of A along the inner axis; that of B with the other sign, and not quite.

    Where the halves are blocks of a scheme, what cancels in C exactly is rounded in every plane.
    """
    half = matrix.shape[inner] // 2
    first, second = (slice(0, half), slice(half, 2 * half))
    whole = slice(None)
    source, target = ((matrix[whole, part] if inner else matrix[part]) for part in (first, second))
    wide = "float64" if dtype == "fp64" else "float32"
    for rows in _chunks(0, *source.shape):
        values = widen(xp, source[rows], dtype, wide)
        if side == "b":
            values = -values * (1 + _LEFT_OVER * rng.standard_normal(values.shape, dtype=wide))
        target[rows] = narrow(xp, values, dtype)


def _spoil(xp: Any, rng: Any, matrix: Any, dtype: str, side: str, inner: int) -> None:
    """Put in what is not finite: of A into rows that every sample of rows has, of B into a column at random."""
    outer, length = matrix.shape[1 - inner], matrix.shape[inner]
    where = [(0, float("inf")), (outer - 1, float("-inf"))] if side == "a" else [(None, float("nan"))]
    for line, value in where:
        place = [min(int(x * size), size - 1) for x, size in zip(rng.random(2), (outer, length), strict=True)]
        if line is not None:
            place[0] = line
        index = tuple(place) if inner else (place[1], place[0])
        matrix[index] = narrow(xp, xp.asarray([value], dtype="float32"), dtype)[0]
