"""What a caller asks for: operands checked, and cut into products of two matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from evaluate.array_numpy import Numpy
from evaluate.arrays import library_of
from evaluate.cases import Shape
from evaluate.operands import DTYPES
from evaluate.strides import aligned, letter_of


@dataclass(frozen=True)
class Problem:
    """A product whose operands fit.

    Attributes:
        shape: M, N, K of one product of matrices; rows of leading dimensions of A are folded into M where B has none.
        dtype: of A, B and C.
        layout: of A and B as they lie in memory.
        looped: whether B has leading dimensions, so that there are several products.
        result: shape of C.
        unaligned: those of "abc" whose rows or columns on a device do not begin at multiples of 16 bytes. Kernels copy
            such operands first and write such results in smaller pieces, so that other trials do not speak for them.
        shifted: whether only an address makes some of them so. Decisions are found without addresses, to find them in
            less time, so that one about shifted arrays must not last; shifted arrays may get one about others, which is
            right too, and copies them.
    """

    shape: Shape
    dtype: str
    layout: str
    looped: bool
    result: tuple[int, ...]
    unaligned: str = ""
    shifted: bool = False


def problem(library: Numpy, a: Any, b: Any, out: Any | None, plane_dtype: str | None) -> Problem:
    """Check operands and say what their product is.

    Raises:
        ValueError: shapes, types or devices that do not fit.
    """
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"a [.., M, K] and b [.., K, N] are needed, not {list(a.shape)} and {list(b.shape)}")
    dtype = dtype_of(library, a, plane_dtype)
    lead = _lead(a, b)
    result = (*lead, a.shape[-2], b.shape[-1])
    _alike(library, dtype, a, b, out)
    if out is not None and not library.writable:
        raise ValueError(f"arrays of {library.name} cannot be written; leave out away and use the result")
    if out is not None and tuple(out.shape) != result:
        raise ValueError(f"out must have the shape {list(result)}, not {list(out.shape)}")
    looped = len(b.shape) > 2
    rows = a.shape[-2] if looped else prod(result[:-1])
    # Rows of leading dimensions become those of a matrix with contiguous rows, by a copy where they are not.
    folded = not looped and len(a.shape) > 2
    left, right = matrices(a, b) if 0 not in (*result, a.shape[-1]) and not folded else (None, b)
    letters = "".join("n" if x is None or x.ndim > 2 else letter_of(library, x) for x in (left, right))
    unaligned, shifted = ("", False) if library.device(a) is None else _unaligned(library, a, b, out)
    return Problem((rows, b.shape[-1], a.shape[-1]), dtype, letters, looped, result, unaligned, shifted)


def _unaligned(library: Numpy, a: Any, b: Any, out: Any | None) -> tuple[str, bool]:
    arrays = [(name, x) for name, x in (("a", a), ("b", b), ("c", out)) if x is not None]
    found = {name for name, x in arrays if not aligned(library, x)}
    if b.shape[-1] * b.dtype.itemsize % 16:
        found.add("c")
    shifted = {name for name, x in arrays if library.address(x) % 16} - found
    return "".join(sorted(found | shifted)), bool(shifted)


def matrices(a: Any, b: Any) -> tuple[Any, Any]:
    """The first product of matrices [M, K] and [K, N] of a problem."""
    if b.ndim > 2:
        return a[(0,) * (a.ndim - 2)], b[(0,) * (b.ndim - 2)]
    return a if a.ndim == 2 else a.reshape(-1, a.shape[-1]), b


def same_library(library: Numpy, a: Any, other: Any) -> None:
    """Refuse an array of another library.

    Raises:
        TypeError: it is one.
    """
    if library_of(type(other)) is not library:
        kinds = f"{type(a).__name__} and {type(other).__name__}"
        raise TypeError(f"all arrays must be of one library, not {kinds}; convert one of them")


def dtype_of(library: Numpy, x: Any, plane_dtype: str | None) -> str:
    """The type of an operand, with which planes of a type must go.

    Raises:
        ValueError: it has no products here, or no such planes.
    """
    dtype = library.dtype(x)
    if dtype not in DTYPES:
        raise ValueError(f"there is no product of {dtype} here; convert a and b to one of {', '.join(DTYPES)}")
    if plane_dtype not in (None, dtype) and (dtype, plane_dtype) != ("bf16", "fp16"):
        raise ValueError(f"planes of {plane_dtype} do not go with {dtype}; leave plane_dtype out, or fp16 for bf16")
    return dtype


def _lead(a: Any, b: Any) -> tuple[int, ...]:
    if len(a.shape) == len(b.shape) == 2:
        return ()
    try:
        return np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    except ValueError:
        shapes = f"{list(a.shape)} and {list(b.shape)}"
        raise ValueError(f"the leading dimensions of a and b must be equal or 1, not those of {shapes}") from None


def _alike(library: Numpy, dtype: str, a: Any, b: Any, out: Any | None) -> None:
    others = [("b", b)] if out is None else [("b", b), ("out", out)]
    for name, other in others:
        if library.dtype(other) != dtype:
            raise ValueError(f"a and {name} must have one type, not {dtype} and {library.dtype(other)}; convert one")
        if library.device(other) != library.device(a):
            places = " and ".join(_place(library.device(x)) for x in (a, other))
            raise ValueError(f"a and {name} must be on one device, not {places}; move one of them")


def _place(device: int | None) -> str:
    return "the host" if device is None else f"GPU {device}"
