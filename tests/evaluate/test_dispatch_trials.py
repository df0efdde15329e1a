"""What trials speak for, and what they change: alignment, refusals, other threads, processes and children."""

import gc
import threading
import weakref

import numpy as np
import pytest

from evaluate.dispatch import Dispatcher
from evaluate.verdicts import Verdicts
from tests.evaluate.dispatch_stands import BF16, SHAPE, device, draw, row, values

M, N, K = SHAPE
__all__ = ["device"]


def operands(device, *lead):
    a, b = draw(*lead, M, K), draw(K, N, seed=1)
    return device.array(a), device.array(b), a.astype(np.float64) @ b.astype(np.float64)


def test_a_trial_on_rows_that_are_not_aligned_does_not_speak_for_others(device):
    a, b, exact = operands(device)
    spare = np.zeros(M * K + 1, BF16)
    apart, shifted, wide = np.zeros((M, K + 1), BF16)[:, :K], spare[1:].reshape(M, K), np.zeros((M, N + 1), BF16)
    for x in (apart, shifted):
        x[...] = values(a)
    unaligned = [
        lambda: device.dispatcher.matmul(device.array(apart), b, explain=True),
        lambda: device.dispatcher.matmul(a, b, device.array(wide[:, :N]), explain=True),
        lambda: device.dispatcher.matmul(a, device.array(draw(K, N - 1, seed=2)), explain=True),  # of the same bucket
    ]
    device.ratio = 0.9
    for call in unaligned:
        assert call()[1].choice == f"{device.name}.matmul"
    assert device.trials == 3
    left = device.array(shifted)  # by its address alone, which no decision may be about
    for _ in range(2):
        assert device.dispatcher.matmul(left, b, explain=True)[1].choice == f"{device.name}.matmul"
    assert device.trials == 3
    device.ratio = 1.2
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.choice.startswith("winograd") and device.trials == 4
    for call in unaligned:
        assert call()[1].choice == f"{device.name}.matmul"


def test_a_result_that_is_not_aligned_is_so_in_its_trial(device, monkeypatch):
    a, b, _ = operands(device)
    made, empty = [], device.module.empty

    def seen(shape, *arguments, **options):
        made.append(shape)
        return empty(shape, *arguments, **options)

    monkeypatch.setattr(device.module, "empty", seen)
    device.dispatcher.matmul(a, b, device.array(np.zeros((M, N + 1), BF16)[:, :N]))
    assert (M, N + 1) in made and (M, N) not in made


def test_a_refusal_gives_way_to_what_another_process_measures(device, tmp_path, monkeypatch):
    from codegen.build import MissingCompilerError

    a, b, exact = operands(device)
    with monkeypatch.context() as patch:

        def missing(*_):
            raise MissingCompilerError("nvcc was not found; install the CUDA toolkit")

        patch.setattr("evaluate.opened.build_library", missing)
        for _ in range(2):
            assert "nvcc" in device.dispatcher.matmul(a, b, explain=True)[1].why
        assert "nvcc" in device.dispatcher.matmul(a[:38], b, explain=True)[1].why
    other = Dispatcher(device.plan_of, lambda *_: device.rows, Verdicts(tmp_path / "verdicts"))
    assert other.matmul(a, b, explain=True)[1].choice.startswith("winograd")
    found, told = device.dispatcher.matmul(a[:37], b, explain=True)  # no decision yet, and of the bucket
    assert told.choice.startswith("winograd") and (values(found) == exact[:37]).all() and device.trials == 1


def test_what_was_decided_before_a_trial_is_not_kept_after_it(device, monkeypatch):
    a, b, _ = operands(device)
    real = device.dispatcher._decider.decide

    def decide(*arguments):
        decision = real(*arguments)
        if not arguments[-1].tune:  # another thread measures before this one stores what it decided
            device.dispatcher.matmul(a, b)
        return decision

    monkeypatch.setattr(device.dispatcher._decider, "decide", decide)
    assert "tune is off" in device.dispatcher.matmul(a, b, tune=False, explain=True)[1].why
    assert device.dispatcher.matmul(a, b, tune=False, explain=True)[1].choice.startswith("winograd")


def test_rivals_wait_for_whoever_compiles(device):
    a, b, _ = operands(device)
    found = []
    thread = threading.Thread(target=lambda: found.extend(device.dispatcher.rivals(a, b, 1)))
    with device.dispatcher._decider._lock:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive() and not device.built
    thread.join()
    assert [name.split(",")[0] for name, _ in found] == ["winograd"]


def test_a_dispatcher_that_nobody_has_is_forgotten(tmp_path):
    made = Dispatcher(lambda *_: None, lambda *_: [], Verdicts(tmp_path))
    kept = [weakref.ref(made._decider), weakref.ref(made._decider._trials._kernels)]
    del made
    gc.collect()
    assert [one() for one in kept] == [None, None]


@pytest.mark.parametrize(("rows", "predicted"), [(40, 1.1), (33, 1.05)])
def test_a_prediction_is_of_the_shape_where_its_trial_was_at_another(device, monkeypatch, rows, predicted):
    monkeypatch.setattr(
        "evaluate.machine.Machine.predicted", lambda machine, plan, one, shape, dtype: 1.1 if shape[0] == 40 else 1.05
    )
    device.rows[:] = [row()]
    a, b, _ = operands(device)
    device.dispatcher.matmul(a, b)
    told = device.dispatcher.matmul(a[:rows], b, explain=True)[1]
    assert told.choice.startswith("winograd") and told.predicted_ratio == predicted
