"""Rows of thin products on stand-ins: NumPy for CuPy, a cuBLAS and an emulated thin kernel for the host."""

import contextlib
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from evaluate import cublas, device, windows
from evaluate.device import DeviceInfo
from evaluate.kernel import Built
from evaluate.shapes import Grouped
from evaluate.thin import arms as thin_arms
from evaluate.thin import bench as thin_bench
from evaluate.thin import tuning as thin_tuning
from evaluate.thin import ways as thin_ways
from evaluate.thin.bench import ThinCase, measure_thin
from evaluate.thin.kernel import Way
from evaluate.thin.table import mean_ratio, thin_table, thin_text
from evaluate.thin.ways import all_ways, distinct, handful
from evaluate.trial import WrongError
from evaluate.windows import GPU_REGIMES, Regime
from tests.codegen import thin_on_host
from tests.evaluate.fused_host import STREAM, HostModule, cublas_library

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")
H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 12, "0")
QUICK = Regime("burst", idle=0.0, settle=0.0, window=0.0005, cache="rotated")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thin")
    found = {
        layout: thin_on_host.compiled(folder, "bf16", "bf16", layout, tiles=thin_on_host.BOTH[layout])
        for layout in ("nn", "nt")
    }
    return found, cublas_library(folder)


class Module(HostModule):
    cuda = SimpleNamespace(
        **{**vars(HostModule.cuda), "Stream": lambda non_blocking: contextlib.nullcontext(STREAM)},
    )


@pytest.fixture
def on_host(libraries, monkeypatch):
    """A device that multiplies on the host; what a graph would repeat is called again."""
    kernels, vendor = libraries
    module = Module()

    def build(plan, arch, dtype, layout, c_dtype=None):
        facts = {"registers": 96, "spill_bytes": 0}
        return Built(kernels[layout], thin_on_host.prefix(plan, dtype, c_dtype, layout), facts)

    def graph(operands, queue):
        return SimpleNamespace(launch=lambda: [queue(number) for number in range(operands.launches)])

    monkeypatch.setenv(cublas.VARIABLE, str(vendor))
    monkeypatch.setattr(device, "array_module", lambda: module)
    monkeypatch.setattr(windows, "_FLUSH_BYTES", 1 << 14)
    for one in (thin_bench, thin_tuning):
        monkeypatch.setattr(one, "array_module", lambda: module)
    monkeypatch.setattr(thin_arms, "_LEAST_LAUNCHES", 3)  # an emulated one takes a millisecond
    monkeypatch.setattr(thin_ways, "SPLITS", (1, 2, 4))
    monkeypatch.setattr(thin_bench, "build_thin", build)
    monkeypatch.setattr(thin_bench, "_COPY_BYTES", 1 << 16)
    monkeypatch.setattr(thin_tuning, "graph", graph)
    for one in (thin_bench, thin_tuning):
        monkeypatch.setattr(one, "GLANCE", QUICK)
    monkeypatch.setattr(thin_tuning, "TRIAL", QUICK)
    monkeypatch.setitem(GPU_REGIMES, "burst", QUICK)
    return kernels


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_a_row_has_the_rule_the_tuned_tile_and_both_baselines(on_host, layout, tmp_path):
    cases = [ThinCase(Grouped(1, (3, 72, 64)), layout=layout), ThinCase(Grouped(2, (2, 40, 64)), layout=layout)]
    rows = list(measure_thin(thin_on_host.PLAN, cases, H200, pairs=7))
    for row, case in zip(rows, cases, strict=True):
        m, n, k = case.what.shape
        assert row["correct"] and row["error_fro"] < 0.01 and (row["groups"], row["M"]) == (case.what.groups, m)
        assert row["bytes"] == 2 * case.what.groups * (m * k + k * n + m * n)
        assert row["sets"] * 2 * case.what.groups * k * n >= 3 * H200.l2_bytes
        assert row["launches"] % row["sets"] == 0 and row["launches"] >= 3
        assert row["bandwidth"] == pytest.approx(row["bytes"] / row["seconds"])
        assert row["of_copy"] == pytest.approx(row["bandwidth"] / row["copy"]) and row["registers"] == 96
        assert (
            row["tuned"]["columns"] in (16, 32, 48, 64, 128)
            and row["rule"]["split"] >= 1
            and row["handful"]["tried"] >= 3
        )
        for name in ("alone", "constant_b"):
            assert row[f"ratio_{name}_low"] <= row[f"ratio_{name}"] and row[f"seconds_{name}"] > 0
        entry = "cublasGemmEx" if case.what.groups == 1 else "cublasGemmStridedBatchedEx"
        assert entry in row["baseline"] or "cublasLtMatmul, heuristic 1" in row["baseline"]
        ways = row["ways"]
        assert ways == sorted(ways, key=lambda way: way[-1]) and list(row["rule"].values()) in ways
        assert len(ways) >= 6 and list(row["tuned"].values()) in ways
    text = thin_text(rows)
    assert re.search(rf"\[3, 64\] x \[64, 72\] +bf16 {layout}", text) and "2 x [2, 64] x [64, 40]" in text
    assert f"geometric mean of the ratios {mean_ratio(rows):.3f}" in text
    document = {"created_utc": "2026-11-30T20:00:00+00:00", "device": H200.name, "kind": "thin", "rows": rows}
    (tmp_path / "one.json").write_text(json.dumps(document))
    assert thin_table(tmp_path).count("| NVIDIA H200 |") == 2 and "WRONG" not in thin_table(tmp_path)


def test_a_search_for_a_tile_ends_in_a_verdict(on_host, monkeypatch):
    with thin_bench.open_thin(on_host["nn"], thin_on_host.prefix(thin_on_host.PLAN)) as kernel:
        what = Grouped(2, (5, 72, 64))
        found = thin_tuning.tuned(kernel, what, "bf16", "nn", H200)
        assert found.shape == (5, 72, 64) and found.pairs >= 7 and found.setup_seconds > 0
        product = drawn(what).product(0)
        assert Way(*found.way) in handful(kernel.choose(product), kernel.square(product), kernel.tiles)
        hasty = thin_tuning.tuned(kernel, what, "bf16", "nn", H200, budget_s=1e-9)
        assert Way(*hasty.way) == kernel.choose(drawn(what).product(0))
        monkeypatch.setattr(thin_tuning, "TOLERANCE", -1e3)
        with pytest.raises(WrongError, match="its relative error is .*, and rounding explains"):
            thin_tuning.tuned(kernel, what, "bf16", "nn", H200)


def drawn(what):
    from evaluate.thin.arms import draw_operands

    return draw_operands(Module(), what, "bf16", "nn", H200.l2_bytes)


def test_errors_are_those_of_the_last_set_of_weights(on_host):
    operands = drawn(Grouped(2, (5, 72, 64)))
    wide = lambda x: (np.asarray(x).astype(np.uint32) << 16).view(np.float32).astype(float)  # noqa: E731
    number = len(operands.rights) + 1
    exact = wide(operands.left).reshape(2, 5, 64) @ wide(operands.rights[1]).reshape(2, 64, 72)
    operands.out[...] = ((exact.reshape(10, 72).astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
    assert operands.error(number) < 0.005 < 0.5 < operands.error(number + 1)


def test_what_a_kernel_does_not_write_is_no_result(on_host, monkeypatch):
    operands = drawn(Grouped(1, (5, 72, 64)))
    nothing = lambda number: None  # noqa: E731
    ours, allowed = thin_tuning.errors(operands, nothing, nothing)
    assert not ours <= allowed
    monkeypatch.setattr(thin_tuning, "errors", lambda *_: (ours, 1.0))
    with thin_bench.open_thin(on_host["nn"], thin_on_host.prefix(thin_on_host.PLAN)) as kernel:
        with pytest.raises(WrongError, match="its relative error is nan"):
            thin_tuning.tuned(kernel, Grouped(1, (5, 72, 64)), "bf16", "nn", H200)


def test_small_weights_have_no_more_sets_than_a_graph_can_launch(on_host, monkeypatch):
    monkeypatch.setattr(thin_arms, "_MOST_SETS", 7)
    assert len(drawn(Grouped(1, (1, 1, 1))).rights) == 7


def test_a_handful_begins_with_the_rule_and_holds_its_neighbours():
    found = handful(Way(0, 4), Way(3, 1), [64, 64, 128, 256])
    assert (
        found[:2] == [Way(0, 4), Way(3, 1)]
        and {Way(0, 2), Way(0, 8)} <= set(found)
        and len(found) == len(set(found)) <= 14
    )
    assert found[4:7] == [Way(1, 4), Way(2, 8), Way(3, 16)]  # as many blocks
    assert Way(1, 1) in handful(Way(0, 1), Way(0, 1), [32, 64, 128])  # also without a cluster
    assert len(all_ways(3)) == 15 and distinct([Way(0, 8), Way(0, 8), Way(1, 16)], 8) == [Way(0, 8)]
