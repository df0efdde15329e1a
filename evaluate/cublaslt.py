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

# Attributes of a product: which of its operands are transposed, what is done to its result, and with which vector.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
# Attributes of a matrix: how many there are, and how far apart they lie.
_COUNT, _STRIDE = 5, 6
# What can be done to a result; its GELU is the one by tanh.
EPILOGUES = {"": 1, "relu": 2, "bias": 4, "bias,relu": 6, "gelu_tanh": 32, "bias,gelu_tanh": 36}
# Attributes of a preference, and the one way to add parts of a product that keeps them in the compute type.
_MAX_WORKSPACE, _REDUCTIONS, _COMPUTE_TYPE = 1, 3, 2
# Queues C = A B given the device addresses of A, B and C, and that of the bias where there is one.
Gemm = Callable[..., None]


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
def open_cublaslt(
    xp: Any,
    dtype: str,
    shape: tuple[int, int, int],
    layout: str = "nn",
    *,
    groups: int = 1,
    place: int = 0,
    epilogue: str = "",
) -> Iterator[Gemm]:
    """A product of one shape on CuPy's current stream, everything but its launch prepared, closed on leaving.

    Args:
        xp: cupy.
        dtype: of all three matrices; sums are fp32, for fp64 fp64.
        shape: M, N, K.
        layout: as in ``Cublas.gemm``.
        groups: how many products of this shape; matrices of a kind are dense and lie one after the other.
        place: of the algorithm in the order of the heuristic.
        epilogue: one of ``EPILOGUES``.

    Raises:
        DeviceMissingError: no cuBLAS on this machine.
        CublasError: it has no cuBLASLt, or that has not so many algorithms for this product.
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
            found = made("MatrixLayout", kind, *sizes, ld)
            if groups > 1:
                _set(library.cublasLtMatrixLayoutSetAttribute, found, _COUNT, ctypes.c_int32(groups))
                _set(library.cublasLtMatrixLayoutSetAttribute, found, _STRIDE, ctypes.c_int64(rows * columns))
            return found

        handle = ctypes.c_void_p()
        call(library.cublasLtCreate, ctypes.byref(handle))
        stack.callback(library.cublasLtDestroy, handle)
        product = made("MatmulDesc", compute, type_of("fp64" if dtype == "fp64" else "fp32"))
        for attribute, operation in zip((_TRANSPOSE_A, _TRANSPOSE_B), turned, strict=True):
            _set(library.cublasLtMatmulDescSetAttribute, product, attribute, ctypes.c_int32(operation))
        _set(library.cublasLtMatmulDescSetAttribute, product, _EPILOGUE, ctypes.c_uint32(EPILOGUES[epilogue]))
        left, right = stored(n, k, turned[0], ldb), stored(k, m, turned[1], lda)
        out = stored(n, m, 0, n)
        preference = made("MatmulPreference")
        set_preference = library.cublasLtMatmulPreferenceSetAttribute
        _set(set_preference, preference, _MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        _set(set_preference, preference, _REDUCTIONS, ctypes.c_uint32(_COMPUTE_TYPE))
        workspace = xp.empty(WORKSPACE_BYTES, dtype=xp.uint8)
        if "bias" in epilogue:  # a heuristic may ask for its place, and then only for how it is aligned
            _set(library.cublasLtMatmulDescSetAttribute, product, _BIAS, ctypes.c_void_p(workspace.data.ptr))
        ranked, count = (_Heuristic * (place + 1))(), ctypes.c_int()
        call(
            library.cublasLtMatmulAlgoGetHeuristic,
            *(handle, product, left, right, out, out, preference, place + 1, ctypes.byref(ranked), ctypes.byref(count)),
        )
        if count.value <= place or ranked[place].status:
            raise CublasError(f"cuBLASLt has no algorithm {place + 1} for {m} x {k} by {k} x {n} in {dtype}")
        one, zero, stream = scalar(1), scalar(0), xp.cuda.get_current_stream().ptr

        def gemm(a: int, b: int, c: int, bias: int = 0) -> None:
            if bias:
                _set(library.cublasLtMatmulDescSetAttribute, product, _BIAS, ctypes.c_void_p(bias))
            call(
                library.cublasLtMatmul,
                *(handle, product, ctypes.byref(one), b, left, a, right, ctypes.byref(zero), c, out, c, out),
                *(ctypes.byref(ranked[place]), workspace.data.ptr, WORKSPACE_BYTES, stream),
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
        "MatrixLayoutSetAttribute": [pointer, number, pointer, size],
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
