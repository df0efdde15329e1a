"""The verbs for products of few rows and for products with steps after them."""

import re
import subprocess

import pytest

from evaluate.device import DeviceInfo
from evaluate.verdicts import Verdict, Verdicts

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 50 << 20, "0")


def row(case, **more):
    m, n, k = case.what.shape
    way = {"tile": 0, "columns": 64, "split": 4, "microseconds": 3.0}
    facts = {"groups": case.what.groups, "M": m, "N": n, "K": k, "dtype": case.dtype, "layout": case.layout}
    times = {
        "seconds": 3e-6,
        "baseline_seconds": 4.5e-6,
        "ratio": 1.5,
        "ratio_low": 1.4,
        "ratio_high": 1.6,
        "pairs": 30,
    }
    rest = {
        "ratio_vendor_tuned": 1.2,
        "ratio_alone": 1.45,
        "ratio_constant_b": 1.6,
        "bandwidth": 4e12,
        "of_copy": 0.9,
        "rule": way,
        "square": None,
        "tuned": way,
        "baseline": "cuBLAS",
    }
    return {**facts, **times, **rest, "bytes": 1, "correct": True, **more}


@pytest.fixture
def on_h200(monkeypatch):
    monkeypatch.setattr("evaluate.device._probe", lambda: H200)
    monkeypatch.setattr("evaluate.device.snapshot", lambda _: {})


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "thin_bf16"),
        (["--layout", "nt", "--c-dtype", "fp32", "--epilogue", "bias,gelu"], "thin_bf16_fp32c_nt_bias_gelu"),
    ],
)
def test_a_thin_kernel_is_a_folder(cli, home, options, name):
    done = cli("export", "classical-1x1x1", "--thin", "--dtype", "bf16", *options, "-o", home / "out", "--json")
    assert done.code == 0, done.err
    assert {path.name for path in (home / "out").iterdir()} == {f"{name}.cu", f"{name}.h", "Makefile", "README.md"}
    page, makefile = ((home / "out" / file).read_text() for file in ("README.md", "Makefile"))
    assert done.json["sha256"] in page and done.json["arch"] == "sm_90" and f"lib{name}.so" in makefile
    assert ("bias,gelu: applied" in page and ", &extras)" in page) == bool(options)
    assert ("_extras extras = {0};\nextras.bias = bias;\n" in page) == bool(options) and "FILLING" not in page
    assert not re.search(r"\b[A-Z]+_?DTYPE\b|SCHEME|DIGEST", page)
    subprocess.run(["gcc", "-fsyntax-only", "-x", "c", "-Wall", "-Werror", home / "out" / f"{name}.h"], check=True)
    again = cli("export", "classical-1x1x1", "--thin", "--dtype", "bf16", *options, "-o", home / "out", "--json")
    assert again.code == 0 and again.json["sha256"] == done.json["sha256"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dtype", "fp32"], "thin kernels multiply fp16 or bf16, not fp32: add --dtype bf16"),
        (["--dtype", "bf16", "--layout", "tn"], "thin kernels have the layouts nn and nt, not tn"),
        (["--dtype", "bf16", "--levels", "2"], "thin kernels do one product, so --levels 2 has no meaning"),
        (["--dtype", "bf16", "--guard"], "thin kernels have no --guard; leave it out"),
        (["--dtype", "bf16", "--build", "sm_90"], "a thin kernel has no --build; leave it or --thin out"),
        (["--dtype", "bf16", "--constant-b"], "thin kernels have no --constant-b; leave it out"),
        (["--dtype", "bf16", "--c-dtype", "fp16"], "--c-dtype fp16 does not go with --dtype bf16"),
        (["--dtype", "bf16", "--arch", "sm_70"], "--arch sm_70: there are no fused kernels for sm_70"),
        (["--dtype", "bf16", "--to", "c"], "the C target has no bf16"),
        (["--dtype", "bf16", "--epilogue", "softmax"], "softmax cannot be a step of an epilogue"),
    ],
)
def test_options_that_thin_kernels_lack_are_refused(cli, home, options, says):
    done = cli("export", "classical-1x1x1", "--thin", *options)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err and not list(home.glob("thin*"))


def test_thin_kernels_of_schemes_are_refused(cli, home):
    done = cli("export", "winograd", "--thin", "--dtype", "bf16")
    assert done.code == 1 and "thin kernels are for the scheme of one product" in done.err


def test_the_set_of_thin_products_is_measured_and_saved(cli, home, on_h200, monkeypatch):
    def measure(plan, cases, gpu, pairs, limit):
        assert (plan.rank, gpu, pairs, limit) == (1, H200, 9 if len(cases) > 1 else 30, None)
        yield from (row(case) for case in cases)

    monkeypatch.setattr("evaluate.thin.bench.measure_thin", measure)
    done = cli("bench", "--path", "thin", "--set", "thin", "--layout", "nt", "--out", home / "out", "--json")
    assert done.code == 0, done.err
    assert [one["groups"] for one in done.json["rows"]] == [1] * 6 + [64, 8] and done.json["kind"] == "thin"
    assert {one["layout"] for one in done.json["rows"]} == {"nt"} and len(list((home / "out").glob("*.json"))) == 1
    text = cli("bench", "--path", "thin", "--shape", "1,4096,512", "--dtype", "fp16")
    assert text.code == 0 and "[1, 512] x [512, 4096]" in text.out and "+28 %" in text.out
    assert "geometric mean of the ratios 1.500" in text.out


def test_a_wrong_result_is_an_error(cli, home, on_h200, monkeypatch):
    wrong = lambda plan, cases, *_: iter([row(cases[0], correct=False)])  # noqa: E731
    monkeypatch.setattr("evaluate.thin.bench.measure_thin", wrong)
    done = cli("bench", "--path", "thin", "--shape", "1,64,64")
    assert done.code == 1 and "WRONG" in done.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dtype", "fp32"], "thin kernels multiply bf16 and fp16, not fp32"),
        (["--layout", "tt"], "thin kernels have the layouts nn and nt, not tt"),
        (["--set", "squares"], "--path thin measures the scheme of one product: give --shape M,N,K, or --set thin"),
        (["winograd"], "--path thin measures the scheme of one product"),
        (["--regime", "steady"], "--path thin is measured in bursts"),
        (["--profile"], "--path thin has no --profile; leave it out"),
        (["--levels", "2"], "--path thin has no --levels; leave it out"),
        (["--resume"], "--path thin has no --resume; leave it out"),
        (["--device", "cpu"], "--path thin measures on a GPU; leave it or --device cpu out"),
        (["--limit", "0"], "--limit 0.0 must be a positive number of seconds"),
        (["--pairs", "0"], "--pairs 0 must be at least 1"),
        (["--shape", "1,2"], "shape '1,2' is not of the form M,N,K"),
    ],
)
def test_what_the_thin_path_does_not_measure_is_refused(cli, options, says):
    done = cli("bench", "--path", "thin", *options)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--epilogue", "dropout"], "dropout is left out"),
        (["--epilogue", "residual,relu"], "name at least one step, and none with a matrix"),
        (["--epilogue", " , "], "unknown step"),
        (["--epilogue", "relu", "--path", "cuda"], "leave --path cuda out"),
        (["--epilogue", "relu", "--dtype", "fp32"], "fused kernels multiply bf16 and fp16, not fp32"),
        (["--epilogue", "relu", "--device", "cpu"], "--epilogue measures on a GPU; leave it or --device cpu out"),
        (["--epilogue", "relu", "--operands", "b_constant"], "--epilogue has no --operands; leave it out"),
        (["--epilogue", "relu", "--path", "thin"], "--path thin has no --epilogue; leave it out"),
    ],
)
def test_steps_that_are_not_compared_are_refused(cli, options, says):
    done = cli("bench", "classical-1x1x1", *options)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
    assert cli("bench", "--set", "squares", "--epilogue", "relu").code == 2


def test_steps_are_measured_for_each_scheme_and_shape(cli, home, on_h200, monkeypatch):
    def measure(cases, gpu, pairs, limit, count):
        assert (gpu, pairs, count) == (H200, 9, False)
        for case in cases:
            m, n, k = case.shape
            ends = {f"ratio{way}{end}": 1.1 for way in ("", "_unfused", "_plain") for end in ("", "_low", "_high")}
            facts = {
                "format": str(case.plan.base.format),
                "rank": case.plan.base.rank,
                "levels": 1,
                "M": m,
                "N": n,
                "K": k,
            }
            rest = {"dtype": case.dtype, "layout": "nn", "epilogue": str(case.epilogue), "seconds": 1e-5, "pairs": 9}
            yield {**facts, **ends, **rest, "baseline": "cuBLASLt", "correct": True}

    monkeypatch.setattr("evaluate.epilogue_bench.measure_epilogues", measure)
    options = ("--epilogue", "bias,gelu_tanh", "--shape", "512,4096,4096", "--pairs", 9, "--out", home / "out")
    done = cli("bench", "classical-1x1x1", "winograd", *options)
    assert done.code == 0, done.err
    assert "2x2x2:7" in done.out and done.out.count("bias,gelu_tanh") == 2 and len(list((home / "out").iterdir())) == 1
    defaults = cli("bench", "winograd", "--epilogue", "relu", "--pairs", 9, "--json")
    assert [one["M"] for one in defaults.json["rows"]] == [512, 512, 512, 8192]


def test_tiles_are_looked_for_ahead_and_kept(cli, home, on_h200, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(home / "cache"))

    def look_now(plan, verdicts, info, problem, budget_s):
        assert budget_s == 2.0
        assert isinstance(verdicts, Verdicts) and info is H200
        return Verdict(problem.what.shape, 2e-6, 3e-6, 1.5, 1.4, 1.6, 11, 2.5, way=(3, 8))

    monkeypatch.setattr("evaluate.thin.choice.look_now", look_now)
    done = cli("tune", "1,4096,512", "8,14336,4096", "--layout", "nt", "--json")
    assert done.code == 0, done.err
    assert [(one["M"], one["N"], one["tile"], one["split"]) for one in done.json["rows"]] == [
        (1, 4096, 3, 8), (8, 14336, 3, 8),
    ]  # fmt: skip
    assert "tile 3, split 8, 2.00 us, ratio 1.500 to the vendor's 3.00 us (faster), found in 2.5 s" in done.err
    assert "64 x 16,1536,4096" in cli("tune", "16,1536,4096", "--groups", 64).out


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["17,64,64"], 2, "17 rows are no thin product; M is at most 16"),
        (["1,64,64", "--dtype", "fp64"], 2, "thin kernels multiply fp16 and bf16, not fp64"),
        (["1,64,64", "--layout", "tn"], 2, "thin kernels have the layouts nn and nt, not tn"),
        (["1,64,64", "--groups", "0"], 2, "--groups 0 must be at least 1"),
        (["1,64,64", "--budget", "nan"], 2, "budget 'nan' is no positive time"),
        (["1,64"], 2, "shape '1,64' is not of the form M,N,K"),
    ],
)
def test_what_cannot_be_tuned_is_refused(cli, options, code, says):
    done = cli("tune", *options)
    assert done.code == code and says in done.err and "Traceback" not in done.err


def test_without_a_gpu_nothing_is_tuned(cli, monkeypatch):
    monkeypatch.setattr("evaluate.device._probe", lambda: "CUDA sees no device")
    done = cli("tune", "1,64,64")
    assert done.code == 4 and "CUDA sees no device" in done.err and "--device" not in done.err
