"""Whole rows of the GPU paths on stand-ins for the device: NumPy, a cuBLAS and a fused kernel for the host."""

import ctypes

import pytest

from catalog.known import classical, winograd
from catalog.scheme import Format
from codegen.plan import plan
from evaluate import bench, cublas, device, gpu, windows
from evaluate.device import DeviceInfo
from evaluate.kernel import Built
from evaluate.variants import OPERANDS, Wanted
from evaluate.windows import GPU_REGIMES, Regime
from tests.evaluate.fused_host import HostModule, cublas_library, library

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 12, "0")
SHAPE = (17, 29, 23)
FACTS = {"registers": 168, "spill_bytes": 0, "planes_a": 4}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    fused = {"nn": library(folder, "plain"), "nt": library(folder, "turned", "-DTRANSPOSED_B=1")}
    return fused, cublas_library(folder)


@pytest.fixture
def on_host(compiled, monkeypatch):
    """A device that multiplies on the host, with windows of milliseconds."""
    libraries, vendor = compiled
    module = HostModule()
    built = []

    def build_fused(plan, variant, arch):
        built.append((plan.rank, variant))
        found = libraries[variant.layout]
        return Built(found.path, found.name, FACTS)

    monkeypatch.setenv(cublas.VARIABLE, str(vendor))
    monkeypatch.setattr(device, "_probe", lambda: H200)
    monkeypatch.setattr(device, "snapshot", lambda _: {})
    monkeypatch.setattr(bench, "snapshot", lambda _: {})
    monkeypatch.setattr(gpu, "snapshot", lambda _: {"power_w": 500.0})
    monkeypatch.setattr(gpu, "build_fused", build_fused)
    monkeypatch.setattr(gpu, "_LOAD_SECONDS", 0.001)
    monkeypatch.setattr(windows, "_FLUSH_BYTES", 1 << 14)
    monkeypatch.setattr(device, "array_module", lambda: module)
    monkeypatch.setattr(gpu, "array_module", lambda: module)
    for name in GPU_REGIMES:
        quick = Regime(name, idle=0.0, settle=0.001 if name == "steady" else 0.0, window=0.001, cache="rotated")
        monkeypatch.setitem(GPU_REGIMES, name, quick)
    yield built
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(vendor)), "alive").value == 0


@pytest.mark.parametrize("regime", ["burst", "steady"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_every_kind_of_operands_is_a_row(on_host, regime, layout):
    wanted = Wanted("fused", OPERANDS, layouts=(layout,))
    found = bench.bench([plan(winograd())], [SHAPE], ["bf16"], device="gpu", wanted=wanted, regime=regime, pairs=7)
    assert found["skipped"] == [] and len(on_host) == 1  # one library for the three rows
    assert [row["operands"] for row in found["rows"]] == list(OPERANDS)
    for row in found["rows"]:
        assert row["correct"] and row["repeatable"] and row["pairs"] == 7 and row["regime"] == regime
        assert (row["path"], row["layout"], row["registers"], row["planes_a"]) == ("fused", layout, 168, 4)
        assert row["error_fro"] == pytest.approx(row["baseline_error_fro"], rel=0.3)
        assert "cuBLAS 13.1.0 cublas" in row["baseline"] and row["load"] == {"power_w": 500.0}
    m, n, k = SHAPE
    spaces = [row["workspace_bytes"] for row in found["rows"]]
    assert spaces == [8192, 8192 + 2 * n * k, 8192 + 2 * n * k + 2 * m * k]


def test_the_faster_baseline_is_taken(on_host, monkeypatch):
    real = gpu.Buffers.rotated
    order = []

    def slow_first(self, queue, outputs):
        launch = real(self, queue, outputs)
        order.append(launch)
        if len(order) != 2:  # ours, cublasGemmEx, cuBLASLt
            return launch

        def slow(number):
            for _ in range(50):
                launch(number)

        return slow

    monkeypatch.setattr(gpu.Buffers, "rotated", slow_first)
    found = bench.bench([plan(winograd())], [SHAPE], ["bf16"], device="gpu", wanted=Wanted("fused"), pairs=7)
    assert "cublasLtMatmul" in found["rows"][0]["baseline"]


def test_the_vendor_itself_can_be_a_row(on_host):
    plain = plan(classical(Format(1, 1, 1)))
    found = bench.bench([plain], [SHAPE], ["fp32", "bf16"], device="gpu", wanted=Wanted("cublas"), pairs=7)
    assert found["skipped"] == [] and on_host == []
    for row in found["rows"]:
        assert row["path"] == "cublas" and row["correct"] and row["error_fro"] == row["baseline_error_fro"]


def test_a_launch_that_is_refused_costs_its_row_alone(on_host):
    shapes = [SHAPE, (4, 4, 2000), (5, 6, 7)]  # the stand-in takes K below 1000
    found = bench.bench([plan(winograd())], shapes, ["bf16"], device="gpu", wanted=Wanted("fused"), pairs=7)
    assert [row["K"] for row in found["rows"]] == [23, 7]
    assert found["skipped"][0]["reason"] == "plain cannot multiply 4 x 2000 by 2000 x 4"


def test_rows_after_the_time_are_skipped_and_each_document_is_kept(on_host):
    kept = []
    cases = bench.cases(
        plan(winograd()), [SHAPE] * 3, ["bf16"], Wanted("fused"), H200, bench.Settings(pairs=7, load=False)
    )
    found = bench.measure(cases, H200, keep=lambda document: kept.append(len(document["rows"])), until=1e-9)
    assert found["rows"] == [] and {row["reason"] for row in found["skipped"]} == {"the time for all rows was spent"}
    found = bench.measure(cases, H200, keep=lambda document: kept.append(len(document["rows"])))
    assert kept == [1, 2, 3] and "load" not in found["rows"][0]
