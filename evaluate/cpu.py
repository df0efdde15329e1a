"""The CPU path: the emitted C and NumPy twins against BLAS of the same dtype and thread count."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from codegen.build import build_c
from codegen.emit import emit
from codegen.plan import Plan
from evaluate.blas import BLAS_DTYPES, blas_threads, host_gemm
from evaluate.emulate import emulate, emulate_baseline
from evaluate.operands import DTYPES, narrow, widen

# Multiplies contiguous matrices: A [M, K], B [K, N], into C [M, N].
Multiply = Callable[[Any, Any, Any], None]


def paths_for(dtype: str) -> tuple[str, ...]:
    """What can be run on a CPU: both twins for fp32 and fp64, emulation of the roundings for 16-bit types."""
    return ("c", "numpy") if dtype in BLAS_DTYPES else ("emulated",)


def arms(plan: Plan, dtype: str, path: str, product_dtype: str) -> tuple[Multiply, Multiply]:
    """The scheme and its baseline on one path; 16-bit matrices are stored as in ``evaluate.operands``.

    Raises:
        ValueError: a path the dtype does not have.
        codegen.build.MissingCompilerError: the C path without gcc.
    """
    if path not in paths_for(dtype):
        raise ValueError(f"path {path!r} does not exist for {dtype}; choose from {', '.join(paths_for(dtype))}")
    if path == "c":
        return c_twin(plan, dtype), host_gemm(dtype).call
    if path == "numpy":
        return numpy_twin(plan), numpy_matmul

    def ours(a: Any, b: Any, c: Any) -> None:
        c[:] = narrow(np, emulate(plan, wide(a), wide(b), dtype, product_dtype=product_dtype), dtype)

    def baseline(a: Any, b: Any, c: Any) -> None:
        c[:] = narrow(np, emulate_baseline(wide(a), wide(b), dtype), dtype)

    def wide(stored: Any) -> Any:
        return widen(np, stored, dtype, "float32")

    return ours, baseline


def c_twin(plan: Plan, dtype: str) -> Multiply:
    """The emitted C, built for this machine, its products done by the host's BLAS.

    Raises:
        codegen.build.MissingCompilerError: no gcc.
    """
    # libgomp reads this when it is loaded. Its threads would otherwise spin between the parallel loops, on the cores
    # that the threads of the BLAS need: 2.3 times slower at 2048^3 with two levels on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    function = getattr(ctypes.CDLL(str(build_c(emit(plan, "c")))), f"{plan.name}_{dtype}")
    scalar = {"fp32": ctypes.c_float, "fp64": ctypes.c_double}[dtype]
    address, index = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = [*[index] * 3, scalar, *[address, index] * 2, scalar, address, index, address, address]
    gemm = host_gemm(dtype)

    def multiply(a: Any, b: Any, c: Any) -> None:
        (m, k), n = a.shape, b.shape[1]
        operands = (a.ctypes.data, k, b.ctypes.data, n)
        status = function(m, n, k, 1.0, *operands, 0.0, c.ctypes.data, n, gemm.function, gemm.context)
        if status == 1:
            raise MemoryError(
                f"{plan.name} needs {workspace_bytes(plan, dtype, m, n, k)} bytes for planes and products"
            )
        if status:
            raise ValueError(f"{plan.name} refused {a.shape} by {b.shape} with status {status}")

    return multiply


def numpy_twin(plan: Plan) -> Multiply:
    """The emitted NumPy module."""
    scope: dict[str, Any] = {}
    exec(compile(emit(plan, "numpy"), f"{plan.name}.py", "exec"), scope)

    def multiply(a: Any, b: Any, c: Any) -> None:
        c[:] = scope["matmul"](a, b)

    return multiply


def numpy_matmul(a: Any, b: Any, c: Any) -> None:
    """NumPy's own product."""
    np.matmul(a, b, out=c)


def workspace_bytes(plan: Plan, dtype: str, m: int, n: int, k: int) -> int:
    """Memory that the C twin allocates: one plane of each side and all products."""
    rows, inner, columns = (-(-size // parts) for size, parts in zip((m, k, n), plan.format, strict=True))
    return (rows * inner + inner * columns + plan.rank * rows * columns) * DTYPES[dtype].bytes


def describe_baseline(dtype: str, path: str) -> str:
    """The baseline in words."""
    if path == "emulated":
        return f"a plain {dtype} GEMM with fp32 accumulation and one rounding, emulated"
    where = "SciPy's BLAS" if path == "c" else "NumPy's matmul"
    return f"{where}, {dtype}, {blas_threads()} threads"


def cpu_name() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
