"""The document of results, end to end on the CPU."""

import json

import pytest

from catalog.known import strassen, winograd
from catalog.transform import extend
from codegen.build import BuildError, MissingCompilerError
from codegen.plan import plan
from evaluate import cpu
from evaluate.bench import bench
from evaluate.cublas import CublasError
from evaluate.device import DeviceInfo, DeviceMissingError, usable_gpu
from evaluate.gpu import build_library
from evaluate.kernel import Built, KernelError
from evaluate.report import load, save
from evaluate.variants import Variant, Wanted, variants
from tests.prebuild import Build, kept


def test_every_row_is_right_and_labelled(document):
    assert [(r["format"], r["levels"], r["dtype"], r["path"]) for r in document["rows"]] == [
        (form, levels, dtype, path)
        for form, levels in (("2x2x2", 2), ("2x2x3", 1))
        for dtype, path in (("fp64", "c"), ("fp64", "numpy"), ("fp32", "c"), ("fp32", "numpy"), ("fp16", "emulated"))
    ]
    for row in document["rows"]:
        assert row["correct"] is True and row["error_fro"] > 0 and row["error_rows"] == 50
        assert (row["M"], row["N"], row["K"], row["operands"]) == (50, 61, 47, "variable")
        timed = row["path"] != "emulated"
        assert (row["seconds"] is not None) == timed and row["pairs"] == (6 if timed else 0)
        if timed:
            assert row["ratio"] == pytest.approx(row["baseline_seconds"] / row["seconds"])
            assert row["tflops_effective"] == pytest.approx(2 * 50 * 61 * 47 / row["seconds"] / 1e12)
    assert document["commit"] == "abc" and document["driver"] is None and document["baseline"]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"dtypes": ["fp8"]}, "unknown dtype 'fp8'"),
        ({"shapes": [(0, 1, 1)]}, "three positive sizes"),
        ({"pairs": 0}, "pairs must be at least 1"),
        ({"regime": "warm"}, "unknown regime"),
        ({"distribution": "cauchy"}, "unknown distribution"),
    ],
)
def test_bad_requests_are_one_sentence(change, message):
    request = {"plans": [plan(strassen())], "shapes": [(4, 4, 4)], "dtypes": ["fp64"], "device": "cpu"} | change
    with pytest.raises(ValueError, match=message):
        bench(request.pop("plans"), request.pop("shapes"), request.pop("dtypes"), **request)


class Fault:
    """Both arms of the CPU path; building those of one dtype, or one launch, fails."""

    def __init__(self, monkeypatch, error: BaseException, *, building: str = "", inner: int = 0) -> None:
        self.error, self.building, self.inner, self.real = error, building, inner, cpu.arms
        monkeypatch.setattr(cpu, "arms", self.arms)

    def arms(self, plan, dtype, path, product_dtype):
        if dtype == self.building:
            raise self.error
        ours, baseline = self.real(plan, dtype, path, product_dtype)

        def failing(a, b, c):
            if a.shape[1] == self.inner:
                raise self.error
            ours(a, b, c)

        return failing, baseline


ERRORS = [
    ValueError("2x2x2 cuts A into 256 blocks, more than the 200"),
    MemoryError(),
    BuildError("nvcc", "error: too long"),
    KernelError("refused"),
    CublasError("cublasGemmEx of cuBLAS failed with status 13"),
    RuntimeError("an illegal memory access was encountered"),
    OSError(28, "No space left on device"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_failing_row_is_skipped_with_its_reason_and_the_others_stay(error, monkeypatch):
    Fault(monkeypatch, error, inner=13)
    found = bench([plan(strassen())], [(9, 9, 9), (9, 9, 13), (9, 9, 10)], ["fp16", "bf16"], device="cpu")
    assert [(row["K"], row["dtype"]) for row in found["rows"]] == [(9, "fp16"), (9, "bf16"), (10, "fp16"), (10, "bf16")]
    assert [(row["K"], row["dtype"]) for row in found["skipped"]] == [(13, "fp16"), (13, "bf16")]
    assert all(row["reason"] == (str(error) or "MemoryError") for row in found["skipped"])
    assert found["skipped"][0].keys() < found["rows"][0].keys() | {"reason"} and found["interrupted"] is False


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_cannot_be_built_is_skipped_at_every_shape(error, monkeypatch):
    Fault(monkeypatch, error, building="fp16")
    found = bench([plan(strassen())], [(9, 9, 9), (8, 8, 8)], ["fp16", "bf16"], device="cpu")
    assert [row["dtype"] for row in found["rows"]] == ["bf16"] * 2
    assert [(row["dtype"], row["K"]) for row in found["skipped"]] == [("fp16", 9), ("fp16", 8)]


def test_everything_is_built_before_anything_is_measured(monkeypatch):
    rows = []
    Fault(monkeypatch, MissingCompilerError("nvcc was not found"), building="bf16")
    with pytest.raises(MissingCompilerError):
        bench([plan(strassen())], [(9, 9, 9)], ["fp16", "bf16"], device="cpu", on_row=rows.append)
    assert rows == []


def test_a_lost_device_ends_everything(monkeypatch):
    Fault(monkeypatch, DeviceMissingError("no usable GPU"), inner=13)
    with pytest.raises(DeviceMissingError):
        bench([plan(strassen())], [(9, 9, 13)], ["fp16"], device="cpu")


@pytest.mark.parametrize("where", [{"inner": 13}, {"building": "bf16"}])
def test_an_interrupt_keeps_what_was_measured(where, monkeypatch, tmp_path):
    Fault(monkeypatch, KeyboardInterrupt(), **where)
    found = bench([plan(strassen())], [(9, 9, 9), (9, 9, 13), (9, 9, 10)], ["fp16", "bf16"], device="cpu")
    assert found["interrupted"] is True and found["skipped"] == []
    assert [row["dtype"] for row in found["rows"]] == ["fp16", "bf16"] * ("inner" in where)
    assert load(save(found, tmp_path).parent) == [found]


@pytest.mark.skipif(usable_gpu() is not None, reason="this machine has a GPU")
def test_a_gpu_asked_for_by_name_has_to_be_there():
    with pytest.raises(DeviceMissingError, match="no usable GPU"):
        bench([plan(strassen())], [(4, 4, 4)], ["fp64"], device="gpu")


ON_GPU = [plan(winograd()), plan(extend(strassen(), "n"))]
GPU_DTYPES = ["fp16", "bf16", "fp32", "fp64"]


@kept
def library(number: int, variant: Variant, arch: str) -> Built:
    return build_library(ON_GPU[number], variant, DeviceInfo("", arch, "", "", 0, ""))


def builds(arch: str) -> list[Build]:
    device = DeviceInfo("", arch, "", "", 0, "")
    return [
        Build(library, number, variant, arch)
        for number, one in enumerate(ON_GPU)
        for variant in variants(one, GPU_DTYPES, Wanted(), device)
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", GPU_DTYPES)
def test_the_gpu_path_is_right_repeatable_and_timed(dtype):
    found = bench(ON_GPU, [(1001, 515, 777)], [dtype], device="gpu", pairs=6)
    for row in found["rows"]:
        assert row["correct"] and row["repeatable"] and row["pairs"] == 6
        assert row["workspace_bytes"] > 0 and row["seconds"] > 0 and row["aligned"] is False
        assert row["load"].keys() == row["baseline_load"].keys() > {"clock_sm_mhz", "power_w"}
        assert row["baseline_error_fro"] <= row["error_fro"] * 1.5
    assert "cuBLAS" in found["baseline"] and (dtype != "fp32" or "TF32 off" in found["baseline"])
    assert found["driver"] and found["clocks"]["before"]


@pytest.mark.gpu
def test_measured_and_emulated_errors_agree():
    shape, plans = (1024, 1024, 1024), [plan(strassen()), plan(winograd(), 2)]
    for dtype in ("fp16", "bf16"):
        real = bench(plans, [shape], [dtype], device="gpu", pairs=1, wanted=Wanted("cuda"))["rows"]
        made = bench(plans, [shape], [dtype], device="cpu", pairs=1)["rows"]
        for one, other in zip(real, made, strict=True):
            assert one["error_fro"] == pytest.approx(other["error_fro"], rel=0.1)
            assert one["baseline_error_fro"] == pytest.approx(other["baseline_error_fro"], rel=0.1)
