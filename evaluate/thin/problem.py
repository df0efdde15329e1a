"""Which products of a caller the thin kernel can do where they lie, and how it does them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from codegen.emit_thin import MOST_ROWS
from evaluate.array_numpy import Numpy
from evaluate.problem import Problem
from evaluate.shapes import Grouped
from evaluate.strides import overlaps
from evaluate.thin.kernel import Product, ThinKernel, Way

DTYPES = ("fp16", "bf16")
_LEAST_BYTES = 1 << 14  # of B; reading less takes no time beside a launch
# Takes A, B, and C or None for a new one; returns C.
Multiply = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class ThinProblem:
    """A product, or several of one shape, of few rows.

    Attributes:
        what: how many, and M, N, K of each.
        dtype: of all matrices.
        layout: "nn", or "nt" where B lies transposed.
    """

    what: Grouped
    dtype: str
    layout: str

    @property
    def bytes(self) -> int:
        """Of A, B and C."""
        m, n, k = self.what.shape
        return 2 * self.what.groups * (m * k + k * n + m * n)


def thin_problem(library: Numpy, made: Problem, a: Any, b: Any) -> ThinProblem | None:
    """The problem, if a thin kernel can do it: few rows, of 16 bits, on a device, none of the operands copied.

    Args:
        library: of the arrays.
        made: their product.
        a: [.., M, K].
        b: [.., K, N].
    """
    m, n, k = made.shape
    if made.dtype not in DTYPES or library.device(a) is None or 0 in made.shape or not 0 < m <= MOST_ROWS:
        return None
    groups = prod(made.result[:-2]) if made.looped else 1
    if 2 * groups * n * k < _LEAST_BYTES:
        return None
    if groups < 1 or (made.looped and not library.writable):
        return None
    letter = next((one for one in "nt" if _steps(library, b, one, groups)), "")
    folded = not made.looped and a.ndim > 2  # its rows are those of one matrix, by a copy where they must be
    if not letter or not (folded or _steps(library, a, "n", groups)):
        return None
    return ThinProblem(Grouped(groups, (m, n, k)), made.dtype, f"n{letter}")


def multiply(library: Numpy, kernel: ThinKernel, problem: ThinProblem, way: Way, a: Any, b: Any) -> Multiply:
    """What multiplies arrays whose types, shapes, strides and device are those of A and B; others give wrong results.

    Args:
        library: of the arrays.
        kernel: open, for the problem's types and the arrays' device.
        problem: what ``thin_problem`` made of A and B.
        way: tile and split.
        a: [.., M, K].
        b: [.., K, N].
    """
    groups, (m, n, k) = problem.what.groups, problem.what.shape
    stacked = b.ndim > 2
    right = _steps(library, b, problem.layout[1], groups)
    left = _steps(library, a, "n", groups) if stacked or a.ndim == 2 else (k, 0)
    assert left is not None and right is not None
    result = (*(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if stacked else ()), m, n)
    shape = result if stacked else (*a.shape[:-1], n)
    fields = Product(groups, m, n, k, 1.0, 0.0, None, *left, None, *right, None, n, m * n, None, *way)
    launch, address, stream = kernel.launcher(fields), library.address, library.stream

    def product(a: Any, b: Any, out: Any) -> Any:
        with library.current(a):
            flat = a if stacked or a.ndim == 2 else a.reshape(-1, k)
            library.ready(flat, b)  # reshaping may be a copy that is still to be made
            # Rows of a result in any other memory are short enough to be copied.
            straight = (
                out is not None
                and tuple(out.shape) == result
                and _dense(library, out)
                and not overlaps(library, out, a, b)
            )
            c = out if straight else library.empty(result, a)
            launch(stream(c), address(flat), address(b), address(c))
            if straight:
                return out
            found = library.finish(c, a)
            if flat is not a or out is not None:
                library.keep(flat, found)
            found = found if result == shape else found.reshape(shape)
            if out is None:
                return found
            out[...] = found
            return out

    return product


def _steps(library: Numpy, x: Any, letter: str, groups: int) -> tuple[int, int] | None:
    """Leading dimension and distance of groups of a matrix or a stack; None where no two numbers say how it lies."""
    strides = library.strides(x)
    inner, outer = (-1, -2) if letter == "n" else (-2, -1)
    length, lines = x.shape[inner], x.shape[outer]
    step = strides[outer] if lines > 1 else max(strides[outer], length)
    if (length > 1 and strides[inner] != 1) or step < length:
        return None
    if x.ndim == 2:
        return step, 0
    lead = [(size, stride) for size, stride in zip(x.shape[:-2], strides[:-2], strict=True) if size > 1]
    if prod(size for size, _ in lead) not in (1, groups):
        return None  # some of its dimensions are those of all groups, and others are not
    for (_, far), (size, near) in zip(lead, lead[1:], strict=False):
        if far != size * near:
            return None
    distance = lead[-1][1] if lead else 0
    return (step, distance) if distance >= 0 else None


def _dense(library: Numpy, out: Any) -> bool:
    strides, expected = library.strides(out), 1
    for size, stride in zip(reversed(out.shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True
