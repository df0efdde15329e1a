"""Epilogues of the library-backed path on the host, with products by NumPy."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from codegen.emit import emit
from codegen.emit_cuda import prefix
from codegen.epilogue import Epilogue, apply
from codegen.extras import Operands, extras_of
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_host import stored_operands
from tests.codegen.on_host import aligned, matrix, needs_compiler, on_host
from tests.codegen.schemes import plans
from tests.codegen.test_cuda_on_host import ENTRIES, GEMM, function
from tests.fuzzing import rare

PLANS = plans()
NUMPY = {"fp32": np.float32, "fp64": np.float64, "bf16": ml_dtypes.bfloat16, "fp16": np.float16}
CASES = [
    ("winograd", "bf16", "bias,gelu"),
    ("rectangular", "fp32", "column_scale,column_shift,gelu_tanh,residual,scale,bias,silu,gelu,relu"),
    rare("strassen", "fp64", "residual,gelu,scale,silu"),
    rare("rational", "fp16", "relu,bias"),
    rare("winograd2", "fp32", "silu"),
]
# m, k, n, gap, elements off alignment of C and of operands, alpha, beta
LAUNCHES = [(1, 1, 1, 0, 0, 1, 0), (37, 41, 29, 3, 0, -0.5, 1), (64, 16, 96, 0, 0, 1, 0), (64, 16, 96, 16, 1, 0.25, -1)]


@needs_compiler
@pytest.mark.parametrize(("name", "dtype", "text"), CASES)
def test_steps_are_applied_once_to_sums_that_are_exact(name, dtype, text, tmp_path):
    plan, kind, epilogue = PLANS[name], NUMPY[dtype], Epilogue.parse(text)
    library = on_host(emit(plan, "cuda", dtype=dtype, epilogue=text), tmp_path)
    entries, handle = prefix(plan, dtype, None, text), ctypes.c_void_p()
    assert entries.endswith(epilogue.suffix)

    @GEMM
    def product(context, stream, count, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc):
        def view(pointer, rows, columns, ld, stride):
            size = np.dtype(kind).itemsize
            last = (count - 1) * stride + (rows - 1) * ld + columns
            flat = np.frombuffer((ctypes.c_char * (last * size)).from_address(pointer), kind)
            return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), (stride * size, ld * size, size))

        view(c, m, n, ldc, sc)[:] = (
            view(a, m, k, lda, sa).astype(float) @ view(b, k, n, ldb, sb).astype(float)
        ).astype(kind)
        return 0

    launch, workspace = function(library, entries, "launch"), function(library, entries, "workspace")
    launch.argtypes = [*ENTRIES["launch"][1:], ctypes.c_void_p]
    assert function(library, entries, "open")(ctypes.byref(handle), ctypes.cast(product, ctypes.c_void_p), None) == 0
    rng = np.random.default_rng(0)
    for m, k, n, gap, offset, alpha, beta in LAUNCHES:
        a, b, c = (matrix(rng.integers(-1, 2, shape), gap, kind, offset) for shape in ((m, k), (k, n), (m, n)))
        before = alpha * (a[:, :k].astype(float) @ b[:, :n].astype(float)) + beta * c[:, :n].astype(float)
        if beta == 0:
            c[:] = np.nan
        operands = drawn(epilogue, m, n, kind)
        stored = stored_operands(epilogue, operands, kind, gap, offset)
        addresses = {name: array.ctypes.data for name, array in stored.items()}
        extras = extras_of(epilogue, Operands(addresses, n + gap, operands.get("scale", 1.0)))
        size = workspace(m, n, k)
        space = aligned(size, np.uint8)
        given = (a.ctypes.data, k + gap, b.ctypes.data, n + gap, beta, c.ctypes.data, n + gap, space.ctypes.data, size)
        code = launch(handle, None, m, n, k, alpha, *given, extras and ctypes.byref(extras))
        assert code == 0, function(library, entries, "error")().decode()
        assert np.isnan(c[:, n:].astype(float)).all(), "the kernel wrote outside C"
        off = np.abs(c[:, :n].astype(float) - apply(epilogue, before, operands))
        limit = bound(epilogue, before, operands, dtype)
        assert (off <= limit).all(), (off / limit).max()
    if epilogue.operands:
        assert launch(handle, None, m, n, k, alpha, *given, None) == 2
        assert "the epilogue needs its operands" in function(library, entries, "error")().decode()
    function(library, entries, "close")(handle)
