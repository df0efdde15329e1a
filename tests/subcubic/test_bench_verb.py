import json

import pytest

from catalog.store import Catalog
from evaluate.device import DeviceInfo

HEAD = {
    "schema_version",
    "created_utc",
    "commit",
    "device",
    "driver",
    "cuda",
    "clocks",
    "power",
    "baseline",
    "timer",
    "rows",
}
ROW = {
    "id",
    "format",
    "rank",
    "levels",
    "path",
    "dtype",
    "M",
    "N",
    "K",
    "seconds",
    "baseline_seconds",
    "ratio",
    "ratio_low",
    "ratio_high",
    "tflops_effective",
    "error_fro",
    "baseline_error_fro",
    "error_max",
    "error_componentwise",
    "distribution",
    "workspace_bytes",
    "operands",
    "regime",
    "plane_dtype",
    "layout",
    "pairs",
    "set",
}


def test_bench_measures_saves_and_records(cli, home):
    done = cli(
        "bench",
        "winograd",
        "--device",
        "cpu",
        "--shape",
        "65,70,33",
        "--dtype",
        "fp64",
        "--dtype",
        "bf16",
        "--levels",
        1,
        "--pairs",
        6,
        "--out",
        home / "results",
        "--json",
    )
    assert done.code == 0, done.err
    assert done.json.keys() >= HEAD and all(row.keys() >= ROW for row in done.json["rows"])
    assert [(row["path"], row["dtype"]) for row in done.json["rows"]] == [
        ("c", "fp64"),
        ("numpy", "fp64"),
        ("emulated", "bf16"),
    ]
    assert all(row["error_fro"] > 0 for row in done.json["rows"])
    saved = next((home / "results").glob("*.json"))
    assert json.loads(saved.read_text())["rows"] == done.json["rows"]
    row = Catalog().rows()[0]
    kept = Catalog().measurements(row.id)
    assert [m["row"]["path"] for m in kept] == ["c", "numpy", "emulated"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["winograd", "--shape", "1,2"], 2, "M,N,K"),
        (["winograd", "--size", "0"], 2, "--size 0"),
        (["winograd", "--pairs", "0"], 2, "--pairs 0"),
        (["winograd", "--levels", "0"], 2, "--levels 0"),
        (["winograd", "--limit", "-1"], 2, "--limit -1"),
        (["winograd", "--shape", "4,0,4"], 2, "4,0,4"),
        (["winograd", "--regime", "warp"], 2, "warp"),
        (["winograd", "--dtype", "fp8"], 2, "fp8"),
        (["8x8x8"], 1, "search 8x8x8"),
        ([], 2, "SCHEME"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, code, says):
    done = cli("bench", *arguments, "--device", "cpu")
    assert (done.code, says in done.err.replace("\n", " ")) == (code, True), done.err


def test_a_missing_gpu_asked_for_by_name_is_exit_code_4(cli):
    from evaluate.device import usable_gpu

    if usable_gpu():
        pytest.skip("this machine has a GPU")
    done = cli("bench", "winograd", "--device", "gpu", "--size", 64)
    assert done.code == 4 and "no usable GPU" in done.err


@pytest.mark.parametrize("path", ["cuda", "fused", "cublas", "triton"])
def test_a_path_of_a_gpu_without_one_is_exit_code_4(cli, monkeypatch, path):
    monkeypatch.setattr("evaluate.device._probe", lambda: "there is none")
    done = cli("bench", "winograd", "--path", path)
    assert done.code == 4 and "no usable GPU: there is none" in done.err
    assert cli("bench", "winograd", "--path", path, "--device", "cpu").code == 1


@pytest.fixture
def cases(monkeypatch):
    """The cases that would be measured on an H200."""
    found = []

    def measure(these, *_, **__):
        found.extend(these)
        return {"rows": [], "skipped": [], "interrupted": False}

    h200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 26, "0")
    monkeypatch.setattr("evaluate.device._probe", lambda: h200)
    monkeypatch.setattr("evaluate.bench.measure", measure)
    return found


def test_fused_kernels_are_measured_in_bf16_unless_said_otherwise(cli, cases):
    done = cli("bench", "winograd", "--path", "fused", "--operands", "planes_given", "--levels", 1)
    assert done.code == 1 and "NVIDIA H200" in done.err  # no rows
    assert {(case.variant.path, case.variant.dtype, case.variant.operands) for case in cases} == {
        ("fused", "bf16", "planes_given")
    }


def test_levels_of_too_many_products_are_left_out_of_fused_kernels_with_a_note(cli, cases):
    done = cli("bench", "classical-3x3x3", "winograd", "--path", "fused")
    assert {(case.plan.rank, case.plan.levels) for case in cases} == {(27, 1), (7, 1), (49, 2)}
    assert done.err.count("left out: 2 level(s) of 3x3x3:27 have 729 products, more than the") == 1
    cases.clear()
    done = cli("bench", "classical-3x3x3", "--dtype", "bf16")
    assert {(case.plan.rank, case.variant.path) for case in cases} == {(27, "cuda"), (27, "fused"), (729, "cuda")}
    assert done.err.count("left out: ") == 1
    cases.clear()
    done = cli("bench", "classical-3x3x3", "--dtype", "fp32")
    assert {case.variant.path for case in cases} == {"cuda"} and "left out" not in done.err


def test_nothing_left_to_measure_is_a_usage_error(cli, cases):
    for path in ("fused", "triton"):
        done = cli("bench", "classical-3x3x3", "--path", path, "--levels", 2)
        assert done.code == 2 and "729 products, more than the" in done.err and "use fewer levels" in done.err
    assert not cases


def test_kernels_that_take_long_to_compile_are_announced(cli, cases):
    done = cli("bench", "winograd", "--path", "fused", "--levels", 3)
    assert cases and "343 products: compiling this kernel will take a minute or more" in done.err
    assert "compiling" not in cli("bench", "winograd", "--path", "fused", "--levels", 2).err


def test_results_survive_a_catalog_that_cannot_be_written(cli, home):
    (home / "catalog").write_text("a file where the folder should be")
    done = cli("bench", "winograd", "--device", "cpu", "--size", 16, "--dtype", "bf16", "--out", home / "r", "--json")
    assert done.code == 0 and done.json["rows"]
    assert "not in the catalog" in done.err and list((home / "r").glob("*.json"))


def test_a_second_level_that_is_too_large_is_left_out(cli, home):
    done = cli("bench", "classical-4x5x4", "--device", "cpu", "--size", 16, "--dtype", "fp16", "--json")
    assert done.code == 0 and [row["levels"] for row in done.json["rows"]] in ([1], [1, 2])
    done = cli("bench", "classical-5x5x5", "--device", "cpu", "--size", 16, "--dtype", "fp16", "--json")
    assert [row["levels"] for row in done.json["rows"]] == [1] and "two levels left out" in done.err
