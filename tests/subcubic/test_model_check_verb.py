"""``subcubic model-check`` from the command line."""

import pytest

from evaluate.device import usable_gpu
from evaluate.report import load
from subcubic.readme import search_rows

QUICK = ("--size", "tiny", "--device", "cpu", "--steps", 5)


def test_it_compares_both_ways_to_multiply(cli, home):
    done = cli("model-check", "winograd", *QUICK, "--out", home / "results", "--weights", home / "model.npz")
    assert done.code == 0, done.err
    assert "SHA-256" in done.out and "5 steps" in done.out and "2x2x2:7, M = 1024" in done.out
    lines = [line.split()[:5] for line in done.out.splitlines() if line.startswith(("bf16", "fp16"))]
    assert lines == [[dtype, dtype, level, "emulated", "36"] for dtype in ("fp16", "bf16") for level in ("1", "2")]
    assert "step 5:" in done.err and "saved to" in done.err
    (document,) = load(home / "results", "model-check")
    assert document["schema_version"] == 1 and len(document["rows"]) == 4 and (home / "model.npz").exists()
    assert document["rows"][0]["reference"] == "winograd"
    assert search_rows(home / "results") == []


def test_json_has_one_document(cli):
    options = ("--dtype", "bf16", "--levels", 1, "--plane-dtype", "input", "--plane-dtype", "fp16", "--seed", 3)
    done = cli("model-check", "strassen", *QUICK, *options, "--json")
    found = done.json
    assert found["kind"] == "model-check" and found["training"]["seed"] == 3 and found["training"]["seconds"] is None
    assert [(row["dtype"], row["plane_dtype"], row["levels"]) for row in found["rows"]] == [
        ("bf16", "bf16", 1),
        ("bf16", "fp16", 1),
    ]
    assert len(found["corpus"]["sha256"]) == 64 and found["skipped"] == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--device", "cpu"), "use --size tiny"),
        ((*QUICK, "--dtype", "fp32"), "choose fp16 or bf16"),
        ((*QUICK, "--steps", 0), "--steps 0 must be at least 1"),
        ((*QUICK, "--levels", 0), "--levels 0 must be at least 1"),
        ((*QUICK, "--seconds", "nan"), "must be a positive number of seconds"),
        ((*QUICK, "--weights", "nowhere/model.npz"), "there is no folder nowhere"),
    ],
)
def test_bad_options_are_usage_errors(cli, options, text):
    done = cli("model-check", "winograd", *options)
    assert done.code == 2 and text in done.err


def test_without_a_gpu_the_default_size_says_what_to_do(cli):
    if usable_gpu():
        pytest.skip("there is a GPU")
    done = cli("model-check", "winograd")
    assert done.code == 4 and "the default size needs one, use --size tiny on a CPU" in done.err
