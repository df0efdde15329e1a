"""The dispatch where memory is short, limited or captured in a graph, and where kernels refuse, by stands."""

import gc
import sys
import weakref

import numpy as np
import pytest

from evaluate import trials
from evaluate.arrays import library_of
from evaluate.kernel import KernelError
from tests.evaluate.dispatch_fakes import ArrayImpl, Tensor
from tests.evaluate.dispatch_stands import BF16, Device, K, M, N, device, draw, operands, values, with_jax

__all__ = ["device", "with_jax"]


@pytest.mark.parametrize(("limit", "scheme"), [(0, False), (8191, False), (8192, True)])
def test_no_scheme_needs_more_than_it_may(device, limit, scheme):
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, max_workspace=limit, explain=True)
    assert (values(found) == exact).all() and told.choice.startswith("winograd") is scheme
    assert (device.trials > 0) is scheme


def test_short_memory_leaves_it_to_the_vendor(device, monkeypatch):
    a, b, exact = operands(device)
    device.dispatcher.matmul(a, b)

    empty, cuda = device.module.empty, device.module.cuda

    def short(shape, dtype, **options):
        if dtype == np.uint8:
            raise (cuda.memory if device.name == "cupy" else cuda).OutOfMemoryError("none left")
        return empty(shape, dtype, **options)

    monkeypatch.setattr(device.module, "empty", short)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.why.startswith("memory is short")


def test_nothing_is_compiled_or_tried_in_a_captured_graph(device):
    a, b, exact = operands(device)
    device.stream.capturing = True
    told = device.dispatcher.matmul(a, b, explain=True)[1]
    assert "captured" in told.why and not device.built
    device.stream.capturing = False
    assert device.dispatcher.matmul(a, b, explain=True)[1].choice.startswith("winograd")
    device.stream.capturing = True  # what is decided may be captured
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert told.choice.startswith("winograd") and (values(found) == exact).all()


def test_a_device_that_kernels_cannot_reach_is_left_to_the_vendor(device, monkeypatch):
    from evaluate.device import DeviceMissingError

    def missing(self, x):
        raise DeviceMissingError("no usable GPU: CuPy cannot be imported")

    monkeypatch.setattr(f"evaluate.array_{device.name}.{device.name.title()}.info", missing, raising=False)
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.why.startswith("kernels cannot reach the device")
    assert device.dispatcher.pack(b, rows=M).planes is None


@pytest.mark.parametrize("options", [{"scale": "auto"}, {"plane_dtype": "auto"}])
def test_tensors_of_the_host_need_no_device(tmp_path, monkeypatch, options):
    made = Device(tmp_path, monkeypatch, "torch")

    def missing():
        raise RuntimeError("Found no NVIDIA driver on your system")

    made.module.cuda.current_device = missing
    a, b = Tensor(draw(M, K), device="cpu"), Tensor(draw(K, N), device="cpu")
    found, told = made.dispatcher.matmul(a, b, explain=True, **options)
    assert (values(found) == values(a) @ values(b)).all()
    assert told.choice == "torch.matmul" and "there are no kernels" in told.why
    assert made.dispatcher.pack(b, rows=M, **options).planes is None


@pytest.mark.parametrize("options", [{"scale": "auto"}, {"plane_dtype": "auto"}])
def test_arrays_of_jax_on_the_host_need_no_cupy(with_jax, monkeypatch, options):
    monkeypatch.setattr(ArrayImpl, "platform", "cpu")
    monkeypatch.setitem(sys.modules, "cupy", None)
    a, b, exact = operands(with_jax)
    found, told = with_jax.dispatcher.matmul(a, b, explain=True, **options)
    assert (values(found) == exact).all() and "there are no kernels" in told.why
    assert with_jax.dispatcher.pack(b, rows=M, **options).planes is None


@pytest.mark.parametrize("when", ["in the trial", "later"])
def test_results_that_do_not_fit_leave_it_to_the_vendor(device, monkeypatch, when):
    a, b, exact = operands(device)
    if when == "later":
        device.dispatcher.matmul(a, b)
    cuda = device.module.cuda
    error = (cuda.memory if device.name == "cupy" else cuda).OutOfMemoryError

    def short(*_, **__):
        raise error("CUDA out of memory.\nTried to allocate more")

    monkeypatch.setattr(device.module, "empty", short)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.choice == f"{device.name}.matmul"
    assert told.why.startswith("memory is short" if when == "later" else "no candidate could run: CUDA out of memory. ")


def test_what_jax_cannot_place_is_left_to_its_product(with_jax, monkeypatch):
    a, b, exact = operands(with_jax)
    with_jax.dispatcher.matmul(a, b)

    def short(_):
        raise with_jax.module.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(with_jax.module, "block_until_ready", short)
    found, told = with_jax.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.choice == "jax.numpy.matmul"


@pytest.mark.parametrize("when", ["prepared", "launched"])
def test_a_kernel_that_refuses_leaves_it_to_the_vendor(device, monkeypatch, when):
    a, b, exact = operands(device)
    device.dispatcher.matmul(a, b)

    def refuse(*_):
        raise KernelError("winograd: such a stride\ncannot be")

    monkeypatch.setattr(
        "evaluate.fused.FusedKernel.launcher", refuse if when == "prepared" else lambda *_: lambda *_: refuse()
    )
    out = device.array(np.zeros((M, N), BF16))
    _, told = device.dispatcher.matmul(a, b, out, explain=True)
    assert device.trials == 1 and told.choice == f"{device.name}.matmul"
    assert told.why == "the kernel refused: winograd: such a stride cannot be"
    if device.name == "cupy":  # the stand of Torch has no out
        assert (values(out) == exact).all()


def test_planes_that_a_kernel_refuses_are_not_made(device, monkeypatch):
    def refuse(*_):
        raise KernelError("no such planes")

    monkeypatch.setattr("evaluate.fused.FusedKernel.pack", refuse)
    a, b, exact = operands(device)
    packed = device.dispatcher.pack(b, rows=M)
    assert packed.planes is None and (values(device.dispatcher.matmul(a, packed)) == exact).all()


def test_a_limit_that_keeps_a_trial_from_being_made_costs_none(device, monkeypatch):
    monkeypatch.setattr(trials, "MOST_TRIALS", 1)
    a, b, exact = operands(device)
    tiny = device.array(draw(1, 1))
    monkeypatch.setattr("evaluate.buckets.SMALLEST_SIDE", 2)
    device.dispatcher.matmul(tiny, tiny)
    for limit in (1, 2, 3):
        told = device.dispatcher.matmul(a, b, max_workspace=limit, explain=True)[1]
        assert told.choice == f"{device.name}.matmul" and told.why.endswith("exceeds max_workspace")
    assert device.trials == 0 and device.dispatcher.known(tiny, tiny) is not None
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.choice.startswith("winograd") and device.trials == 1


def test_what_a_captured_product_needs_besides_is_kept(tmp_path, monkeypatch):
    made = Device(tmp_path, monkeypatch, "cupy")
    dispatcher, born = made.dispatcher, []
    wide, b, square = made.array(draw(M, 2 * K)), made.array(draw(K, N, seed=1)), made.array(draw(N, N))
    three = made.array(draw(2, M, K))
    made.rows += [{**made.rows[0], "M": 2 * M}, {**made.rows[0], "M": N, "N": N, "K": N}]
    calls = {  # and how many arrays it makes beside the workspace
        "a copy": (lambda: dispatcher.matmul(wide[:, ::2], b, out), 1),
        "a new target": (lambda: dispatcher.matmul(square, square, square), 1),
        "a folded result": (lambda: dispatcher.matmul(three, b, folded), 1),
        "folded rows": (lambda: dispatcher.matmul(three.transpose(1, 0, 2), b, turned), 1),
        "a stack": (lambda: dispatcher.matmul(stack, stack, stack), 1),
    }
    out, folded = made.array(np.zeros((M, N), BF16)), made.array(np.zeros((2, M, N), BF16))
    turned, stack = made.array(np.zeros((M, 2, N), BF16)), made.array(draw(3, N, N))
    for _ in range(2):  # trials forget decisions
        for call, _ in calls.values():
            call()
    assert all(one.product is not None for one in dispatcher._decisions.values()) and len(dispatcher._decisions) == 5

    def watched(make):
        def new(*arguments, **options):
            array = make(*arguments, **options)
            born.append(weakref.ref(array))
            return array

        return new

    for name in ("empty", "ascontiguousarray"):
        monkeypatch.setattr(made.module, name, watched(getattr(made.module, name)))
    for capturing in (False, True):
        made.stream.capturing = capturing
        for what, (call, least) in calls.items():
            born.clear()
            call()
            gc.collect()
            alive = [one() for one in born if one() is not None]
            assert len(born) > least and len(alive) == (len(born) if capturing else 0), what
    assert library_of(type(b))._captured
