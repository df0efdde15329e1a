import json
import math

import pytest

from catalog.known import classical, winograd
from catalog.scheme import Format
from codegen.build import MissingCompilerError
from codegen.plan import plan
from evaluate import attention
from evaluate.attention import HEADS, TOKENS, Layer, bounds, measured, shares
from evaluate.device_model import device_model
from subcubic import attention_check
from tests.codegen import nvrtc

WINOGRAD, PLAIN = plan(winograd()), plan(classical(Format(1, 1, 1)))


def test_the_share_of_a_layer_follows_from_its_sizes():
    found = shares(1000, Layer(100, 400, 50), causal=False)
    both, others = 4 * 1000 * 1000 * 100, 2 * 1000 * (100 * 200 + 100 * 100 + 3 * 100 * 400)
    assert found["share"] == both / (both + others)
    assert found["most_for_layer"] == pytest.approx((both + others) / (both * 7 / 8 + others))
    assert shares(1000, Layer(100, 400, 50))["share"] == pytest.approx(both / 2 / (both / 2 + others))
    assert [shares(tokens)["share"] for tokens in TOKENS] == sorted(shares(tokens)["share"] for tokens in TOKENS)


@pytest.mark.parametrize("head", HEADS)
def test_whole_matrices_are_bound_by_memory(head):
    for tokens in TOKENS:
        found = bounds(WINOGRAD, tokens, head, device_model("h200"))
        assert found["bound"] < 1 and found["ratio_qk"] < 1  # the inner size is that of a head
        assert found["bound"] == found["flash_seconds"] / found["whole_seconds"]
        assert math.isclose(found["softmax_seconds"], 4 * tokens**2 / device_model("h200").copy)


def test_the_command_prints_and_keeps_what_is_known_on_paper(tmp_path, capsys):
    assert attention_check.main(["--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (saved,) = tmp_path.glob("*.json")
    assert json.loads(saved.read_text()) == printed and printed["kind"] == "attention"
    assert len(printed["rows"]) == len(TOKENS) * (1 + len(HEADS)) and printed["model"] == "h200"
    rows = [*printed["rows"], {"what": "time", "tokens": 9, "heads": 2, "head": 64, "arm": "flash", "seconds": 1e-3}]
    text = attention_check.told(rows, "h200")
    assert "131072                           71%  1.098" in text and "64  flash  1.000" in text
    assert attention_check.main([]) == 0 and text.startswith(capsys.readouterr().out[:500])


def test_softmax_compiles_at_run_time():
    try:
        cubin, log = nvrtc.compile_device_part(attention._SOFTMAX, "sm_90")
    except MissingCompilerError as error:
        pytest.skip(str(error))
    assert cubin, log


@pytest.mark.gpu
def test_every_arm_is_attention():
    from evaluate.device import require_gpu

    gpu = require_gpu()
    if gpu.arch != "sm_90":
        pytest.skip("the kernels that read a transposed K are those for sm_90a")
    for name, row in measured([PLAIN, WINOGRAD], 1024, 128, 2, gpu):
        assert row["error"] < 5e-3 and row["seconds"] > 0, name


def test_what_cannot_be_answered_is_a_sentence(capsys, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        attention_check.main(["--device", "abacus"])
    assert ended.value.code == 2 and "nothing is known of device 'abacus'" in capsys.readouterr().err
    monkeypatch.setattr("evaluate.device._probe", lambda: "CUDA sees no device")
    assert attention_check.main(["--measure"]) == 4
    assert "CUDA sees no device" in capsys.readouterr().err
