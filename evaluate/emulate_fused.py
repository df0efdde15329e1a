"""The error of a fused kernel without the kernel: its schedule run on the CPU with every rounding that it makes.

Planes are summed in fp32 and rounded to the plane type. One fp32 accumulator goes through the products in the order of
the chain, publications move fp32 multiples of it into pending tiles, and each element of C is rounded once. A GPU
differs in two things: it adds each product to the accumulator piece by piece, in an order of its own, and its tensor
cores may drop bits of fp32 sums that are rounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import frexp

import numpy as np

from codegen.plan import Plan
from codegen.schedule import Operand, Schedule, Vector, schedule
from evaluate.emulate import Matrix, blocks_of, check_operands, planes_of, rounded, sums_of

_STRIP, _TOP = 16, 15  # rows of a scale; elements are kept below 2^_TOP


@np.errstate(invalid="ignore", over="ignore")
def emulate_fused(
    plan: Plan,
    a: Matrix,
    b: Matrix,
    dtype: str,
    *,
    plane_dtype: str | None = None,
    scaled: bool = False,
    order: Schedule | None = None,
    pending_bits: int = 32,
) -> Matrix:
    """C = A B as a fused kernel of this plan computes it.

    Args:
        plan: what to compute.
        a: [M, K] fp32 values that ``dtype`` holds exactly.
        b: [K, N] the same.
        dtype: type of A, B and C: fp16, bf16 or fp32.
        plane_dtype: type of the planes; default ``dtype``.
        scaled: whether planes are multiplied by a power of two for each side, so that no plane in fp16 overflows, as a
            caller does who scales A and B.
        order: the schedule; by default that of ``codegen.schedule``.
        pending_bits: of pending tiles, 32 or 16, see ``codegen.emit_hopper``; 16 are the default of its kernels with
            planes in bf16, which adds a thousandth to their error.

    Returns:
        [M, N] fp32 values that ``dtype`` holds exactly.

    Raises:
        ValueError: an unknown dtype, or inner sizes that differ.
    """
    plane_dtype = plane_dtype or dtype
    check_operands(a, b, {"dtype": dtype, "plane dtype": plane_dtype})
    order = order or schedule(plan, convert=plane_dtype != dtype)
    m, k, n = plan.format
    left = _Side(blocks_of(a, m, k), order.planes_a, plane_dtype, scaled)
    right = _Side(blocks_of(b, k, n), order.planes_b, plane_dtype, scaled)
    kept = _narrowed if pending_bits == 16 else _as_it_is
    blocks = _run(order, left, right, m * n, np.float32(1 / plan.divisor), kept)
    whole = np.block([[blocks[i * n + j] for j in range(n)] for i in range(m)])
    return rounded(whole[: a.shape[0], : b.shape[1]], dtype)


class _Side:
    """The factors of one side: blocks as they lie, and planes with the power of two they were multiplied by."""

    def __init__(self, blocks: list[Matrix], planes: Sequence[Vector], dtype: str, scaled: bool) -> None:
        self.blocks = blocks
        factor = np.array(planes, dtype=np.int64).reshape(len(planes), len(blocks)).T
        self.planes, self.scale = planes_of(sums_of(factor, blocks), dtype, scaled)

    def factor(self, operand: Operand) -> tuple[Matrix, float]:
        if operand.plane:
            return self.planes[operand.index], self.scale
        return self.blocks[operand.index], 1.0


def _as_it_is(x: Matrix) -> Matrix:
    return x


def _narrowed(x: Matrix) -> Matrix:
    """In FP16, with a power of two for each 16 rows that keeps the largest finite element in range."""
    result = np.empty_like(x)
    for start in range(0, len(x), _STRIP):
        rows = x[start : start + _STRIP]
        largest = float(np.abs(rows[np.isfinite(rows)]).max(initial=0.0))
        scale = np.float32(2.0 ** (_TOP - frexp(largest)[1]))
        result[start : start + _STRIP] = (rows * scale).astype(np.float16).astype(np.float32) / scale
    return result


def _run(
    order: Schedule, left: _Side, right: _Side, count: int, scale: np.float32, kept: Callable[[Matrix], Matrix]
) -> list[Matrix]:
    """The blocks of C before they are rounded."""
    zero = np.zeros((len(left.blocks[0]), right.blocks[0].shape[1]), np.float32)
    blocks, pending, accumulator = [zero] * count, [zero] * order.slots, zero
    for turn in order.turns:
        (x, scale_x), (y, scale_y) = left.factor(turn.a), right.factor(turn.b)
        product = (x @ y) * np.float32(1 / (scale_x * scale_y))
        accumulator = product if turn.clear else accumulator + product
        for each in turn.publications:
            factor = np.float32(each.coefficient)
            if each.resume:
                accumulator = accumulator + factor * pending[each.slot]
            elif each.first and each.last:
                blocks[each.block] = factor * scale * accumulator
            elif each.last:
                blocks[each.block] = scale * (factor * accumulator + pending[each.slot])
            elif each.first:
                pending[each.slot] = kept(factor * accumulator)
            else:
                pending[each.slot] = kept(pending[each.slot] + factor * accumulator)
    return blocks
