"""``predict --crossover`` and ``--plot``, and the pictures beside a document of ``bench``."""

import json

import pytest

from evaluate.report import save
from subcubic import pictures
from tests.evaluate.map_rows import row


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def results(tmp_path):
    rows = [row(4096, 0.9), row(8192, 1.1), row(8192, 1.01, 0.02, operands="b_constant"), row(16384, 1.2, dtype="fp16")]
    save({"device": "NVIDIA H200", "created_utc": "2026-01-01T00:00:00", "rows": rows}, tmp_path / "results")
    save({"device": "NVIDIA H20", "created_utc": "2026-01-01T00:00:00", "rows": [row(2048, 1.5)]}, tmp_path / "results")
    return tmp_path / "results"


@pytest.mark.parametrize("device", ["h20", "h100", "a100", "b200"])
def test_every_dtype_and_kind_of_operands_of_a_card_that_is_not_here_has_a_crossover(cli, device):
    done = cli("predict", "winograd", "--device", device, "--crossover", "--json")
    assert done.code == 0, done.err
    assert done.json["device"] == device and done.json["measured"] == []
    found = {(one["dtype"], one["operands"]): one for one in done.json["crossovers"]}
    assert {"bf16", "fp16", "fp32", "fp64", "tf32"} <= {dtype for dtype, _ in found}
    ends = [found["bf16", kind]["first"] for kind in ("planes_given", "b_constant", "variable")]
    assert ends == sorted(ends) and 1024 < ends[0] and ends[-1] < 16384
    assert [kind for dtype, kind in found if dtype == "fp32"] == ["variable"]


def test_measured_crossovers_stand_beside_those_of_the_model(cli, results):
    options = ("--crossover", "--dtype", "bf16", "--results", results)
    done = cli("predict", "winograd", *options, "--json")
    assert [(one["operands"], one["first"], one["below"]) for one in done.json["measured"]] == [
        ("variable", 8192, 4096),
        ("b_constant", None, 8192),
    ]
    assert {one["operands"] for one in done.json["crossovers"]} == {"variable", "b_constant", "planes_given"}
    text = cli("predict", "winograd", *options, "--operands", "b_constant")
    assert "not up to 8192" in text.out and "planes_given" not in text.out and "x4.0" in text.out
    assert "an interval that touches 1 is no gain" in text.err


@pytest.mark.parametrize("extra", [("--size", 4096), ("--set", "squares"), ("--plot", "x.svg")])
def test_a_crossover_takes_no_sizes(cli, extra):
    done = cli("predict", "winograd", "--crossover", *extra)
    assert (done.code, "leave --size, --shape, --set and --plot out" in done.err.replace("\n", " ")) == (2, True)


def test_a_prediction_is_drawn_with_what_was_measured(cli, results, tmp_path):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed; install the extra plot")
    path = tmp_path / "map.svg"
    done = cli("predict", "winograd", "--size", 8192, "--plot", path, "--results", results)
    assert done.code == 0, done.err
    assert "K = 8192" in path.read_text() and "measured gain" in path.read_text()


def test_a_plot_is_an_svg(cli):
    done = cli("predict", "winograd", "--size", 8192, "--plot", "map.png")
    assert (done.code, "--plot map.png must end in .svg" in done.err.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--plot", "map.svg", "--operands", "variable", "--operands", "b_constant"), "not variable and b_constant"),
        (("--results", "somewhere"), "--results somewhere is read for --plot and --crossover"),
    ],
)
def test_options_that_would_not_be_heard_are_refused(cli, more, message):
    done = cli("predict", "winograd", "--size", 8192, *more)
    assert (done.code, message in done.err.replace("\n", " ")) == (2, True)


def test_a_plot_without_matplotlib_says_what_to_install(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    done = cli("predict", "winograd", "--size", 8192, "--plot", tmp_path / "map.svg")
    assert (done.code, "install the extra plot" in done.err.replace("\n", " ")) == (1, True)


BENCH = ("bench", "winograd", "--device", "cpu", "--shape", "65,70,33", "--dtype", "fp64", "--levels", 1)


def test_bench_draws_its_document_beside_the_file(cli, home):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed; install the extra plot")
    done = cli(*BENCH, "--pairs", 7, "--out", home / "results")
    assert done.code == 0, done.err
    (saved,) = (home / "results").glob("*.json")
    assert {path.name for path in (home / "results").glob("*.svg")} == {
        f"{saved.stem}-speed.svg",
        f"{saved.stem}-error.svg",
    }
    assert "70 x 33" in (home / "results" / f"{saved.stem}-speed.svg").read_text()


def test_rows_that_support_nothing_cost_a_note(cli, home):
    done = cli(*BENCH, "--pairs", 2, "--out", home / "results")
    assert done.code == 0 and not list((home / "results").glob("*.svg"))
    assert "none of the rows is a timed scheme" in done.err.replace("\n", " ")


def test_bench_without_matplotlib_keeps_its_document_and_says_so(cli, home, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    done = cli(*BENCH, "--pairs", 7, "--out", home / "results")
    assert done.code == 0 and len(list((home / "results").iterdir())) == 1
    assert "no pictures: Matplotlib is not installed" in done.err.replace("\n", " ")


@pytest.mark.parametrize("asked", [["--crossover"], ["--plot", "map.svg"]])
@pytest.mark.parametrize("content", ["[" * 100_000, json.dumps({"created_utc": "", "device": "h200", "rows": [{}]})])
def test_damaged_results_are_one_sentence(cli, home, asked, content):
    (home / "x.json").write_text(content)
    found = cli("predict", "winograd", "--results", home, *asked, "--json")
    assert found.code == 2 and str(home / "x.json") in found.json["error"] and "write it again" in found.json["error"]
