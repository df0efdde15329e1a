"""Launches of kernels with an epilogue hand on its operands: a fused kernel on the host, and what is refused."""

import shutil

import numpy as np
import pytest

from codegen.emit_ampere import FAMILY
from codegen.epilogue import Epilogue, apply
from codegen.extras import Operands
from codegen.fused_text import prefix, types
from evaluate.fused import open_fused
from evaluate.kernel import Built, KernelError
from tests.codegen.fused_on_host import build
from tests.codegen.on_host import aligned
from tests.codegen.test_ampere_on_host import PLANS, emulated


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")
def test_operands_reach_the_kernel(tmp_path):
    kinds = types("fp16", c_dtype="fp32", epilogue="bias,scale,relu")
    build(emulated("trivial", kinds), tmp_path)
    built = Built(tmp_path / "kernel.so", prefix(PLANS["trivial"], kinds, FAMILY))
    rng, (m, n, k) = np.random.default_rng(0), (5, 16, 8)
    a, b = (aligned(rows * columns, np.float16).reshape(rows, columns) for rows, columns in ((m, k), (k, n)))
    a[:], b[:] = rng.integers(-2, 3, a.shape), rng.integers(-2, 3, b.shape)
    c, bias = np.full((m, n), np.nan, np.float32), rng.integers(-3, 4, n).astype(np.float32)
    exact = apply(kinds.epilogue, a.astype(float) @ b.astype(float), {"bias": bias, "scale": 0.5})
    with open_fused(built, kinds.epilogue) as kernel:
        size = kernel.workspace_bytes(m, n, k)
        space = aligned(size, np.uint8)
        space[:4096] = 0
        pointers = [array.ctypes.data for array in (a, b, c, space)]
        operands = Operands({"bias": bias.ctypes.data}, scale=0.5)
        kernel.launch(0, (m, n, k), *pointers, size, leading=(k, n, n), operands=operands)
        np.testing.assert_array_equal(c, exact)
        c[:] = np.nan
        kernel.launcher((m, n, k), (k, n, n), operands)(0, *pointers, size)
        np.testing.assert_array_equal(c, exact)
        with pytest.raises(ValueError, match="the epilogue bias,scale,relu needs bias; it was given nothing"):
            kernel.launcher((m, n, k), (k, n, n))
        with pytest.raises(KernelError, match="bias must not be null"):
            kernel.launch(0, (m, n, k), *pointers, size, leading=(k, n, n), operands=Operands({"bias": 0}))


def test_a_kernel_without_epilogue_takes_no_operands():
    from evaluate.kernel import Library

    assert Library(None, "name", None).extras(None) == []
    with pytest.raises(ValueError, match="needs nothing; it was given bias"):
        Library(None, "name", None).extras(Operands({"bias": 16}))
    assert Library(None, "name", None, Epilogue.parse("relu")).extras(None) == [None]
