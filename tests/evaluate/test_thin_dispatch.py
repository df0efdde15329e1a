"""Products of few rows by stands of the libraries and a thin kernel that an emulation runs."""

import shutil
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from catalog.known import classical
from catalog.scheme import Format
from codegen.plan import plan
from evaluate import array_jax
from evaluate.dispatch import Dispatcher
from evaluate.kernel import Built, KernelError
from evaluate.thin import choice as thin_choice
from evaluate.verdicts import Verdict, Verdicts
from tests.codegen import thin_on_host
from tests.evaluate.dispatch_stands import BF16, device, draw, values, with_jax

__all__ = ["device", "with_jax"]
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")
M, N, K = 5, 72, 200


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thin")
    return {layout: thin_on_host.compiled(folder, "bf16", "bf16", layout) for layout in ("nn", "nt")}


@pytest.fixture
def looked(libraries, monkeypatch):
    """What was looked for; the verdict can be changed."""
    found = {"problems": [], "verdict": Verdict((M, N, K), 2e-6, 3e-6, 1.5, 1.4, 1.6, 11, 2.0, way=(1, 2))}

    def tuned(kernel, what, dtype, layout, info):
        found["problems"].append((what.groups, what.shape, dtype, layout))
        if isinstance(found["verdict"], Exception):
            raise found["verdict"]
        return replace(found["verdict"], shape=what.shape)

    def build(the_plan, arch, dtype, layout, c_dtype=None):
        return Built(libraries[layout], thin_on_host.prefix(thin_on_host.PLAN, dtype, c_dtype, layout))

    monkeypatch.setattr(thin_choice, "tuned", tuned)
    monkeypatch.setattr(thin_choice, "build_thin", build)
    return found


def thin(stand, folder):
    """A dispatcher that knows the scheme of one product."""

    def plan_of(reference, levels, orbit):
        if (reference, levels, orbit) != ("classical-1x1x1", 1, ""):
            raise LookupError(reference)
        return plan(classical(Format(1, 1, 1)))

    return Dispatcher(plan_of, lambda device, paths: [], Verdicts(folder / "thin"))


def test_a_product_of_few_rows_runs_where_a_tile_won(device, looked, tmp_path):
    dispatcher = thin(device, tmp_path)
    for a, b in (
        (draw(M, K), draw(K, N, seed=1)),
        (draw(M, K), draw(N, K, seed=1).T),
        (draw(M, 2 * K)[:, :K], draw(K, N, seed=1)),
        (draw(2, 3, K), draw(K, N, seed=1)),
    ):
        a, b = device.array(a), device.array(b)
        found, told = dispatcher.matmul(a, b, explain=True, tuning_share=inf)
        assert type(found) is type(a) and (values(found) == values(a) @ values(b)).all()
        assert told.choice == "thin kernel, tile 1, split 2" and told.measured_ratio == 1.5, told.why
        assert told.repaid_after == 2_000_000 and told.error_factor == 1.0
        again = dispatcher.matmul(a, b, tuning_share=inf)
        assert (values(again) == values(found)).all()
    assert {(layout, shape) for _, shape, _, layout in looked["problems"]} == {
        ("nn", (M, N, K)), ("nt", (M, N, K)), ("nn", (6, N, K)),
    }  # fmt: skip
    assert len(looked["problems"]) == 3


def test_a_stack_is_one_launch(device, looked, tmp_path):
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(2, 3, 4, K)), device.array(draw(2, 3, K, N, seed=1))
    found, told = dispatcher.matmul(a, b, explain=True, tuning_share=inf)
    assert (values(found) == values(a) @ values(b)).all() and told.choice.startswith("thin kernel")
    assert looked["problems"] == [(6, (4, N, K), "bf16", "nn")]
    shared = device.array(draw(1, 1, 4, K))
    found = dispatcher.matmul(shared, b, tuning_share=inf)
    assert (values(found) == values(shared) @ values(b)).all() and len(looked["problems"]) == 1
    uneven = device.array(draw(3, 4, K))  # the same for the first dimension of the stack only
    found, told = dispatcher.matmul(uneven, b, explain=True, tuning_share=inf)
    assert (values(found) == values(uneven) @ values(b)).all() and not told.choice.startswith("thin")


def test_weights_that_were_packed_are_read_early(device, looked, tmp_path, monkeypatch):
    seen, real = [], thin_choice.ThinKernel.launcher
    monkeypatch.setattr(
        thin_choice.ThinKernel, "launcher", lambda self, fields: seen.append(fields.early) or real(self, fields)
    )
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    for right in (b, dispatcher.pack(b)):
        found = dispatcher.matmul(a, right, tuning_share=inf)
        assert (values(found) == values(a) @ values(b)).all()
    assert seen == [1, 2]


def test_packing_waits_for_what_writes_the_weights(device, tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(device.stream, "synchronize", lambda: waited.append(1), raising=False)
    dispatcher = thin(device, tmp_path)
    dispatcher.pack(device.array(draw(K, N)), rows=1)
    assert waited


def test_out_is_written_wherever_it_lies(device, looked, tmp_path):
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    exact = values(a) @ values(b)
    out = device.array(np.zeros((M, N), BF16))
    assert dispatcher.matmul(a, b, out, tuning_share=inf) is out and (values(out) == exact).all()
    wide = device.array(np.zeros((M, 2 * N), BF16))
    dispatcher.matmul(a, b, wide[:, ::2], tuning_share=inf)
    assert (values(wide)[:, ::2] == exact).all() and not values(wide)[:, 1::2].any()
    square = device.array(draw(8, 8))
    wanted = values(square) @ values(square)
    dispatcher.matmul(square, square, square, tuning_share=inf)
    assert (values(square) == wanted).all()


def test_jax_gets_its_own_arrays_back(with_jax, looked, tmp_path):
    a, b = with_jax.array(draw(M, K)), with_jax.array(draw(K, N, seed=1))
    found, told = thin(with_jax, tmp_path).matmul(a, b, explain=True, tuning_share=inf)
    assert type(found) is type(a) and (values(found) == values(a) @ values(b)).all()
    assert told.choice.startswith("thin kernel")


def test_jax_is_waited_for_after_rows_were_gathered(with_jax, looked, tmp_path, monkeypatch):
    library, seen = array_jax.Jax, []
    monkeypatch.setattr(library, "ready", lambda self, *arrays: seen.append([x.shape for x in arrays]))
    a, b = with_jax.array(draw(2, 3, K)), with_jax.array(draw(K, N, seed=1))
    found = thin(with_jax, tmp_path).matmul(a, b, tuning_share=inf)
    assert (values(found) == values(a) @ values(b)).all() and [(6, K), (K, N)] in seen


def test_the_vendor_runs_where_no_tile_won(device, looked, tmp_path):
    looked["verdict"] = replace(looked["verdict"], ratio=1.0, ratio_low=0.98, ratio_high=1.02)
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    for _ in range(2):
        found, told = dispatcher.matmul(a, b, explain=True, tuning_share=inf)
        assert told.choice == f"{device.name}.matmul" and "a ratio of 1.000: no difference" in told.why
        assert (values(found) == values(a) @ values(b)).all() and len(looked["problems"]) == 1


@pytest.mark.parametrize("error", [KernelError("it refuses"), MemoryError("too little"), OSError("no disk")])
def test_what_cannot_run_is_left_to_the_vendor_and_not_tried_again(device, looked, tmp_path, error):
    looked["verdict"] = error
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    for _ in range(2):
        told = dispatcher.matmul(a, b, explain=True, tuning_share=inf)[1]
        assert str(error) in told.why and told.choice == f"{device.name}.matmul"
    assert len(looked["problems"]) == 1


def test_tiles_are_looked_for_when_that_is_a_small_share_of_the_calls(device, looked, tmp_path, monkeypatch):
    monkeypatch.setattr(thin_choice, "_TUNING_S", 1e-3)
    monkeypatch.setattr(thin_choice, "_BUILD_S", 0.0)
    monkeypatch.setattr(thin_choice, "_LAUNCH_S", 1e-4)
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    told = dispatcher.matmul(a, b, explain=True, tuning_share=0.5)[1]
    assert told.choice == f"{device.name}.matmul" and "50% of what 20 calls of this shape take" in told.why
    for _ in range(19):
        dispatcher.matmul(a, b, tuning_share=0.5)
    assert not looked["problems"]
    assert dispatcher.matmul(a, b, explain=True, tuning_share=0.5)[1].choice.startswith("thin kernel")
    monkeypatch.setattr(thin_choice, "_MOST_WAITING", 2)
    for m in range(1, 5):  # shapes that change at every call
        dispatcher.matmul(device.array(draw(m, K)), b, tuning_share=0.05)
    assert len(looked["problems"]) == 1


def test_a_verdict_is_found_by_other_processes(device, looked, tmp_path):
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    thin(device, tmp_path).matmul(a, b, tuning_share=inf)
    told = thin(device, tmp_path).matmul(a, b, explain=True, tune=False)[1]
    assert told.choice.startswith("thin kernel") and len(looked["problems"]) == 1


def test_nothing_is_looked_for_where_that_is_not_wanted(device, looked, tmp_path):
    dispatcher = thin(device, tmp_path)
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    assert "tune is off" in dispatcher.matmul(a, b, explain=True, tune=False)[1].why
    device.stream.capturing = True
    assert "a graph is captured" in dispatcher.matmul(a, b, explain=True, tuning_share=inf)[1].why
    device.stream.capturing = False
    assert not looked["problems"]
    for share in (0, -1, float("nan"), True, "much"):
        with pytest.raises(ValueError, match="tuning_share must be a positive number"):
            dispatcher.matmul(a, b, tuning_share=share)
