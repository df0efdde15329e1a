"""The host's BLAS as a C function, for the product of the emitted C twin and for its baseline.

SciPy publishes its Fortran ?gemm as a function pointer. A few lines of C turn it into the row-major function the twin
takes; row-major C = A B is column-major C^T = B^T A^T, so the operands swap.
"""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codegen.build import build_c
from codegen.emit_c import TYPES
from evaluate.operands import check_choice

BLAS_DTYPES = ("fp32", "fp64")
_FORTRAN = {"fp32": "sgemm", "fp64": "dgemm"}
_ADAPTER = """\
#include <stdint.h>

typedef void (*fortran_TAG)(char *, char *, int *, int *, int *, TYPE *, TYPE *, int *, TYPE *, int *, TYPE *, TYPE *,
                            int *);

void gemm_TAG(void *context, int64_t M, int64_t N, int64_t K, const TYPE *A, int64_t lda, const TYPE *B, int64_t ldb,
              TYPE *C, int64_t ldc)
{
    char plain = 'N';
    int rows = (int)N, columns = (int)M, inner = (int)K, left = (int)ldb, right = (int)lda, result = (int)ldc;
    TYPE one = 1, zero = 0;
    ((fortran_TAG)context)(&plain, &plain, &rows, &columns, &inner, &one, (TYPE *)B, &left, (TYPE *)A, &right, &zero, C,
                           &result);
}
"""
# How builds of OpenBLAS name the function that says how many threads they use.
_THREADS = [f"{prefix}openblas_get_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("", "64_", "_64")]


@dataclass(frozen=True)
class HostGemm:
    """A row-major C = A B of the host's BLAS.

    Attributes:
        function: address of the C function, as the emitted C twin takes it.
        context: address to hand it as its first argument.
    """

    function: int
    context: int

    def call(self, a: Any, b: Any, c: Any) -> None:
        """Multiply contiguous NumPy matrices of the function's dtype into c."""
        index, address = ctypes.c_int64, ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(None, address, *[index] * 3, *[address, index] * 3)
        (m, k), n = a.shape, b.shape[1]
        kind(self.function)(self.context, m, n, k, a.ctypes.data, k, b.ctypes.data, n, c.ctypes.data, n)


@functools.cache
def host_gemm(dtype: str) -> HostGemm:
    """SciPy's BLAS behind the face of the C twin's product.

    Raises:
        ValueError: a dtype other than fp32 and fp64.
        RuntimeError: a SciPy whose BLAS takes 64-bit sizes, which this adapter does not speak.
        codegen.build.MissingCompilerError: no gcc.
    """
    check_choice("BLAS dtype", dtype, BLAS_DTYPES)
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[_FORTRAN[dtype]]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    if not signature.startswith(b"void (char *, char *, int *, int *, int *,"):
        raise RuntimeError(f"SciPy's {_FORTRAN[dtype]} has the signature {signature.decode()}; 32-bit sizes are needed")
    text = _ADAPTER.replace("TAG", dtype).replace("TYPE", TYPES[dtype])
    library = ctypes.CDLL(str(build_c(text)))
    function = ctypes.cast(getattr(library, f"gemm_{dtype}"), ctypes.c_void_p).value
    assert function
    return HostGemm(function, api.PyCapsule_GetPointer(capsule, signature))


def blas_threads() -> int:
    """Threads that the loaded OpenBLAS libraries use (the most of any), else the cores this process may use."""
    counts = []
    for path in _loaded_libraries():
        if "openblas" in Path(path).name:
            library = ctypes.CDLL(path)
            counts += [int(getattr(library, name)()) for name in _THREADS if hasattr(library, name)]
    return max(counts, default=len(os.sched_getaffinity(0)))


def _loaded_libraries() -> set[str]:
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return set()
    return {line.split(maxsplit=5)[5] for line in maps.splitlines() if ".so" in line}
