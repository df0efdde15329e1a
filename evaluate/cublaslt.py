"""The other baseline: one product of cuBLASLt, by the algorithm that its heuristic ranks first for exactly these sizes.

cublasGemmEx picks among the same kernels by rules of its own and is not always the faster of the two. Values of the
enumerations are those of cublasLt.h, CUDA 11 to 13; matrices are column-major there, see ``evaluate.cublas``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from evaluate.cublas import WORKSPACE_BYTES, CublasError, accumulation, call, leading, load, operations, type_of

# Attributes of a product: which of its operands are transposed.
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4
# Attributes of a preference, and the one way to add parts of a product that keeps them in the compute type.
_MAX_WORKSPACE, _REDUCTIONS, _COMPUTE_TYPE = 1, 3, 2
# Queues C = A B given the device addresses of A, B and C.
Gemm = Callable[[int, int, int], None]


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


@contextmanager
def open_cublaslt(xp: Any, dtype: str, shape: tuple[int, int, int], layout: str = "nn") -> Iterator[Gemm]:
    """A product of one shape on CuPy's current stream, everything but its launch prepared, closed on leaving.

    Args:
        xp: cupy.
        dtype: of all three matrices; sums are fp32, for fp64 fp64.
        shape: M, N, K.
        layout: as in ``Cublas.gemm``.

    Raises:
        DeviceMissingError: no cuBLAS on this machine.
        CublasError: it has no cuBLASLt, or that has no algorithm for this product.
    """
    library = _declared(load())
    m, n, k = shape
    compute, scalar = accumulation(dtype)
    kind, turned = type_of(dtype), operations(layout)
    lda, ldb = leading(shape, layout)
    with ExitStack() as stack:

        def made(what: str, *arguments: Any) -> ctypes.c_void_p:
            found = ctypes.c_void_p()
            call(getattr(library, f"cublasLt{what}Create"), ctypes.byref(found), *arguments)
            stack.callback(getattr(library, f"cublasLt{what}Destroy"), found)
            return found

        def stored(rows: int, columns: int, transposed: int, ld: int) -> ctypes.c_void_p:
            sizes = (columns, rows) if transposed else (rows, columns)
            return made("MatrixLayout", kind, *sizes, ld)

        handle = ctypes.c_void_p()
        call(library.cublasLtCreate, ctypes.byref(handle))
        stack.callback(library.cublasLtDestroy, handle)
        product = made("MatmulDesc", compute, type_of("fp64" if dtype == "fp64" else "fp32"))
        for attribute, operation in zip((_TRANSPOSE_A, _TRANSPOSE_B), turned, strict=True):
            _set(library.cublasLtMatmulDescSetAttribute, product, attribute, ctypes.c_int32(operation))
        left, right = stored(n, k, turned[0], ldb), stored(k, m, turned[1], lda)
        out = stored(n, m, 0, n)
        preference = made("MatmulPreference")
        set_preference = library.cublasLtMatmulPreferenceSetAttribute
        _set(set_preference, preference, _MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        _set(set_preference, preference, _REDUCTIONS, ctypes.c_uint32(_COMPUTE_TYPE))
        first, count = _Heuristic(), ctypes.c_int()
        call(
            library.cublasLtMatmulAlgoGetHeuristic,
            *(handle, product, left, right, out, out, preference, 1, ctypes.byref(first), ctypes.byref(count)),
        )
        if not count.value or first.status:
            raise CublasError(f"cuBLASLt has no algorithm for {m} x {k} by {k} x {n} in {dtype}")
        workspace = xp.empty(WORKSPACE_BYTES, dtype=xp.uint8)
        one, zero, stream = scalar(1), scalar(0), xp.cuda.get_current_stream().ptr

        def gemm(a: int, b: int, c: int) -> None:
            call(
                library.cublasLtMatmul,
                *(handle, product, ctypes.byref(one), b, left, a, right, ctypes.byref(zero), c, out, c, out),
                *(ctypes.byref(first), workspace.data.ptr, WORKSPACE_BYTES, stream),
            )

        yield gemm
        xp.cuda.get_current_stream().synchronize()


def _set(function: Any, owner: ctypes.c_void_p, attribute: int, value: Any) -> None:
    call(function, owner, attribute, ctypes.byref(value), ctypes.sizeof(value))


def _declared(cublas: ctypes.CDLL) -> ctypes.CDLL:
    """The cuBLASLt that cuBLAS itself has loaded: its functions are found through cuBLAS."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    signatures = {
        "Create": [pointer],
        "Destroy": [pointer],
        "MatmulDescCreate": [pointer, number, number],
        "MatmulDescDestroy": [pointer],
        "MatmulDescSetAttribute": [pointer, number, pointer, size],
        "MatrixLayoutCreate": [pointer, number, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
        "MatrixLayoutDestroy": [pointer],
        "MatmulPreferenceCreate": [pointer],
        "MatmulPreferenceDestroy": [pointer],
        "MatmulPreferenceSetAttribute": [pointer, number, pointer, size],
        "MatmulAlgoGetHeuristic": [*[pointer] * 7, number, pointer, pointer],
        "Matmul": [*[pointer] * 14, size, pointer],
    }
    try:
        for name, arguments in signatures.items():
            function = getattr(cublas, f"cublasLt{name}")
            function.argtypes, function.restype = arguments, number
    except AttributeError as error:
        raise CublasError(f"this cuBLAS brings no cuBLASLt: {error}") from None
    return cublas
