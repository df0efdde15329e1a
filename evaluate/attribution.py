"""Where the error of a scheme comes from: the same product with some of its roundings left out.

Everything is emulated on the CPU, so the arms differ in nothing but the roundings that they are named for. All round C
once to its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from catalog.measures import growth, stability
from codegen.plan import Plan
from codegen.schedule import schedule
from evaluate.accuracy import errors, sample_rows
from evaluate.cases import facts_of
from evaluate.emulate import PLANE_DTYPES, Matrix, emulate, emulate_baseline
from evaluate.emulate_fused import emulate_fused
from evaluate.error_keys import Row, error_keys
from evaluate.operands import check_choice, draw, narrow, widen

ATTRIBUTED_DTYPES = ("bf16", "fp16")
# What is rounded besides C; "fused" rounds planes only, but adds in the order of its chain.
ARMS = {
    "fp32": "nothing but C is rounded",
    "planes": "planes are rounded",
    "products": "products are rounded",
    "both": "planes and products are rounded, as with the vendor's products",
    "fused": "planes are rounded, products stay in one fp32 accumulator",
}


def attribution(
    plan: Plan,
    shape: tuple[int, int, int],
    dtype: str,
    *,
    plane_dtype: str | None = None,
    distribution: str = "normal",
    seed: int = 0,
    seeds: int = 1,
) -> list[Row]:
    """Errors of a plan with some of its roundings left out, and of a plain GEMM on the same operands.

    Args:
        plan: the scheme and its levels.
        shape: M, N, K.
        dtype: of A, B and C: bf16 or fp16.
        plane_dtype: of the planes; default ``dtype``. Planes of another type than the operands are scaled by a power of
            two for each side.
        distribution: of the operands, a key of ``evaluate.operands.DISTRIBUTIONS``.
        seed: the first of ``seeds``.
        seeds: how many to draw operands with.

    Returns:
        One row for each of ``ARMS``: ``arm``, ``dtype``, ``plane_dtype``, ``distribution``, ``seed``, the sizes and the
        keys of ``evaluate.error_keys``.

    Raises:
        ValueError: an unknown name, or a size or a number of seeds below 1.
    """
    plane_dtype = plane_dtype or dtype
    check_choice("dtype", dtype, ATTRIBUTED_DTYPES)
    check_choice("plane dtype", plane_dtype, PLANE_DTYPES)
    if min(*shape, seeds) < 1:
        raise ValueError(f"M, N, K and the seeds must be at least 1, not {shape} and {seeds}")
    m, n, k = shape
    arms = _arms(plan, dtype, plane_dtype)
    found: dict[str, list[Any]] = {name: [] for name in arms}
    for number in range(seed, seed + seeds):
        rng = np.random.default_rng(number)
        a, b = (draw(np, rng, size, dtype, distribution, side) for side, size in (("a", (m, k)), ("b", (k, n))))
        x, y = (widen(np, stored, dtype, "float32") for stored in (a, b))
        outputs = [narrow(np, multiply(x, y), dtype) for multiply in arms.values()]
        outputs.append(narrow(np, emulate_baseline(x, y, dtype), dtype))
        *ours, baseline = errors(np, outputs, a, b, dtype, sample_rows(m, plan.format.m, number), plan.format)
        for name, one in zip(arms, ours, strict=True):
            found[name].append((one, baseline))
    common = {"dtype": dtype, "plane_dtype": plane_dtype, "distribution": distribution, "seed": seed}
    return [
        {"arm": name, **common, "M": m, "N": n, "K": k, **error_keys(plan, pairs, dtype, plane_dtype, k)}
        for name, pairs in found.items()
    ]


def attribution_head(plan: Plan) -> Row:
    """What a document says of the plan itself."""
    return {**facts_of(plan), "growth": growth(plan.scheme), "stability": stability(plan.scheme)}


def _arms(plan: Plan, dtype: str, plane_dtype: str) -> dict[str, Callable[[Matrix, Matrix], Matrix]]:
    convert = plane_dtype != dtype
    order = schedule(plan, convert)

    def unfused(planes: str, products: str) -> Callable[[Matrix, Matrix], Matrix]:
        return lambda a, b: emulate(plan, a, b, dtype, plane_dtype=planes, product_dtype=products)

    def fused(a: Matrix, b: Matrix) -> Matrix:
        return emulate_fused(plan, a, b, dtype, plane_dtype=plane_dtype, scaled=convert, order=order)

    made = {
        "fp32": unfused("fp32", "fp32"),
        "planes": unfused(plane_dtype, "fp32"),
        "products": unfused("fp32", dtype),
        "both": unfused(plane_dtype, dtype),
        "fused": fused,
    }
    return {name: made[name] for name in ARMS}
