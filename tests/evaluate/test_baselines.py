"""Both baselines on a cuBLAS for host memory: operands swap, transposes, sizes, and everything is given back."""

import ctypes

import numpy as np
import pytest

from evaluate.cublas import VARIABLE, CublasError, open_cublas
from evaluate.cublaslt import open_cublaslt
from evaluate.gpu import draw_buffers
from evaluate.variants import LAYOUTS, Variant
from tests.evaluate.fused_host import HostModule, cublas_library

SHAPE = (13, 7, 22)
XP = HostModule()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return cublas_library(tmp_path_factory.mktemp("cublas"))


@pytest.fixture(autouse=True)
def found_first(library, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(library))
    yield
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(library)), "alive").value == 0


def operands(dtype, layout):
    buffers = draw_buffers(XP, Variant(dtype, "cublas", "variable", dtype, dtype, layout), SHAPE, "normal", 2, 1)
    a, b = buffers.lefts[0], buffers.rights[0]
    exact = (a.T if layout[0] == "t" else a) @ (b.T if layout[1] == "t" else b)
    return a, b, buffers.outputs[0], exact


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_both_multiply_as_the_matrices_are_stored(dtype, layout):
    a, b, c, exact = operands(dtype, layout)
    with open_cublas(XP, dtype) as cublas:
        cublas.gemm(*SHAPE, a.data.ptr, b.data.ptr, c.data.ptr, layout)
        np.testing.assert_allclose(c, exact, rtol=1e-5, atol=1e-5)
    c[:] = np.nan
    with open_cublaslt(XP, dtype, SHAPE, layout) as gemm:
        gemm(a.data.ptr, b.data.ptr, c.data.ptr)
    np.testing.assert_allclose(c, exact, rtol=1e-5, atol=1e-5)


def test_a_shape_without_an_algorithm_is_an_error():
    with pytest.raises(CublasError, match="no algorithm for 4 x 8 by 8 x 200 in fp32"):
        with open_cublaslt(XP, "fp32", (4, 200, 8)):
            pass
