"""The search for tiles, what is measured of thin products, and the vendor's side of both, on a real device."""

from math import inf

import numpy as np
import pytest

from catalog.known import classical
from catalog.scheme import Format
from codegen.plan import plan
from evaluate.shapes import Grouped
from evaluate.thin.bench import ThinCase, measure_thin

pytestmark = pytest.mark.gpu
PLAN = plan(classical(Format(1, 1, 1)))


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_rows_say_what_was_measured(layout):
    from evaluate.device import require_gpu

    cases = [ThinCase(Grouped(1, (1, 512, 2048)), layout=layout), ThinCase(Grouped(4, (16, 256, 512)), "fp16", layout)]
    rows = list(measure_thin(PLAN, cases, require_gpu(), pairs=7))
    for row, case in zip(rows, cases, strict=True):
        m, n, k = case.what.shape
        assert row["correct"] and row["bytes"] == 2 * case.what.groups * (m * n + n * k + m * k)
        assert row["sets"] * row["bytes"] > 2 * require_gpu().l2_bytes and row["launches"] % row["sets"] == 0
        assert row["tuned"]["microseconds"] <= 1.05 * row["handful"]["microseconds"]
        assert 0.5 < row["ratio"] < 20 and row["ratio_vendor_tuned"] <= 1.1 * row["ratio"]
        assert 0 < row["bandwidth"] < 3 * row["copy"] and row["spill_bytes"] < 128


def test_matmul_runs_what_a_search_has_found(tmp_path):
    import cupy

    from evaluate.dispatch import Dispatcher
    from evaluate.verdicts import Verdicts

    dispatcher = Dispatcher(lambda *_: PLAN, lambda *_: [], Verdicts(tmp_path))
    a, b = (
        cupy.random.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((1, 4096), (4096, 128))
    )
    found, told = dispatcher.matmul(a, b, explain=True, tuning_share=inf)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert float(cupy.linalg.norm(found - exact) / cupy.linalg.norm(exact)) < 2.0**-10
    assert told.choice.startswith("thin kernel") == (told.measured_ratio is not None), told
    again = dispatcher.matmul(a, b, explain=True, tune=False)[1]
    assert again.choice == told.choice


@pytest.mark.parametrize("epilogue", ["", "relu", "bias", "bias,relu", "gelu_tanh", "bias,gelu_tanh"])
def test_the_vendors_epilogues_are_what_they_are_taken_for(epilogue):
    import cupy

    from codegen.epilogue import Epilogue, apply
    from evaluate.cublaslt import open_cublaslt

    rng = cupy.random.default_rng(0)
    m, n, k = 48, 64, 96
    a, b, bias = (rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((m, k), (k, n), (n,)))
    out = cupy.empty((m, n), np.float16)
    with open_cublaslt(cupy, "fp16", (m, n, k), epilogue=epilogue) as gemm:
        gemm(a.data.ptr, b.data.ptr, out.data.ptr, *([bias.data.ptr] if "bias" in epilogue else []))
    product = cupy.asnumpy(a.astype(np.float64) @ b.astype(np.float64))
    exact = apply(Epilogue.parse(epilogue), product, {"bias": cupy.asnumpy(bias)})
    np.testing.assert_allclose(cupy.asnumpy(out).astype(float), exact, rtol=2.0**-9, atol=2e-2)


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_the_vendors_groups_are_what_they_are_taken_for(layout):
    import cupy

    from evaluate.cublas import open_cublas
    from evaluate.cublaslt import open_cublaslt

    groups, m, n, k = 3, 16, 64, 96
    rng = cupy.random.default_rng(0)
    a, b = (
        rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((groups, m, k), (groups, k, n))
    )
    stored = cupy.ascontiguousarray(b.transpose(0, 2, 1)) if layout == "nt" else b
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for number in range(2):
        out = cupy.zeros((groups, m, n), np.float16)
        places = (a.data.ptr, stored.data.ptr, out.data.ptr)
        if number:
            with open_cublaslt(cupy, "fp16", (m, n, k), layout, groups=groups) as gemm:
                gemm(*places)
        else:
            with open_cublas(cupy, "fp16") as cublas:
                cublas.gemms(groups, m, n, k, *places, layout)
        assert float(cupy.linalg.norm(out - exact) / cupy.linalg.norm(exact)) < 2.0**-10
