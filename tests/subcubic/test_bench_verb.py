import json

import pytest

from catalog.store import Catalog

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
        (["winograd", "--size", "0"], 1, "positive"),
        (["winograd", "--pairs", "0"], 1, "pairs"),
        (["winograd", "--regime", "warp"], 1, "warp"),
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
