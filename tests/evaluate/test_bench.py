"""The document of results, end to end on the CPU."""

import json

import pytest

from catalog.known import strassen, winograd
from catalog.transform import extend
from codegen.plan import plan
from evaluate.bench import bench
from evaluate.device import DeviceMissingError, usable_gpu
from evaluate.report import load, results_table, save, text


@pytest.fixture(scope="module")
def document():
    rows = []
    plans = [plan(winograd(), 2), plan(extend(strassen(), "n"))]
    found = bench(
        plans, [(50, 61, 47)], ["fp64", "fp32", "fp16"], device="cpu", pairs=6, commit="abc", on_row=rows.append
    )
    assert rows == found["rows"]
    return found


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


def test_saved_documents_come_back_and_are_never_overwritten(document, tmp_path):
    paths = [save(document, tmp_path / "results") for _ in range(3)]
    assert len(set(paths)) == 3 and load(tmp_path / "results") == [document] * 3
    assert not list((tmp_path / "results").glob(".*"))
    table = results_table(tmp_path / "results")
    assert table.count("\n") == 2 + 8  # the emulated rows were never timed
    assert text(document["rows"]).count("\n") == len(document["rows"])
    assert results_table(tmp_path / "nothing") == ""


def test_a_damaged_results_file_is_named(document, tmp_path):
    path = save(document, tmp_path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=path.name):
        load(tmp_path)


def test_a_document_that_cannot_be_written_leaves_nothing(document, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(document, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"dtypes": ["fp8"]}, "unknown dtype 'fp8'"),
        ({"shapes": [(0, 1, 1)]}, "three positive sizes"),
        ({"pairs": 0}, "pairs must be at least 1"),
        ({"regime": "warm"}, "unknown regime"),
        ({"paths": ["cuda"]}, "none of cuda"),
    ],
)
def test_bad_requests_are_one_sentence(change, message):
    request = {"plans": [plan(strassen())], "shapes": [(4, 4, 4)], "dtypes": ["fp64"], "device": "cpu"} | change
    with pytest.raises(ValueError, match=message):
        bench(request.pop("plans"), request.pop("shapes"), request.pop("dtypes"), **request)


@pytest.mark.skipif(usable_gpu() is not None, reason="this machine has a GPU")
def test_a_gpu_asked_for_by_name_has_to_be_there():
    with pytest.raises(DeviceMissingError, match="no usable GPU"):
        bench([plan(strassen())], [(4, 4, 4)], ["fp64"], device="gpu")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_the_gpu_path_is_right_repeatable_and_timed(dtype):
    found = bench(
        [plan(winograd()), plan(extend(strassen(), "n"), 2)], [(1001, 515, 777)], [dtype], device="gpu", pairs=6
    )
    for row in found["rows"]:
        assert row["correct"] and row["repeatable"] and row["pairs"] == 6
        assert row["workspace_bytes"] > 0 and row["seconds"] > 0
        assert row["baseline_error_fro"] <= row["error_fro"] * 1.5
    assert "cuBLAS" in found["baseline"] and (dtype != "fp32" or "TF32 off" in found["baseline"])
    assert found["driver"] and found["clocks"]["before"]


@pytest.mark.gpu
def test_measured_and_emulated_errors_agree():
    shape, plans = (1024, 1024, 1024), [plan(strassen()), plan(winograd(), 2)]
    for dtype in ("fp16", "bf16"):
        real = bench(plans, [shape], [dtype], device="gpu", pairs=1)["rows"]
        made = bench(plans, [shape], [dtype], device="cpu", pairs=1)["rows"]
        for one, other in zip(real, made, strict=True):
            assert one["error_fro"] == pytest.approx(other["error_fro"], rel=0.1)
            assert one["baseline_error_fro"] == pytest.approx(other["baseline_error_fro"], rel=0.1)
