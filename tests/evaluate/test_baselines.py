"""Both baselines on a cuBLAS for host memory: operands swap, transposes, sizes, and everything is given back."""

import ctypes

import numpy as np
import pytest

from evaluate.cublas import VARIABLE, CublasError, open_cublas
from evaluate.cublaslt import EPILOGUES, open_cublaslt
from evaluate.gpu import draw_buffers
from evaluate.variants import LAYOUTS, Variant
from tests.evaluate.fused_host import HostArray, HostModule, cublas_library

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
    with pytest.raises(CublasError, match="no algorithm 1 for 4 x 8 by 8 x 200 in fp32"):
        with open_cublaslt(XP, "fp32", (4, 200, 8)):
            pass


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_both_multiply_groups_that_lie_one_after_the_other(layout):
    groups, (m, n, k) = 3, SHAPE
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32).view(HostArray) for shape in ((3, m, k), (3, k, n)))
    stored = np.ascontiguousarray(b.transpose(0, 2, 1)).view(HostArray) if layout == "nt" else b
    for number in range(2):
        c = XP.full((groups, m, n), np.nan, np.float32)
        places = (a.data.ptr, stored.data.ptr, c.data.ptr)
        if number:
            with open_cublaslt(XP, "fp32", SHAPE, layout, groups=groups) as gemm:
                gemm(*places)
        else:
            with open_cublas(XP, "fp32") as cublas:
                cublas.gemms(groups, m, n, k, *places, layout)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_the_library_applies_its_epilogues_to_columns(epilogue):
    a, b, c, exact = operands("fp64", "nn")
    bias = XP.full(SHAPE[1], 0.0, np.float64)
    bias[:] = np.arange(SHAPE[1]) - 3
    with open_cublaslt(XP, "fp64", SHAPE, epilogue=epilogue) as gemm:
        gemm(a.data.ptr, b.data.ptr, c.data.ptr, *([bias.data.ptr] if "bias" in epilogue else []))
    expected = exact + bias if "bias" in epilogue else exact
    if "relu" in epilogue:
        expected = np.maximum(expected, 0)
    if "gelu" in epilogue:
        expected = expected / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (expected + 0.044715 * expected**3)))
    np.testing.assert_allclose(c, expected, rtol=1e-12, atol=1e-12)


def test_further_algorithms_are_there_until_there_are_no_more():
    a, b, c, exact = operands("fp64", "nn")
    with open_cublaslt(XP, "fp64", SHAPE, place=1) as gemm:
        gemm(a.data.ptr, b.data.ptr, c.data.ptr)
    np.testing.assert_allclose(c, exact)
    with pytest.raises(CublasError, match="no algorithm 3 for"):
        with open_cublaslt(XP, "fp64", SHAPE, place=2):
            pass
