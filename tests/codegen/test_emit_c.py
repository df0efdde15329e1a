import ctypes

import numpy as np
import pytest

from codegen.build import build_c
from codegen.emit import emit, emit_header
from tests.codegen.schemes import plans

PLANS = plans()
POINTER = ctypes.c_void_p
I64 = ctypes.c_int64
SCALARS = {"fp32": (ctypes.c_float, np.float32), "fp64": (ctypes.c_double, np.float64), "int64": (I64, np.int64)}
SHAPES = [(1, 1, 1), (7, 5, 3), (8, 12, 16), (33, 29, 1030)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path_factory.getbasetemp() / "c-cache"))


def multiply(plan, dtype, a, b, c, alpha=1, beta=0, product=None, sizes=None):
    """Call the C function on NumPy arrays, whose strides give the leading dimensions."""
    scalar, kind = SCALARS[dtype]
    function = getattr(ctypes.CDLL(str(build_c(emit(plan, "c")))), f"{plan.name}_{dtype}")
    function.argtypes = [I64, I64, I64, scalar, POINTER, I64, POINTER, I64, scalar, POINTER, I64, POINTER, POINTER]
    m, k, n = sizes or (a.shape[0], a.shape[1], b.shape[1])
    ld = [x.strides[0] // x.itemsize for x in (a, b, c)]
    assert all(x.dtype == kind for x in (a, b, c))
    pointers = [x.ctypes.data for x in (a, b, c)]
    return function(m, n, k, alpha, pointers[0], ld[0], pointers[1], ld[1], beta, pointers[2], ld[2], product, None)


@pytest.mark.parametrize("name", ["strassen", "winograd2", "rectangular", "rational2", "trivial"])
def test_c_twin_is_exact_on_integers(name):
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a, b, c = rng.integers(-50, 50, (m, k)), rng.integers(-50, 50, (k, n)), rng.integers(-50, 50, (m, n))
        expected = 3 * (a @ b) - 2 * c
        assert multiply(PLANS[name], "int64", a, b, c, alpha=3, beta=-2) == 0
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_padded_rows_and_poison(dtype):
    kind = SCALARS[dtype][1]
    rng = np.random.default_rng(0)
    storage = [np.full(shape, np.nan, kind) for shape in ((37, 60), (53, 80), (37, 70))]
    a, b, c = storage[0][:, :53], storage[1][:, :41], storage[2][:, :41]
    a[:], b[:] = rng.integers(-9, 9, a.shape), rng.integers(-9, 9, b.shape)
    assert multiply(PLANS["winograd2"], dtype, a, b, c) == 0
    np.testing.assert_array_equal(c, a @ b)
    assert np.isnan(storage[2][:, 41:]).all()


def test_product_is_the_callers_function():
    calls = []

    @ctypes.CFUNCTYPE(None, POINTER, I64, I64, I64, POINTER, I64, POINTER, I64, POINTER, I64)
    def product(context, m, n, k, a, lda, b, ldb, c, ldc):
        def view(pointer, rows, columns, ld):
            flat = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_double)), (rows * ld,))
            return np.lib.stride_tricks.as_strided(flat, (rows, columns), (8 * ld, 8))

        calls.append((m, n, k))
        np.matmul(view(a, m, k, lda), view(b, k, n, ldb), out=view(c, m, n, ldc))

    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (16, 10)).astype(float), rng.integers(-9, 9, (10, 6)).astype(float)
    c = np.full((16, 6), np.nan)
    assert multiply(PLANS["winograd"], "fp64", a, b, c, product=ctypes.cast(product, POINTER)) == 0
    np.testing.assert_array_equal(c, a @ b)
    assert calls == [(8, 3, 5)] * 7


def test_wrong_arguments_and_lack_of_memory_are_codes():
    x = np.ones((2, 2))
    assert multiply(PLANS["winograd"], "fp64", x, x, x, sizes=(2, 3, 2)) == 2
    assert multiply(PLANS["winograd"], "fp64", x, x, x, sizes=(0, 2, 2)) == 2
    huge = 1 << 31
    wide = np.lib.stride_tricks.as_strided(x, (2, 2), (8 * huge, 8))
    assert multiply(PLANS["winograd"], "fp64", wide, wide, wide, sizes=(huge, huge, huge)) == 1


def test_header_declares_what_the_source_defines():
    text = emit_header(PLANS["winograd"], "c")
    body = "\n".join(f"void *p{i} = (void *)&{PLANS['winograd'].name}_{t};" for i, t in enumerate(SCALARS))
    assert build_c(text + text + body, flags=("-Wall", "-Werror")).exists()
    assert build_c(emit(PLANS["rational2"], "c"), flags=("-Wall", "-Wextra", "-Werror", "-pedantic")).exists()
