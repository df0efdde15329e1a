"""What the verb refuses, and that it needs a GPU; what it measures is in tests/evaluate/test_dispatch_check.py."""

import pytest
from typer.testing import CliRunner

from evaluate.device import why_no_gpu
from subcubic.cli import app
from subcubic.dispatch_check_verb import _text
from subcubic.errors import ExitCode


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dtype", "fp32"], "--dtype fp32 has no fused kernels; choose fp16 or bf16"),
        (["--layer", "7168"], "--layer 7168 must be N,K, for example 7168,18432"),
        (["--layer", "0,8"], "--layer 0"),
        (["--seconds", "-1"], "--seconds -1.0 must be a positive number of seconds"),
        (["--shapes", "-1"], "--shapes -1"),
        (["--calls", "-5"], "--calls -5"),
    ],
)
def test_bad_values_are_refused_in_a_sentence(arguments, said):
    found = CliRunner().invoke(app, ["dispatch-check", *arguments])
    assert found.exit_code == ExitCode.USAGE and said in found.output
    assert "Traceback" not in found.output


def test_the_text_has_every_part_of_the_document():
    interval = {"": 1.0, "_low": 2.0, "_high": 3.0}
    ends = {f"to_{one}{end}": value for one in ("best", "vendor") for end, value in interval.items()}
    row = {"M": 1, "N": 2, "K": 3, "chosen": "winograd", "best": "cupy.matmul", **ends}
    row |= {"near_best": True, "near_best_by_median": False, "near_vendor": True}
    changing = {"calls": 9, "N": 5, "K": 6, "seconds": 1.5, "baseline_seconds": 1.8, "ratio": 1.2, "ratio_low": 1.1}
    changing |= {"ratio_high": 1.3, "buckets": 4, "tuning_seconds": 7.0}
    host = {"library": "jax", "M": 8192, "choice": "winograd", "call_us": 20.5, "look_up_us": 1.5}
    alone = {**host, "library": "cupy", "direct": "the kernel", "direct_us": 9.5}
    entry = {"reference": "winograd", "side": 1024, "entry_us": 3.0, "kernels": 2, "cublas_us": 4.0}
    document = {"rows": [row], "streams": [changing], "host": [{**host, "direct": None}, alone], "entries": [entry]}
    text = _text(document)
    assert "1.000 [2.000, 3.000]" in text and "1 of 1 choices" in text and "(0 by the median)" in text
    assert "9 calls with N = 5, K = 6 and any M: 1.50 s, vendor 1.80 s, ratio 1.200 [1.100, 1.300]" in text
    lines = text.splitlines()
    assert "jax at 8192: winograd; a call takes the host 20.5 us, its look-up 1.5 us" in lines
    assert "cupy at 8192: winograd; a call takes the host 20.5 us, its look-up 1.5 us, the kernel alone 9.5 us" in lines
    assert lines[-1].startswith("C entry of winograd at 1024: 3.0 us of the host for 2 kernel(s)")
    assert _text({**document, "rows": [], "streams": [], "host": [], "entries": []}) == ""


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    found = CliRunner().invoke(app, ["dispatch-check"])
    assert found.exit_code not in (ExitCode.DONE, ExitCode.USAGE)
    assert "choices are measured on a GPU, and none is usable" in found.output
