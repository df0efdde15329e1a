"""Seeded random operands in every dtype, for NumPy and CuPy alike.

``xp`` is the array module, numpy or cupy. Matrices of bf16 are kept as their bits in uint16: NumPy has no such type
and CuPy's depends on the version, while bits can be allocated, copied and passed to a kernel everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DISTRIBUTIONS = {"normal": "standard normal", "uniform": "uniform on [-1, 1]", "positive": "uniform on [0, 1]"}
_CHUNK = 1 << 26  # elements drawn at a time; a chunk has several temporaries of 4 or 8 bytes an element


@dataclass(frozen=True)
class Dtype:
    """A floating-point type of A, B and C.

    Attributes:
        storage: name of the array type that holds it.
        bytes: size of an element.
        roundoff: unit roundoff, half the distance from 1 to the next number.
        accumulator_roundoff: that of the type in which products are summed.
    """

    storage: str
    bytes: int
    roundoff: float
    accumulator_roundoff: float


DTYPES = {
    "fp16": Dtype("float16", 2, 2.0**-11, 2.0**-24),
    "bf16": Dtype("uint16", 2, 2.0**-8, 2.0**-24),
    "fp32": Dtype("float32", 4, 2.0**-24, 2.0**-24),
    "fp64": Dtype("float64", 8, 2.0**-53, 2.0**-53),
}


def draw(xp: Any, rng: Any, shape: tuple[int, int], dtype: str, distribution: str = "normal") -> Any:
    """A random matrix, rounded to ``dtype``.

    Args:
        xp: numpy or cupy.
        rng: ``xp.random.default_rng(seed)``; advanced.
        shape: rows, columns.
        dtype: a key of ``DTYPES``.
        distribution: a key of ``DISTRIBUTIONS``.

    Raises:
        ValueError: an unknown dtype or distribution.
    """
    check_choice("dtype", dtype, DTYPES)
    check_choice("distribution", distribution, DISTRIBUTIONS)
    wide = xp.float64 if dtype == "fp64" else xp.float32
    matrix = xp.empty(shape, dtype=DTYPES[dtype].storage)
    height = max(1, _CHUNK // max(1, shape[1]))
    for top in range(0, shape[0], height):
        size = (min(height, shape[0] - top), shape[1])
        if distribution == "normal":
            values = rng.standard_normal(size, dtype=wide)
        else:
            values = rng.random(size, dtype=wide)
            if distribution == "uniform":
                values = values * wide(2) - wide(1)
        matrix[top : top + height] = narrow(xp, values, dtype)
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
