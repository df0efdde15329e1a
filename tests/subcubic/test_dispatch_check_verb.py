"""What the verb refuses, and that it needs a GPU; what it measures is in tests/evaluate/test_dispatch_check.py."""

import pytest
from typer.testing import CliRunner

from evaluate.device import why_no_gpu
from subcubic.cli import app
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


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    found = CliRunner().invoke(app, ["dispatch-check"])
    assert found.exit_code not in (ExitCode.DONE, ExitCode.USAGE)
    assert "choices are measured on a GPU, and none is usable" in found.output
