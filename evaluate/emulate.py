"""The error of a kernel without the kernel: every rounding it makes, made on the CPU.

This is the kernel with the vendor's products; that with one accumulator is in ``evaluate.emulate_fused``.

Planes are summed in fp32 and rounded to the plane type, products accumulate in fp32 and are rounded to the type in
which they are stored, blocks of C are summed in fp32 and rounded once. The sums are those of the emitted CUDA, term by
term in its order, so only two things differ from a GPU's: the order in which a product accumulates, and that the device
may fuse the multiplication by a coefficient with its addition, which changes an fp32 rounding where the coefficient
times the value needs more than fp32's 24 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Factor
from codegen.plan import Plan
from evaluate.operands import check_choice

Matrix = NDArray[np.float32]

PLANE_DTYPES = ("fp16", "bf16", "fp32")
_PEAK = 2.0**14  # planes in fp16 are scaled to this size: below overflow at 65504, far above the subnormal numbers


def rounded(values: Matrix, dtype: str) -> Matrix:
    """fp32 values rounded to nearest even in fp16 or bf16; fp32 returns them as they are."""
    if dtype == "fp32":
        return values
    with np.errstate(over="ignore"):
        return values.astype(_type(dtype)).astype(np.float32)


@np.errstate(invalid="ignore", over="ignore")
def emulate(
    plan: Plan,
    a: Matrix,
    b: Matrix,
    dtype: str,
    *,
    plane_dtype: str | None = None,
    product_dtype: str | None = None,
) -> Matrix:
    """C = A B as a kernel of this plan computes it.

    Args:
        plan: what to compute.
        a: [M, K] fp32 values that ``dtype`` holds exactly.
        b: [K, N] the same.
        dtype: type of A, B and C: fp16, bf16 or fp32.
        plane_dtype: type of the planes; default ``dtype``. With fp16 planes of other types, both sides are scaled by
            powers of two, which is exact, so that no plane overflows.
        product_dtype: type in which products are stored; default ``dtype``.

    Returns:
        [M, N] fp32 values that ``dtype`` holds exactly.

    Raises:
        ValueError: an unknown dtype, or inner sizes that differ.
    """
    plane_dtype, product_dtype = plane_dtype or dtype, product_dtype or dtype
    check_operands(a, b, {"dtype": dtype, "plane dtype": plane_dtype, "product dtype": product_dtype})
    m, k, n = plan.format
    narrowing = plane_dtype == "fp16" and dtype != "fp16"
    planes_a, scale_a = planes_of(sums_of(plan.scheme.U, blocks_of(a, m, k)), plane_dtype, narrowing)
    planes_b, scale_b = planes_of(sums_of(plan.scheme.V, blocks_of(b, k, n)), plane_dtype, narrowing)
    unscale = np.float32(1 / (scale_a * scale_b))
    blocks = np.zeros((m * n, len(planes_a[0]), planes_b[0].shape[1]), np.float32)
    for x, y, column in zip(planes_a, planes_b, plan.scheme.W.T.tolist(), strict=True):
        product = rounded((x @ y) * unscale, product_dtype)
        for block, coefficient in enumerate(column):
            if coefficient:
                blocks[block] += np.float32(coefficient) * product
    whole = np.block([[blocks[i * n + j] for j in range(n)] for i in range(m)])
    result = whole[: a.shape[0], : b.shape[1]].astype(np.float32, copy=False)
    return rounded(result / np.float32(plan.divisor) if plan.divisor != 1 else result, dtype)


def check_operands(a: Matrix, b: Matrix, dtypes: Mapping[str, str]) -> None:
    """Refuse what cannot be multiplied.

    Args:
        a: [M, K].
        b: [K, N].
        dtypes: the types by the names that messages give them.

    Raises:
        ValueError: an unknown dtype, or inner sizes that differ.
    """
    for what, value in dtypes.items():
        check_choice(what, value, PLANE_DTYPES)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"A has {a.shape[1]} columns but B has {b.shape[0]} rows")


@np.errstate(invalid="ignore", over="ignore")
def emulate_baseline(a: Matrix, b: Matrix, dtype: str) -> Matrix:
    """C = A B as a plain GEMM computes it: fp32 accumulation, one rounding."""
    return rounded(a @ b, dtype)


def sums_of(factor: Factor, blocks: list[Matrix]) -> list[Matrix]:
    """The linear combinations of each column of a factor matrix: positive terms first, then by block."""
    sums = []
    for column in factor.T.tolist():
        terms = sorted((c < 0, block) for block, c in enumerate(column) if c)
        total = np.zeros_like(blocks[0])
        for _, block in terms:
            total += np.float32(column[block]) * blocks[block]
        sums.append(total)
    return sums


def planes_of(sums: list[Matrix], dtype: str, scaled: bool) -> tuple[list[Matrix], float]:
    """The rounded planes and the power of two they were multiplied by."""
    scale = 1.0
    peak = max((float(np.abs(plane).max(initial=0)) for plane in sums), default=0.0)
    if scaled and 0 < peak < np.inf:
        scale = float(2.0 ** np.floor(np.log2(_PEAK / peak)))
    return [rounded(plane * np.float32(scale), dtype) for plane in sums], scale


def blocks_of(matrix: Matrix, rows: int, columns: int) -> list[Matrix]:
    """Equal blocks, row-major, of the matrix padded with zeros."""
    height, width = -(-matrix.shape[0] // rows), -(-matrix.shape[1] // columns)
    padded = np.zeros((height * rows, width * columns), np.float32)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return [
        padded[i * height : (i + 1) * height, j * width : (j + 1) * width] for i in range(rows) for j in range(columns)
    ]


def _type(dtype: str) -> Any:
    if dtype == "fp16":
        return np.float16
    import ml_dtypes

    return ml_dtypes.bfloat16
