"""What can be measured of one plan: the ways to run it, each a path with its types, layout and given planes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.limits import check_chained, why_not_chained
from codegen.plan import Plan
from evaluate import cpu
from evaluate.device import DeviceInfo
from evaluate.operands import DTYPES, check_choice

LIBRARY_PATH, FUSED_PATH, VENDOR_PATH, TRITON_PATH = "cuda", "fused", "cublas", "triton"
PATHS = ("auto", LIBRARY_PATH, FUSED_PATH, VENDOR_PATH, TRITON_PATH)
CHAINED_PATHS = (FUSED_PATH, TRITON_PATH)  # one kernel for all products, so that only planes are stored
# Both operands new in every launch; B packed once outside the timing; both packed, only the products timed.
OPERANDS = ("variable", "b_constant", "planes_given")
# First A, then B: n is row-major as the product has it, t is stored transposed (A as K x M, B as N x K).
LAYOUTS = ("nn", "nt", "tn", "tt")
FUSED_DTYPES = ("fp16", "bf16")


@dataclass(frozen=True)
class Variant:
    """One way to run a plan.

    Attributes:
        dtype: of A, B and C.
        path: "cuda" for products by the vendor's library, "fused" for one kernel, "triton" for its twin, "cublas" for
            the baseline itself (its row shows the noise), else one of ``evaluate.cpu``.
        operands: one of ``OPERANDS``.
        plane_dtype: type of the planes.
        product_dtype: type in which products are stored; for fused ones that of the accumulator.
        layout: one of ``LAYOUTS``.
        options: further ones of the emitter, by name.
    """

    dtype: str
    path: str
    operands: str
    plane_dtype: str
    product_dtype: str
    layout: str = "nn"
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Which variants to measure, as far as a dtype and a device have them.

    Attributes:
        path: "auto" for all that make sense, or one of ``PATHS``.
        operands: of ``OPERANDS``.
        plane_dtypes: fp16, bf16, or "input" for the dtype of the operands.
        layouts: of ``LAYOUTS``.
        product_dtype: of the products of the library path; None means the dtype of the operands.
        options: for the emitter of fused kernels.

    Raises:
        ValueError: an unknown name, or what the path "cuda" or "triton" does not have.
    """

    path: str = "auto"
    operands: tuple[str, ...] = ("variable",)
    plane_dtypes: tuple[str, ...] = ("input",)
    layouts: tuple[str, ...] = ("nn",)
    product_dtype: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_choice("path", self.path, PATHS)
        for operands in self.operands:
            check_choice("operands", operands, OPERANDS)
        for dtype in self.plane_dtypes:
            check_choice("plane dtype", dtype, ("input", *FUSED_DTYPES))
        for layout in self.layouts:
            check_choice("layout", layout, LAYOUTS)
        if self.product_dtype is not None:
            check_choice("product dtype", self.product_dtype, DTYPES)
        if self.path == TRITON_PATH and (self.operands != ("variable",) or self.layouts != ("nn",)):
            raise ValueError("path triton has variable operands and layout nn; use path fused")
        library = self.operands == ("variable",) and self.layouts == ("nn",) and self.plane_dtypes == ("input",)
        if self.path in (LIBRARY_PATH, VENDOR_PATH) and not library:
            raise ValueError(
                f"path {self.path} has variable operands, planes of the input type and layout nn; use path fused"
            )


def variants(plan: Plan, dtypes: Sequence[str], wanted: Wanted, gpu: DeviceInfo | None) -> list[Variant]:
    """All variants of a plan that are wanted and exist.

    Raises:
        ValueError: a path of a GPU is wanted of a CPU, or "fused" or "triton" of a dtype, a device or a plan that has
            none.
    """
    if gpu is None and wanted.path != "auto":
        raise ValueError(f"path {wanted.path} needs a GPU; leave it out to measure on the CPU")
    if wanted.path in CHAINED_PATHS:
        check_chained(plan, wanted.path)
    found: list[Variant] = []
    for dtype in dtypes:
        if gpu is None:
            found += [
                Variant(dtype, path, "variable", dtype, product_dtype_of(dtype, path, wanted.product_dtype))
                for path in cpu.paths_for(dtype)
            ]
            continue
        if wanted.path == VENDOR_PATH:
            found.append(Variant(dtype, VENDOR_PATH, "variable", dtype, dtype))
            continue
        reason = why_not_fused(dtype, gpu)
        if wanted.path in CHAINED_PATHS and reason:
            raise ValueError(reason)
        if wanted.path == LIBRARY_PATH or (wanted.path == "auto" and "variable" in wanted.operands):
            product_dtype = product_dtype_of(dtype, LIBRARY_PATH, wanted.product_dtype)
            found.append(Variant(dtype, LIBRARY_PATH, "variable", dtype, product_dtype))
        if wanted.path != LIBRARY_PATH and not reason and not why_not_chained(plan, _kernel(wanted)):
            found += _chained(plan, dtype, wanted)
    return found


def left_out(plan: Plan, dtypes: Sequence[str], wanted: Wanted, gpu: DeviceInfo | None) -> str:
    """Why the fused variants of a plan are not measured where its size is the reason; else empty."""
    if gpu is None or wanted.path in (LIBRARY_PATH, VENDOR_PATH) or all(why_not_fused(dtype, gpu) for dtype in dtypes):
        return ""
    return why_not_chained(plan, _kernel(wanted))


def why_not_fused(dtype: str, gpu: DeviceInfo) -> str:
    """Why there is no fused kernel; empty when there is one."""
    if dtype not in FUSED_DTYPES:
        return f"there is no fused kernel for {dtype}; choose fp16 or bf16, or path cuda"
    if int(gpu.arch[3:].rstrip("af")) < 80:
        return f"fused kernels need a GPU of compute capability 8.0, {gpu.name} is {gpu.arch}; use path cuda"
    return ""


def product_dtype_of(dtype: str, path: str, wanted: str | None) -> str:
    """The type in which products are stored; fp32 asks for at least that, so it means fp64 for fp64."""
    if path in ("c", "numpy") or (dtype, wanted) == ("fp64", "fp32"):
        return dtype
    return wanted or dtype


def has_planes(plan: Plan) -> bool:
    """Whether a product needs more than a block of A and a block of B."""
    return any(bool((np.abs(factor).sum(axis=0) != 1).any()) for factor in (plan.scheme.U, plan.scheme.V))


def _chained(plan: Plan, dtype: str, wanted: Wanted) -> list[Variant]:
    path = _kernel(wanted)
    planes = has_planes(plan)
    # Without planes there is nothing to pack and nothing to convert: all these are one variant.
    operands = wanted.operands if planes else ("variable",)
    types = [dtype if name == "input" or not planes else name for name in wanted.plane_dtypes]
    return [
        Variant(dtype, path, mode, plane_dtype, "fp32", layout, wanted.options)
        for plane_dtype in dict.fromkeys(types)
        for layout in wanted.layouts
        for mode in operands
    ]


def _kernel(wanted: Wanted) -> str:
    """The path of the variants with one kernel for all products."""
    return TRITON_PATH if wanted.path == TRITON_PATH else FUSED_PATH
