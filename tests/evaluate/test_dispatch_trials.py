"""What trials speak for, and what they change: buckets, alignment, refusals, other threads and processes."""

import gc
import threading
import weakref

import numpy as np
import pytest

from evaluate import trials
from evaluate.decision import shortlist
from evaluate.dispatch import Dispatcher
from evaluate.verdicts import Verdicts
from tests.evaluate import fused_host
from tests.evaluate.dispatch_stands import BF16, K, M, N, device, draw, operands, row, values

__all__ = ["device"]


def test_another_process_does_not_try_again(device, tmp_path):
    a, b, exact = operands(device)
    device.dispatcher.matmul(a, b)
    other = Dispatcher(device.plan_of, lambda *_: device.rows, Verdicts(tmp_path / "verdicts"))
    assert other.matmul(a, b, explain=True)[1].choice.startswith("winograd") and device.trials == 1
    for file in (tmp_path / "verdicts").iterdir():
        file.write_text("damaged")
    third = Dispatcher(device.plan_of, lambda *_: device.rows, Verdicts(tmp_path / "verdicts"))
    assert (values(third.matmul(a, b)) == exact).all() and device.trials == 2


def test_shapes_of_a_bucket_share_a_trial(device):
    for rows in range(36, 41):
        a, b = draw(rows, K), draw(K, N, seed=1)
        found = device.dispatcher.matmul(device.array(a), device.array(b))
        assert (values(found) == a.astype(float) @ b.astype(float)).all()
    assert device.trials == 1


def test_trials_have_an_end(device, monkeypatch):
    monkeypatch.setattr(trials, "MOST_TRIALS", 1)
    device.rows[:] = [row(), row((80, N, K))]
    a, b = draw(80, K), device.array(draw(K, N, seed=1))
    device.dispatcher.matmul(device.array(a[:M].copy()), b)
    told = device.dispatcher.matmul(device.array(a), b, explain=True)[1]
    assert device.trials == 1 and "1 trials are the most" in told.why


def test_rows_that_keep_changing_are_looked_at_once_for_a_bucket(device, monkeypatch):
    asked = []
    real = shortlist
    monkeypatch.setattr("evaluate.lists.shortlist", lambda *given: asked.append(given) or real(*given))
    b = device.array(draw(K, N, seed=1))
    for m in range(33, 41):
        device.dispatcher.matmul(device.array(draw(m, K)), b)
    assert len(asked) == 1 and device.trials == 1


def test_without_tuning_what_is_unknown_is_left_to_the_vendor(device):
    a, b, _ = operands(device)
    assert "tune is off" in device.dispatcher.matmul(a, b, tune=False, explain=True)[1].why
    device.dispatcher.matmul(a, b)
    assert device.dispatcher.matmul(a, b, tune=False, explain=True)[1].choice.startswith("winograd")


def test_a_wrong_kernel_never_runs(device, tmp_path):
    device.libraries["nn"] = fused_host.library(tmp_path, "wrong", "-DMISTAKE=kRow")
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and "not finite" in told.why and told.choice == f"{device.name}.matmul"


def test_a_missing_compiler_leaves_it_to_the_vendor(device, monkeypatch):
    from codegen.build import MissingCompilerError

    def missing(*_):
        raise MissingCompilerError("nvcc was not found; install the CUDA toolkit")

    monkeypatch.setattr("evaluate.opened.build_library", missing)
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and "nvcc was not found" in told.why


def test_threads_share_one_decision(device):
    a, b, exact = operands(device)
    found, failed = [], []

    def work():
        try:
            for _ in range(20):
                found.append((values(device.dispatcher.matmul(a, b)) == exact).all())
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and all(found) and len(found) == 160 and device.trials == 1


def test_a_small_product_does_not_wait_for_the_trial_of_another(device, monkeypatch):
    began, go_on = threading.Event(), threading.Event()
    real = device.compare

    def compare(*arguments, **options):
        began.set()
        assert go_on.wait(30)
        return real(*arguments, **options)

    monkeypatch.setattr("evaluate.trial.compare", compare)
    monkeypatch.setattr("evaluate.buckets.SMALLEST_SIDE", 4)
    a, b, _ = operands(device)
    thread = threading.Thread(target=device.dispatcher.matmul, args=(a, b))
    thread.start()
    try:
        assert began.wait(30)
        small = device.array(draw(2, 2))
        assert "too small" in device.dispatcher.matmul(small, small, explain=True)[1].why
        few, many = device.array(draw(2, 200)), device.array(draw(200, 72))
        assert "looking for a tile" in device.dispatcher.matmul(few, many, explain=True)[1].why
    finally:
        go_on.set()
        thread.join()


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
