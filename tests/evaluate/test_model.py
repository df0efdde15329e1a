"""The cost model: against what was measured on an H200, and in what must hold on any device."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format
from codegen.plan import plan
from evaluate.device_model import DEVICES, device_model, keep, kept, rate_at
from evaluate.gemm_model import gemm_seconds
from evaluate.model import Phase, predict

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
H200 = DEVICES["h200"]
PLAIN, ONE, TWO = plan(classical(Format(1, 1, 1))), plan(winograd()), plan(winograd(), 2)
# Ratios to cuBLAS of prototypes with tiles of 256 columns, one H200, bf16, planes made by a pass of their own.
PROTOTYPES = [
    *[("plain", "burst", size, ratio) for size, ratio in ((4096, 0.988), (6144, 1.0), (8192, 1.008), (12288, 1.018))],
    *[("plain", regime, size, ratio) for regime, size, ratio in (("burst", 16384, 1.025), ("steady", 32768, 1.02))],
    *[("planes_given", "burst", size, ratio) for size, ratio in ((4096, 1.042), (6144, 0.85), (8192, 1.106))],
    *[("planes_given", "burst", size, ratio) for size, ratio in ((12288, 1.105), (16384, 1.123))],
    ("planes_given", "steady", 32768, 1.125),
    *[("b_constant", "burst", size, ratio) for size, ratio in ((4096, 0.951), (8192, 1.054), (12288, 1.067))],
    *[
        ("b_constant", regime, size, ratio)
        for regime, size, ratio in (("burst", 16384, 1.092), ("steady", 32768, 1.089))
    ],
    *[("variable", "burst", size, ratio) for size, ratio in ((4096, 0.868), (8192, 1.004), (12288, 1.031))],
    *[("variable", regime, size, ratio) for regime, size, ratio in (("burst", 16384, 1.066), ("steady", 32768, 1.063))],
]


@pytest.mark.parametrize(("mode", "regime", "size", "ratio"), PROTOTYPES)
def test_the_fused_kernel_is_predicted_within_five_percent(mode, regime, size, ratio):
    chosen, operands = (PLAIN, "variable") if mode == "plain" else (ONE, mode)
    found = predict(chosen, (size,) * 3, H200, operands=operands, regime=regime, widths=(256,))
    assert found.ratio == pytest.approx(ratio, rel=0.05)


def test_planes_of_another_type_cost_what_was_measured():
    ratios = ((8192, "variable", 0.983), (12288, "variable", 1.015), (16384, "b_constant", 1.08))
    for size, operands, ratio in ratios:
        found = predict(ONE, (size,) * 3, H200, operands=operands, plane_dtype="fp16", widths=(256,))
        assert found.ratio == pytest.approx(ratio, rel=0.03)


def test_wide_types_by_the_library_are_predicted_within_a_tenth():
    compared = 0
    for path in sorted(RESULTS.glob("nvidia-h200-*.json")):
        for row in json.loads(path.read_text())["rows"]:
            if row.get("format") == "2x2x2" and row.get("path") == "cuda" and row["dtype"] in ("fp32", "fp64"):
                shape = (row["M"], row["N"], row["K"])
                if min(shape) < 2048:  # there the vendor's choice of tiles changes its rate by more, for either side
                    continue
                found = predict(plan(strassen(), row["levels"]), shape, H200, row["dtype"], regime=row["regime"])
                assert found.ratio == pytest.approx(row["ratio"], rel=0.11), row
                compared += 1
    assert compared >= 10


def test_the_copy_rate_gives_the_measured_seconds_of_the_pass():
    for size, milliseconds in ((4096, 0.037), (6144, 0.078), (8192, 0.135), (12288, 0.297), (16384, 0.525)):
        (planes, _) = predict(ONE, (size,) * 3, H200).phases
        assert planes.seconds * 1e3 == pytest.approx(milliseconds, rel=0.02)
        assert (planes.name, planes.bound) == ("planes", "memory")


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "int8"])
def test_a_prediction_is_the_sum_of_its_phases_and_stays_under_its_ceiling(name, dtype):
    device = DEVICES[name]
    if dtype not in device.peak:
        with pytest.raises(ValueError, match=f"unknown dtype of {name} '{dtype}'; choose one of bf16"):
            predict(ONE, (4096,) * 3, device, dtype)
        return
    for operands in ("variable", "b_constant", "planes_given"):
        found = predict(ONE, (16384,) * 3, device, dtype, operands=operands)
        assert found.seconds == pytest.approx(sum(phase.seconds for phase in found.phases))
        bare = sum(phase.compute for phase in found.phases)
        beyond = sum(seconds for _, seconds in found.losses)
        assert found.seconds == pytest.approx(bare + beyond)
        ideal = predict(PLAIN, (16384,) * 3, device, dtype).phases[0].compute / device.chained * 7 / 8
        assert bare == pytest.approx(ideal)
    ratios = [predict(ONE, (8192,) * 3, device, dtype, operands=each).ratio for each in ("variable", "b_constant")]
    assert ratios[0] < ratios[1] < predict(ONE, (8192,) * 3, device, dtype, operands="planes_given").ratio


def test_more_bandwidth_less_epilogue_or_a_better_fill_never_slows():
    base = predict(ONE, (6144,) * 3, H200)
    assert predict(ONE, (6144,) * 3, replace(H200, copy=2 * H200.copy)).seconds < base.seconds
    assert predict(ONE, (6144,) * 3, replace(H200, clock=2 * H200.clock)).seconds < base.seconds
    wide = predict(ONE, (6144,) * 3, H200, operands="planes_given", widths=(256,))
    # 3072 rows and columns in a block: 144 tiles of 256 columns need 2.18 rounds, 192 of 192 columns 2.91.
    assert predict(ONE, (6144,) * 3, H200, operands="planes_given").seconds < wide.seconds
    assert wide.losses[0][0] == "idle"
    assert wide.why.startswith("1.143 by products alone; beyond them of the time: idle 2")


def test_slots_beyond_the_cache_move_bytes():
    (_, products) = predict(TWO, (16384,) * 3, H200).phases
    (_, less) = predict(TWO, (16384,) * 3, replace(H200, l2_bytes=1 << 40)).phases
    assert products.memory > less.memory


def test_thin_products_are_bound_by_memory():
    seconds = gemm_seconds(H200, (1, 14336, 4096), "bf16") - H200.launch
    assert seconds == pytest.approx((4096 * 14336 + 4096 + 14336) * 2 / H200.copy)
    found = predict(PLAIN, (1, 14336, 4096), replace(H200, copy=1e10))
    assert found.phases[0].bound == "memory" and found.losses[0][0] == "memory"
    assert found.seconds == pytest.approx(found.phases[0].compute + sum(seconds for _, seconds in found.losses))
    assert Phase("x", 1.0, 0.5, 0.25, 2.0, 0.1).seconds == 2.1


def test_where_a_card_with_slow_tensor_cores_gains_earlier():
    """FalconGEMM gains on an H20 from about 2048 on; here whole groups of tiles cost that until 2560."""
    h20 = DEVICES["h20"]
    gains = [size for size in range(1024, 8193, 512) if predict(ONE, (size,) * 3, h20).ratio > 1]
    assert gains[0] == 2560
    assert min(size for size in range(1024, 16385, 512) if predict(ONE, (size,) * 3, H200).ratio > 1) > gains[0]
    assert 1.10 < predict(ONE, (16384,) * 3, h20).ratio < 8 / 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"operands": "all"}, "unknown operands 'all'"),
        ({"regime": "idle"}, "unknown regime 'idle'"),
        ({"path": "cuda", "operands": "b_constant"}, "path cuda has operands variable"),
        ({"path": "magic"}, "unknown path 'magic'"),
        ({"shape": (0, 1, 1)}, r"three positive sizes M, N, K, not \(0, 1, 1\)"),
        ({"plane_dtype": "fp4"}, "unknown plane dtype 'fp4'"),
    ],
)
def test_bad_input_is_one_sentence(options, says):
    shape = options.pop("shape", (4096,) * 3)
    with pytest.raises(ValueError, match=says):
        predict(ONE, shape, H200, **options)


CARD = {"device": "NVIDIA H200", "kind": "gpu", "sms": 132, "l2_bytes": 1 << 26, "copy": 4.0e12}
HOST = {"device": "A Processor @ 2 GHz", "kind": "cpu", "sms": 8, "l2_bytes": 0, "copy": 5e10}


def test_measured_figures_take_the_place_of_paper(tmp_path):
    assert device_model("H200", tmp_path) is H200
    path = keep({**CARD, "gemm": {"bf16": [[4096, 780e12], [8192, 0.98 * 797e12]]}}, tmp_path)
    found = device_model("h200", tmp_path)
    assert path.name == "nvidia-h200.json" and list(kept(tmp_path)) == ["nvidia-h200"]
    assert (found.copy, found.gemm["fp32"]) == (4.0e12, H200.gemm["fp32"])
    assert found.sustained == pytest.approx(0.98 * H200.sustained)
    assert gemm_seconds(found, (4096,) * 3, "bf16") - found.launch == pytest.approx(2 * 4096**3 / 780e12)


def test_a_measured_host_has_the_library_path_only(tmp_path):
    keep({**HOST, "gemm": {"fp64": [[512, 1e11], [1024, 2e11]]}}, tmp_path)
    host = device_model("a-processor-2-ghz", tmp_path)
    found = predict(ONE, (2048,) * 3, host, "fp64")
    # Seven products of 1024, 16 n^2 + 2 * 14 / 4 n^2 bytes of A and B, 8 n^2 + 7 / 4 * 8 n^2 of C.
    copied = (16 + 28 + 8 + 14) * 2048**2 / 5e10
    assert found.seconds == pytest.approx(7 * 2 * 1024**3 / 2e11 + copied)
    assert found.baseline_seconds == pytest.approx(2 * 2048**3 / 2e11)
    with pytest.raises(ValueError, match="has no fused kernels; use path cuda"):
        predict(ONE, (2048,) * 3, host, "fp64", path="fused")


def test_unknown_and_damaged_devices_are_said(tmp_path):
    with pytest.raises(
        ValueError, match="nothing is known of device 'xpu'; choose h200, h100, h20, a100, b200, or run"
    ):
        device_model("xpu", tmp_path)
    (tmp_path / "nvidia-h200.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; remove it"):
        device_model("h200", tmp_path)


def test_rates_are_interpolated_by_the_logarithm_of_the_size():
    rates = ((1024, 1.0), (4096, 3.0))
    assert [rate_at(rates, size) for size in (10, 1024, 2048, 4096, 9999)] == pytest.approx([1, 1, 2, 3, 3])
