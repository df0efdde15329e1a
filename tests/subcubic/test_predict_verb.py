"""``subcubic predict`` and ``doctor --measure``."""

import json

import pytest


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_device_that_is_not_here_is_predicted(cli):
    options = ("--device", "h20", "--operands", "variable", "--operands", "b_constant", "--json")
    done = cli("predict", "winograd", "strassen", "--size", 8192, "--shape", "4096,8192,2048", *options)
    assert done.code == 0, done.err
    assert done.json["device"] == "h20" and "94 % of the peak assumed" in done.json["basis"]
    rows = done.json["rows"]
    assert [(row["reference"], row["M"], row["operands"]) for row in rows[:3]] == [
        ("winograd", 8192, "variable"),
        ("winograd", 8192, "b_constant"),
        ("winograd", 4096, "variable"),
    ]
    assert len(rows) == 8 and rows[0]["ratio"] < rows[1]["ratio"] < 8 / 7
    # Strassen's form has five planes a side where Winograd's has four.
    assert rows[4]["ratio"] < rows[0]["ratio"]
    assert sum(phase["seconds"] for phase in rows[0]["phases"]) == pytest.approx(rows[0]["seconds"])


def test_the_table_says_why(cli):
    done = cli("predict", "winograd", "--size", 4096, "--levels", 2)
    assert done.code == 0, done.err
    assert "2x2x2:7^2" in done.out and "1.306 by products alone; beyond them of the time: idle" in done.out
    assert "NVIDIA H200 Tensor Core GPU data sheet" in done.err


def test_a_set_of_shapes_is_predicted_on_paper(cli):
    done = cli("predict", "winograd", "--set", "squares", "--dtype", "fp8", "--device", "h100", "--json")
    assert [row["M"] for row in done.json["rows"]][:2] == [1024, 1536]
    text = cli("predict", "winograd", "--size", 4096, "--dtype", "fp8", "--device", "h100")
    assert "there are no kernels for fp8" in text.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--device", "xpu"), "nothing is known of device 'xpu'"),
        (("--dtype", "fp8", "--device", "a100"), "unknown dtype of a100 'fp8'"),
        (("--set", "cubes"), "unknown set of shapes 'cubes'"),
        (("--size", "0"), "--size 0 must be at least 1"),
        (("--path", "magic"), "unknown path 'magic'"),
    ],
)
def test_bad_input_is_a_usage_error(cli, options, says):
    done = cli("predict", "winograd", *options)
    assert (done.code, says in done.err.replace("\n", " ")) == (2, True), done.err


def test_what_doctor_measures_is_predicted_with(cli, cache, monkeypatch):
    monkeypatch.setattr("evaluate.measure_device.HOST_SIZES", (64, 128))
    done = cli("doctor", "--measure", "--device", "cpu", "--json")
    assert done.code == 0, done.err
    (path,) = (cache / "devices").glob("*.json")
    kept = json.loads(path.read_text())
    assert done.json["path"] == str(path) and done.json["copy"] == kept["copy"]
    found = cli("predict", "winograd", "--device", path.stem, "--size", 256, "--json")
    (row,) = found.json["rows"]
    assert row["dtype"] == "fp32" and {phase["name"] for phase in row["phases"]} == {"planes", "products", "sums"}
    rate = dict(map(tuple, kept["gemm"]["fp32"]))[128]
    assert row["baseline_seconds"] == pytest.approx(2 * 256**3 / rate, rel=0.5)


def test_few_rows_are_sent_to_their_own_kernel(cli):
    done = cli("predict", "winograd", "--device", "h200", "--shape", "1,4096,4096")
    assert done.code == 0 and "with up to 16 rows no scheme pays" in done.err and "subcubic tune" in done.err
    assert "rows no scheme" not in cli("predict", "winograd", "--device", "h200", "--shape", "17,4096,4096").err
