"""The baseline: one GEMM of cuBLAS, by ctypes, of the same dtype and accumulation as what it is compared with.

cuBLAS is column-major; a row-major C = A B is its C^T = B^T A^T, so the operands swap. Values of the enumerations are
those of cublas_api.h and library_types.h, CUDA 11 to 13.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evaluate.device import DeviceMissingError

WORKSPACE_BYTES = 32 << 20  # what the vendor recommends for Hopper, and what the emitted kernels give it
VARIABLE = "SUBCUBIC_CUBLAS"
_TYPES = {"fp16": 2, "bf16": 14, "fp32": 0, "fp64": 1}
_COMPUTE_32F, _COMPUTE_64F = 68, 70
_NO_TRANSPOSE, _TRANSPOSE, _DEFAULT_ALGORITHM = 0, 1, -1
# The default never rounds FP32 to TF32. Without the other, parts of a long 16-bit product may be added in 16 bits.
_DEFAULT_MATH, _NO_REDUCED_PRECISION_REDUCTION = 0, 16
# Settings from outside that make cuBLAS compute in another precision than it is asked for.
_OVERRIDES = ("NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION")


class CublasError(RuntimeError):
    """A call of cuBLAS returned a status other than success."""


@dataclass(frozen=True)
class Cublas:
    """An open handle.

    Attributes:
        library: the loaded library.
        handle: its cublasHandle_t.
        dtype: type of the matrices; sums are fp32, for fp64 fp64.
        version: for example "13.1.0".
    """

    library: ctypes.CDLL
    handle: ctypes.c_void_p
    dtype: str
    version: str

    def describe(self, entry: str = "cublasGemmEx") -> str:
        """A baseline in words: library, entry point, precision in force."""
        precision = {
            "fp32": "true FP32: CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT_MATH, TF32 off",
            "fp64": "FP64: CUBLAS_COMPUTE_64F",
        }.get(
            self.dtype,
            f"{self.dtype} operands and result, fp32 accumulation: CUBLAS_COMPUTE_32F, "
            "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION",
        )
        set_outside = [f"{name}={os.environ[name]}" for name in _OVERRIDES if os.environ.get(name)]
        return f"cuBLAS {self.version} {entry}, {precision}" + "".join(f", {text}" for text in set_outside)

    def gemm(self, m: int, n: int, k: int, a: int, b: int, c: int, layout: str = "nn") -> None:
        """Queue the row-major C = A B on the handle's stream.

        Args:
            m: rows of A and C.
            n: columns of B and C.
            k: columns of A, rows of B.
            a: device address of A, dense.
            b: device address of B, dense.
            c: device address of C, leading dimension n.
            layout: a letter for A and one for B, n as the product has it or t for its transpose.

        Raises:
            CublasError: cuBLAS refuses the call.
        """
        compute, scalar = accumulation(self.dtype)
        one, zero = ctypes.byref(scalar(1)), ctypes.byref(scalar(0))
        kind = type_of(self.dtype)
        lda, ldb = leading((m, n, k), layout)
        call(
            self.library.cublasGemmEx,
            *(self.handle, *operations(layout), n, m, k, one, b, kind, ldb, a, kind, lda, zero, c, kind, n),
            *(compute, _DEFAULT_ALGORITHM),
        )

    def gemms(self, groups: int, m: int, n: int, k: int, a: int, b: int, c: int, layout: str = "nn") -> None:
        """Queue C_i = A_i B_i for i < groups; matrices of a kind are dense and lie one after the other.

        Args:
            groups: how many.
            m: as of ``gemm``, like all that follow.
            n: likewise.
            k: likewise.
            a: device address of the first A.
            b: of the first B.
            c: of the first C.
            layout: likewise.

        Raises:
            CublasError: cuBLAS refuses the call.
        """
        compute, scalar = accumulation(self.dtype)
        one, zero = ctypes.byref(scalar(1)), ctypes.byref(scalar(0))
        kind = type_of(self.dtype)
        lda, ldb = leading((m, n, k), layout)
        call(
            self.library.cublasGemmStridedBatchedEx,
            *(self.handle, *operations(layout), n, m, k, one, b, kind, ldb, k * n, a, kind, lda, m * k),
            *(zero, c, kind, n, m * n, groups, compute, _DEFAULT_ALGORITHM),
        )


@contextmanager
def open_cublas(xp: Any, dtype: str) -> Iterator[Cublas]:
    """A handle for products of one dtype on CuPy's current stream, with a workspace of its own, closed on leaving.

    Raises:
        DeviceMissingError: no cuBLAS on this machine.
        CublasError: it cannot be initialised.
    """
    library = load()
    handle = ctypes.c_void_p()
    call(library.cublasCreate_v2, ctypes.byref(handle))
    try:
        workspace = xp.empty(WORKSPACE_BYTES, dtype=xp.uint8)
        # Setting the stream resets the workspace, so it comes first.
        call(library.cublasSetStream_v2, handle, xp.cuda.get_current_stream().ptr)
        call(library.cublasSetWorkspace_v2, handle, workspace.data.ptr, WORKSPACE_BYTES)
        mode = _DEFAULT_MATH if dtype in ("fp32", "fp64") else _NO_REDUCED_PRECISION_REDUCTION
        call(library.cublasSetMathMode, handle, mode)
        yield Cublas(library, handle, dtype, version(library))
        xp.cuda.get_current_stream().synchronize()
    finally:
        library.cublasDestroy_v2(handle)


def load() -> ctypes.CDLL:
    """The library; exports where it was found to $SUBCUBIC_CUBLAS, which the emitted kernels read.

    Raises:
        DeviceMissingError: it is nowhere, or what $SUBCUBIC_CUBLAS names cannot be used.
    """
    own = os.environ.get(VARIABLE)
    for name in [own] if own else candidates():
        beside = re.sub(r"libcublas\.", "libcublasLt.", name)
        try:
            if "/" in name and Path(beside).exists():
                # Not every package tells the loader that the second library lies beside the first.
                ctypes.CDLL(beside, mode=ctypes.RTLD_GLOBAL)
            library = _declared(ctypes.CDLL(name))
        except (OSError, AttributeError) as error:
            if own:  # another library than the one asked for would give figures under a wrong name
                raise DeviceMissingError(
                    f"${VARIABLE} is {own}, which is no usable cuBLAS ({error}); correct the variable or unset it"
                ) from None
            continue
        os.environ[VARIABLE] = name
        return library
    raise DeviceMissingError(f"no cuBLAS found: install the cuda13 or cuda12 extra, or set ${VARIABLE} to its path")


def candidates() -> list[str]:
    """Where cuBLAS may be: the vendor's pip packages, the loader's own search, the toolkit."""
    found = []
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for folder in ("cu13/lib", "cublas/lib", "cu12/lib"):
            found += sorted(str(path) for path in Path(root, folder).glob("libcublas.so.*"))
    found += [f"libcublas.so.{major}" for major in (13, 12, 11)]
    toolkit = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    return found + [str(path) for path in sorted(toolkit.glob("lib64/libcublas.so.??"))]


def version(library: ctypes.CDLL) -> str:
    """The library's version, for example "13.1.0".

    It is asked for part by part: the single number of cublasGetVersion has its places moved between releases.

    Raises:
        CublasError: the library does not say.
    """
    parts = []
    for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL of libraryPropertyType
        value = ctypes.c_int()
        call(library.cublasGetProperty, part, ctypes.byref(value))
        parts.append(str(value.value))
    return ".".join(parts)


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number, size, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_longlong
    signatures = {
        "cublasCreate_v2": [pointer],
        "cublasDestroy_v2": [pointer],
        "cublasSetStream_v2": [pointer, pointer],
        "cublasSetWorkspace_v2": [pointer, pointer, size],
        "cublasSetMathMode": [pointer, number],
        "cublasGetProperty": [number, pointer],
        "cublasGemmEx": [pointer, *[number] * 5, pointer, *[pointer, number, number] * 2, pointer]
        + [pointer, number, number, number, number],
        "cublasGemmStridedBatchedEx": [pointer, *[number] * 5, pointer, *[pointer, number, number, long] * 2, pointer]
        + [pointer, number, number, long, number, number, number],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, number
    return library


def type_of(dtype: str) -> int:
    """cudaDataType_t of a dtype."""
    return _TYPES[dtype]


def accumulation(dtype: str) -> tuple[int, Any]:
    """cublasComputeType_t of products of a dtype, and the ctypes type of their scalars."""
    return (_COMPUTE_64F, ctypes.c_double) if dtype == "fp64" else (_COMPUTE_32F, ctypes.c_float)


def operations(layout: str) -> list[int]:
    """cublasOperation_t of the swapped operands: of B, then of A."""
    return [_TRANSPOSE if letter == "t" else _NO_TRANSPOSE for letter in reversed(layout)]


def leading(shape: tuple[int, int, int], layout: str) -> tuple[int, int]:
    """Leading dimensions of dense A and B as they are stored.

    Args:
        shape: M, N, K.
        layout: a letter for A and one for B, n as the product has it or t for its transpose.
    """
    m, n, k = shape
    return m if layout[0] == "t" else k, k if layout[1] == "t" else n


def call(function: Any, *arguments: Any) -> None:
    """Call a function of cuBLAS.

    Raises:
        CublasError: its status is not success.
    """
    status = function(*arguments)
    if status:
        raise CublasError(f"{function.__name__} of cuBLAS failed with status {status}")
