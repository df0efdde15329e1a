"""The emitted CUDA text, kernels and entry points, run on the host by a C++ compiler and a shim of CUDA.

Only the launch syntax is rewritten. The products are NumPy's or those of a cuBLAS for host memory,
so this needs neither nvcc nor a GPU.
"""

import ctypes
import itertools
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codegen.emit import emit
from codegen.emit_cuda import prefix
from tests.codegen.on_host import aligned, matrix, needs_compiler, on_host
from tests.codegen.schemes import plans

PLANS = plans()
NUMPY = {"fp32": np.float32, "fp64": np.float64, "bf16": ml_dtypes.bfloat16}
I64, P, D, SIZE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
GEMM = ctypes.CFUNCTYPE(ctypes.c_int, P, P, *[I64] * 4, *[P, I64, I64] * 3)
SIZES = [(1, 1, 1), (5, 300, 3), (37, 41, 29), (64, 96, 32)]
CASES = [
    *[(name, "fp32", "fp32") for name in PLANS],
    ("winograd2", "fp64", "fp64"),
    ("winograd", "bf16", "fp32"),
    ("rectangular", "bf16", "bf16"),
]


ENTRIES = {
    "open": (ctypes.c_int, P, P, P),
    "error": (ctypes.c_char_p,),
    "workspace": (SIZE, I64, I64, I64),
    "launch": (ctypes.c_int, P, P, I64, I64, I64, D, P, I64, P, I64, D, P, I64, P, SIZE),
    "close": (None, P),
}


def function(library: ctypes.CDLL, name: str, entry: str):
    found = getattr(library, f"{name}_{entry}")
    found.restype, *found.argtypes = ENTRIES[entry]
    return found


@needs_compiler
@pytest.mark.parametrize(("name", "dtype", "product_dtype"), CASES)
def test_launch_is_exact_on_integers(name, dtype, product_dtype, tmp_path):
    plan, kind, product_kind = PLANS[name], NUMPY[dtype], NUMPY[product_dtype]
    library = on_host(emit(plan, "cuda", dtype=dtype, product_dtype=product_dtype), tmp_path)
    entries = prefix(plan, dtype, product_dtype)

    @GEMM
    def product(context, stream, count, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc):
        def view(pointer, rows, columns, dtype):
            flat = (ctypes.c_char * (count * rows * columns * np.dtype(dtype).itemsize)).from_address(pointer)
            return np.frombuffer(flat, dtype).reshape(count, rows, columns)

        assert (lda, ldb, ldc, sa, sb, sc) == (k, n, n, m * k, k * n, m * n) and n % 8 == k % 8 == 0
        left, right = view(a, m, k, kind).astype(float), view(b, k, n, kind).astype(float)
        view(c, m, n, product_kind)[:] = (left @ right).astype(product_kind)
        return 0

    launch, workspace, handle = function(library, entries, "launch"), function(library, entries, "workspace"), P()
    function(library, entries, "open")(ctypes.byref(handle), ctypes.cast(product, P), None)
    rng = np.random.default_rng(0)
    # Small enough that even 16-bit products are exact.
    peak = 1 if dtype == "bf16" else 2
    for (m, k, n), (gap, offset), (alpha, beta) in itertools.product(
        SIZES, [(0, 0), (3, 0), (16, 0), (16, 1)], [(1, 0), (-2, 1)]
    ):
        k = min(k, 64) if dtype == "bf16" else k
        a = matrix(rng.integers(-peak, peak + 1, (m, k)), gap, kind, offset)
        b = matrix(rng.integers(-peak, peak + 1, (k, n)), gap, kind, offset)
        c = matrix(rng.integers(-peak, peak + 1, (m, n)), gap, kind, offset)
        exact = alpha * (a[:, :k].astype(float) @ b[:, :n].astype(float)) + beta * c[:, :n].astype(float)
        if beta == 0:
            c[:] = np.nan
        size = workspace(m, n, k)
        space = aligned(size, np.uint8)
        code = launch(handle, None, m, n, k, alpha, a.ctypes.data, k + gap, b.ctypes.data, n + gap, beta, c.ctypes.data,
                      n + gap, space.ctypes.data, size)  # fmt: skip
        assert code == 0, function(library, entries, "error")().decode()
        np.testing.assert_array_equal(c[:, :n].astype(float), exact)
        assert np.isnan(c[:, n:].astype(float)).all(), "the kernel wrote outside C"
    function(library, entries, "close")(handle)


@needs_compiler
def test_products_by_the_library_alone_and_in_a_batch(tmp_path, monkeypatch):
    """The emitted calls of cuBLAS: operands, strides, math mode, workspace, and the choice of entry point."""
    source, path = Path(__file__).with_name("cublas_on_host.c"), tmp_path / "libcublas.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    monkeypatch.setenv("SUBCUBIC_CUBLAS", str(path))
    cublas = ctypes.CDLL(str(path))
    plan, rng = PLANS["winograd"], np.random.default_rng(0)
    library, entries, handle = on_host(emit(plan, "cuda"), tmp_path), prefix(plan, "fp32"), P()
    launch, workspace = function(library, entries, "launch"), function(library, entries, "workspace")
    assert function(library, entries, "open")(ctypes.byref(handle), None, None) == 0

    def used():
        return tuple(ctypes.c_int.in_dll(cublas, name).value for name in ("math_mode", "singles", "batches"))

    assert used() == (0, 1, 1)  # both once before anything can be captured
    # A block of 256 x 256 is four tiles for each of the single multiprocessor of this host.
    for (m, k, n), expected in (((40, 30, 50), (0, 1, 2)), ((512, 20, 510), (0, 8, 2))):
        a, b = (rng.integers(-3, 4, size).astype(np.float32) for size in ((m, k), (k, n)))
        c, size = np.full((m, n), np.nan, np.float32), workspace(m, n, k)
        space = aligned(size, np.uint8)
        code = launch(handle, None, m, n, k, 1, a.ctypes.data, k, b.ctypes.data, n, 0, c.ctypes.data, n,
                      space.ctypes.data, size)  # fmt: skip
        assert code == 0, function(library, entries, "error")().decode()
        np.testing.assert_array_equal(c, a @ b)
        assert used() == expected
    function(library, entries, "close")(handle)


@needs_compiler
def test_the_library_that_the_variable_names_is_the_only_one_tried(tmp_path, monkeypatch):
    plan = PLANS["trivial"]
    library, entries, handle = on_host(emit(plan, "cuda"), tmp_path), prefix(plan, "fp32"), P()
    monkeypatch.setenv("SUBCUBIC_CUBLAS", str(tmp_path / "libcublas.so.0"))
    assert function(library, entries, "open")(ctypes.byref(handle), None, None) == 4 and not handle
    message = function(library, entries, "error")().decode()
    assert message.startswith("SUBCUBIC_CUBLAS names a library that cannot be opened (") and "libcublas.so.0" in message
