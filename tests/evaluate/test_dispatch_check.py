"""Choices judged by times that are given, with a dispatcher on stands of CuPy."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate import dispatch_check, host_time
from evaluate.dispatch import Dispatcher
from evaluate.dispatch_check import check, held_out, stream
from evaluate.host_time import entry_times, host_times
from evaluate.shapes import shapes_of
from tests.evaluate.dispatch_stands import H200, SHAPE, Device, draw

M, N, K = SHAPE
VENDOR = "cupy.matmul"


@pytest.fixture
def device(tmp_path, monkeypatch):
    made = Device(tmp_path, monkeypatch, "cupy")

    def operands(xp, shape, dtype):
        m, n, k = shape
        return tuple(made.array(x) for x in (draw(m, k), draw(k, n, seed=1), draw(m, n)))

    for room in (dispatch_check, host_time):
        monkeypatch.setattr(room, "operands", operands)
    monkeypatch.setattr(dispatch_check, "release_memory", lambda: None)
    monkeypatch.setattr(dispatch_check, "gpu_measure", lambda *_: None)
    monkeypatch.setattr(dispatch_check, "snapshot", lambda gpu: {"power_w": 100.0})
    return made


def given(monkeypatch, ours, vendor):
    """Every arm runs once and takes the time that is given, within a hundredth."""

    def interleaved(measure, arms, rounds):
        for launch in arms.values():
            launch(0)
        near = 1 + 0.005 * np.random.default_rng(0).standard_normal((len(arms), rounds))
        return {
            name: list((vendor if name == VENDOR else ours[name.split(", ")[0]]) * each)
            for (name, each) in zip(arms, near, strict=True)
        }

    monkeypatch.setattr(dispatch_check, "_interleaved", interleaved)


@pytest.mark.parametrize(
    ("trial", "ours", "chosen", "near_best", "near_vendor"),
    [
        (1.2, 0.8, "winograd", True, True),
        (1.2, 1.1, "winograd", False, False),  # the trial was wrong
        (1.2, 1.015, "winograd", True, False),
        (0.9, 1.2, VENDOR, True, True),
        (0.9, 0.8, VENDOR, False, True),  # a gain was missed
    ],
)
def test_a_choice_is_judged_by_what_is_measured_afterwards(
    device, monkeypatch, trial, ours, chosen, near_best, near_vendor
):
    device.ratio = trial
    given(monkeypatch, {"winograd": ours}, 1.0)
    document = check(lambda: device.dispatcher, [SHAPE], "bf16", H200, device.module)
    (row,) = document["rows"]
    assert (row["M"], row["N"], row["K"]) == SHAPE and document["kind"] == "dispatch-check"
    assert document["power"]["after"]["power_w"] == 100.0
    assert row["chosen"].startswith(chosen) and set(row["medians"]) >= {VENDOR, row["chosen"], row["best"]}
    assert (row["near_best"], row["near_vendor"]) == (near_best, near_vendor), row
    assert row["best"].startswith("winograd" if ours < 1 else VENDOR)


def test_what_has_no_time_left_is_told(device, monkeypatch):
    given(monkeypatch, {"winograd": 1.0}, 1.0)
    document = check(lambda: device.dispatcher, [SHAPE] * 3, "bf16", H200, device.module, limit=0.0)
    assert [len(document[key]) for key in ("rows", "skipped")] == [0, 3]


def test_the_held_out_half_is_drawn_without_repetition():
    found = held_out("llm960", 60)
    assert found == held_out("llm960", 60) != held_out("llm960", 60, seed=1)
    assert len(set(found)) == 60 and not set(found) & set(shapes_of("llm960")[::2])


def test_a_stream_tries_every_bucket_once_and_counts_its_calls(device, monkeypatch):
    monkeypatch.setattr(dispatch_check, "_MOST_M", 40)
    row = stream(device.dispatcher, (N, K), "bf16", device.module, calls=100)
    assert row["calls"] == 100 and 1 < row["buckets"] < 20 and device.trials <= row["buckets"]
    assert row["seconds"] > 0 and row["ratio"] == pytest.approx(row["baseline_seconds"] / row["seconds"])
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]


def test_host_time_is_that_of_what_ran(device, monkeypatch):
    monkeypatch.setattr(host_time, "_CALLS", 3)
    row, *_ = host_times(lambda: device.dispatcher, "bf16", device.module, (32,))
    assert (row["M"], row["library"], row["direct"]) == (32, "cupy", "the kernel")
    assert row["choice"].startswith("winograd") and row["overhead_us"] == pytest.approx(
        row["call_us"] - row["direct_us"]
    )
    device.ratio = 0.9
    row, *_ = host_times(lambda: device.dispatcher, "bf16", device.module, (16,))
    assert (row["choice"], row["direct"]) == (VENDOR, "the library's product")


def test_a_look_up_is_all_that_a_call_does_but_the_product(device, monkeypatch):
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    out = device.array(draw(M, N))
    assert device.dispatcher.known(a, b, out) is None
    with pytest.raises(LookupError, match="multiply them first"):
        device.dispatcher.idle(a, b, out)
    device.dispatcher.matmul(a, b, out)
    decision, before = device.dispatcher.known(a, b, out), np.array(out)
    assert decision.product is not None and device.dispatcher.known(a, b) is None
    out[...] = 1
    call = device.dispatcher.idle(a, b, out)
    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "_decide", lambda *_: pytest.fail("decided again"))
        assert call() is None and (np.asarray(out) == 1).all()
        assert device.dispatcher.known(a, b, out) is decision
        assert device.dispatcher.matmul(a, b, out) is out and (np.asarray(out) == before).all()
    monkeypatch.setattr(host_time, "_CALLS", 3)
    (row,) = (row for row in host_times(lambda: device.dispatcher, "bf16", device.module, (32,)) if row["M"] == 32)
    assert 0 < row["look_up_us"] < row["call_us"]


def test_what_jax_is_given_by_a_kernel_is_not_timed_alone(tmp_path, monkeypatch):
    made = Device(tmp_path, monkeypatch, "jax")
    monkeypatch.setattr(host_time, "_CALLS", 3)
    monkeypatch.setattr(host_time, "wait", lambda xp: None)
    row = host_time.host_time(made.dispatcher, made.array(draw(M, K)), made.array(draw(K, N)), None, made.module)
    assert row["library"] == "jax" and row["choice"].startswith("winograd")
    assert (row["direct"], row["direct_us"], row["overhead_us"]) == (None, None, None)


def test_a_library_that_is_missing_is_left_out_and_a_failure_is_not_hidden(device, monkeypatch):
    def missing(words, dtype):
        raise ImportError("no such library")

    monkeypatch.setattr(host_time, "_CALLS", 1)
    monkeypatch.setattr(host_time, "tensor_of", missing)
    monkeypatch.setattr(host_time, "array_of", missing)
    assert len(host_times(lambda: device.dispatcher, "bf16", device.module, (32,))) == 1
    monkeypatch.setattr(host_time, "array_of", lambda words, dtype: words.view(draw(1).dtype))
    real = host_time.host_time

    def failing(dispatcher, a, b, c, xp):
        if c is None:
            raise RuntimeError("the measurement failed")
        return real(dispatcher, a, b, c, xp)

    monkeypatch.setattr(host_time, "host_time", failing)
    with pytest.raises(RuntimeError, match="the measurement failed"):
        host_times(lambda: device.dispatcher, "bf16", device.module, (32,))


def test_entries_are_set_beside_those_of_cublas(device, monkeypatch):
    called, waited = [], []
    arms = SimpleNamespace(
        ours=lambda n: called.append("ours"), baselines=[("cublas", lambda n: called.append("cublas"))]
    )
    monkeypatch.setattr(host_time, "_CALLS", 3)
    monkeypatch.setattr(host_time, "build_library", lambda plan, variant, gpu: plan.name)
    monkeypatch.setattr(host_time, "open_arms", lambda *_: nullcontext(arms))
    monkeypatch.setattr(host_time, "_host_each", lambda call, xp: call() or waited.append(xp) or len(called) % 2 * 1e-6)
    rows = entry_times(lambda reference, levels, orbit: plan(winograd()), "bf16", H200, device.module)
    assert [row["kernels"] for row in rows] == [1, 2] and called.count("ours") == called.count("cublas") > 0
    assert all(row["entry_us"] == 1.0 and row["cublas_us"] == 0.0 for row in rows)
    assert [row["more_for_each_kernel_us"] for row in rows] == [1.0, 0.5]
