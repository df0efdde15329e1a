"""Products with steps after them, measured on stand-ins: NumPy for CuPy, a fused kernel and a cuBLAS for the host."""

import contextlib
import ctypes
import json

import numpy as np
import pytest

from catalog.known import winograd
from codegen.build import MissingCompilerError
from codegen.epilogue import Epilogue, apply
from codegen.plan import plan
from evaluate import cublas, device, epilogue_bench, windows
from evaluate.device import DeviceInfo
from evaluate.epilogue_bench import EpilogueCase, measure_epilogues
from evaluate.epilogue_pass import element_pass, pass_text
from evaluate.epilogue_table import epilogue_table, epilogue_text
from evaluate.kernel import Built
from evaluate.operands import narrow, widen
from evaluate.windows import GPU_REGIMES, Regime
from tests.codegen import nvrtc
from tests.evaluate.fused_host import HostModule, cublas_library

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 12, "0")
QUICK = Regime("burst", idle=0.0, settle=0.0, window=0.001, cache="rotated")
STEPS = Epilogue.parse("bias,gelu_tanh")


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("steps", ["bias,gelu_tanh", "relu", "column_scale,column_shift,silu"])
def test_the_separate_pass_compiles_at_run_time(dtype, steps):
    try:
        cubin, log = nvrtc.compile_device_part(pass_text(Epilogue.parse(steps), dtype), "sm_90")
    except MissingCompilerError as error:
        pytest.skip(str(error))
    assert cubin, log


class Module(HostModule):
    """With a run-time kernel that does the steps in NumPy."""

    @staticmethod
    def RawKernel(text, name, options):  # noqa: N802 - its name in CuPy
        def launch(grid, block, arguments):
            matrix, packs, columns, data = arguments
            assert grid[0] * block[0] >= packs == matrix.size // 8 and columns == matrix.shape[1]
            (bias,) = (at(int(place), columns) for place in data)
            matrix[...] = narrow(np, finished(widen(np, np.asarray(matrix), "bf16"), bias), "bf16")

        return launch


def at(place, *shape):
    count = int(np.prod(shape))
    return np.frombuffer((ctypes.c_uint16 * count).from_address(place), np.uint16).reshape(shape)


def finished(sums, bias):
    return apply(STEPS, np.asarray(sums, float), {"bias": widen(np, bias, "bf16")}).astype(np.float32)


class Kernel:
    """A fused kernel whose steps NumPy does; ``lost`` forgets them."""

    lost = False

    def __init__(self, steps):
        self.steps = steps

    def workspace_bytes(self, *sizes):
        return 8192

    def launcher(self, sizes, leading, operands):
        m, n, k = sizes
        assert bool(operands) == bool(self.steps)

        def launch(stream, a, b, c, space, size):
            sums = widen(np, at(a, m, k), "bf16", "float32") @ widen(np, at(b, k, n), "bf16", "float32")
            if self.steps and not self.lost:
                sums = finished(sums, at(operands.addresses["bias"], n))
            at(c, m, n)[...] = narrow(np, sums.astype(np.float32), "bf16")

        return launch


@pytest.fixture
def on_host(tmp_path, monkeypatch):
    module = Module()
    monkeypatch.setenv(cublas.VARIABLE, str(cublas_library(tmp_path)))
    monkeypatch.setattr(device, "array_module", lambda: module)
    monkeypatch.setattr(epilogue_bench, "array_module", lambda: module)
    monkeypatch.setattr(windows, "_FLUSH_BYTES", 1 << 14)
    built = []

    def build_fused(plan, variant, arch):
        built.append(dict(variant.options))
        return Built(tmp_path, "kernel", {"registers": 168, "spill_bytes": 0})

    monkeypatch.setattr(epilogue_bench, "build_fused", build_fused)
    monkeypatch.setattr(epilogue_bench, "open_fused", lambda one, steps: contextlib.nullcontext(Kernel(steps)))
    monkeypatch.setitem(GPU_REGIMES, "burst", QUICK)
    yield built
    Kernel.lost = False


def test_a_row_compares_all_ways(on_host, tmp_path, monkeypatch):
    moved = {"ours": 1e6, "plain": 1e6, "vendor": 1.1e6, "unfused": 3e6}

    def count_of(module, given):
        assert module == "evaluate.epilogue_bench"
        return {"dram_read_bytes": moved[given[1]], "dram_write_bytes": 0.0, "clock_mhz": 1.0}

    monkeypatch.setattr(epilogue_bench.counters, "count_of", count_of)
    case = EpilogueCase(plan(winograd()), (24, 32, 40), STEPS)
    (row,) = measure_epilogues([case], H200, pairs=7, count=True)
    assert on_host == [{"epilogue": "bias,gelu_tanh"}, {}]
    assert row["correct"] and row["error_fro"] < 0.01 and row["baseline_error_fro"] < 0.01
    for suffix in ("", "_unfused", "_plain"):
        assert row[f"ratio{suffix}_low"] <= row[f"ratio{suffix}"] <= row[f"ratio{suffix}_high"]
    assert "cublasLtMatmul with bias,gelu_tanh" in row["baseline"] and "then one kernel" in row["baseline_unfused"]
    assert "1.0 against 3.0 MB" in epilogue_text([row]) and row["counters"]["vendor"] == {
        "dram_read_bytes": 1.1e6, "dram_write_bytes": 0.0,
    }  # fmt: skip
    document = {"created_utc": "2026-11-30T20:00:00+00:00", "device": H200.name, "kind": "epilogue", "rows": [row]}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "one.json").write_text(json.dumps(document))
    assert "| NVIDIA H200 | 2x2x2:7 | bf16 nn | 24 x 32 x 40 | bias,gelu_tanh |" in epilogue_table(tmp_path / "results")


def test_steps_that_the_vendor_has_not_are_compared_with_the_separate_pass_alone(on_host):
    case = EpilogueCase(plan(winograd()), (24, 32, 40), Epilogue.parse("bias,silu"))
    globals()["STEPS"], kept = case.epilogue, STEPS
    try:
        (row,) = measure_epilogues([case], H200, pairs=7)
    finally:
        globals()["STEPS"] = kept
    assert row["ratio"] is None and row["ratio_unfused"] > 0 and row["correct"] and row["verdict"] == "not measured"
    assert "-" in epilogue_text([row])


def test_a_kernel_that_forgets_the_steps_is_wrong(on_host):
    Kernel.lost = True
    (row,) = measure_epilogues([EpilogueCase(plan(winograd()), (24, 32, 40), STEPS)], H200, pairs=7)
    assert row["correct"] is False and "WRONG" in epilogue_text([row])


def test_rows_of_no_whole_number_of_words_and_matrices_are_refused(on_host):
    with pytest.raises(ValueError, match="takes rows of a multiple of 8 elements, not of 12"):
        element_pass(Module(), STEPS, "bf16", 12, {})
    with pytest.raises(ValueError, match="steps with vectors only are compared, not residual,relu"):
        list(measure_epilogues([EpilogueCase(plan(winograd()), (8, 8, 8), Epilogue.parse("residual,relu"))], H200))
