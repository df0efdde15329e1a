"""The dispatch with arrays of a device, by stands of CuPy and PyTorch and a kernel for host memory."""

import threading

import numpy as np
import pytest

from evaluate import trials
from evaluate.decision import shortlist
from evaluate.dispatch import Dispatcher
from evaluate.verdicts import Verdicts
from tests.evaluate import fused_host
from tests.evaluate.dispatch_stands import BF16, SHAPE, ArrayImpl, Tensor, device, draw, row, values, with_jax

M, N, K = SHAPE
__all__ = ["device", "with_jax"]


def operands(device, *lead):
    a, b = draw(*lead, M, K), draw(K, N, seed=1)
    return device.array(a), device.array(b), a.astype(np.float64) @ b.astype(np.float64)


def test_a_scheme_runs_where_it_won_its_trial(device):
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert type(found) is type(a) and (values(found) == exact).all()
    assert told.choice.startswith("winograd") and told.measured_ratio == 1.2 and told.error_factor == 4.0
    assert told.workspace_bytes == 8192 and told.copied == () and told.repaid_after >= 1
    assert "measured 1.200 [1.190, 1.210]; 4.00 times the vendor's error; repaid after" in str(told)
    assert (values(device.dispatcher.matmul(a, b)) == exact).all() and device.trials == 1


def test_the_vendor_runs_where_no_scheme_won(device):
    device.ratio = 1.005
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all()
    assert told.choice == f"{device.name}.matmul" and "no difference" in told.why and told.repaid_after is None


def test_a_guard_is_another_kernel_with_a_trial_of_its_own(device):
    a, b, exact = operands(device)
    device.dispatcher.matmul(a, b)
    found, told = device.dispatcher.matmul(a, b, guard=True, explain=True)
    assert (values(found) == exact).all() and "guard=1" in told.choice and device.trials == 2
    assert [dict(one.options).get("guard") for one in device.built] == [None, 1]
    packed = device.dispatcher.pack(b)
    assert "guard=1" in device.dispatcher.matmul(a, packed, guard=True, explain=True)[1].choice
    assert "guard" not in device.dispatcher.matmul(a, packed, explain=True)[1].choice


def test_a_guard_is_not_timed_on_what_it_would_repair(device, tmp_path):
    a, b, exact = operands(device)
    spoiled = values(a).copy()
    spoiled[3, 4] = np.inf
    with np.errstate(invalid="ignore"):
        told = device.dispatcher.matmul(device.array(spoiled.astype(BF16)), b, guard=True, explain=True)[1]
    assert told.choice == f"{device.name}.matmul" and "guard cannot be timed" in told.why and device.trials == 0
    other = Dispatcher(device.plan_of, lambda *_: device.rows, Verdicts(tmp_path / "verdicts"))
    found, told = other.matmul(a, b, guard=True, explain=True)
    assert (values(found) == exact).all() and "guard=1" in told.choice and device.trials == 1


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


def test_a_transposed_weight_is_read_where_it_lies(device):
    a, weight = draw(M, K), draw(N, K, seed=1)
    b = device.array(weight).T
    found, told = device.dispatcher.matmul(device.array(a), b, explain=True)
    assert (values(found) == a.astype(float) @ weight.T.astype(float)).all()
    assert (told.layout, told.copied) == ("nt", ()) and {one.layout for one in device.built} == {"nt"}


def test_strided_operands_are_copied_where_no_layout_fits(device):
    a, b, _ = operands(device)
    wide = device.array(draw(M, 2 * K))
    found, told = device.dispatcher.matmul(wide[:, ::2], b, explain=True)
    assert (values(found) == values(wide)[:, ::2] @ values(b)).all() and told.choice.startswith("winograd")
    rows = device.array(draw(2 * M, K))
    assert (values(device.dispatcher.matmul(rows[::2], b)) == values(rows)[::2] @ values(b)).all()


def test_leading_dimensions_are_folded_or_looped(device):
    a, b, exact = operands(device, 2, 3)
    device.rows[:] = [row((6 * M, N, K)), row()]
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert found.shape == (2, 3, M, N) and (values(found) == exact).all() and told.shape == (6 * M, N, K)
    stack = draw(3, K, N, seed=2)
    found, told = device.dispatcher.matmul(a, device.array(stack), explain=True)
    assert (values(found) == values(a) @ stack.astype(float)).all() and told.shape == SHAPE
    assert told.choice.startswith("winograd")


def test_stacks_that_no_scheme_wins_are_left_to_the_vendor(device):
    device.ratio = 0.9
    a, b = device.array(draw(2, 1, M, K)), device.array(draw(3, K, N, seed=2))
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert found.shape == (2, 3, M, N) and (values(found) == values(a) @ values(b)).all()
    assert told.choice == f"{device.name}.matmul" and "slower" in told.why


def test_out_is_written_even_where_it_overlaps(device):
    a, b, exact = operands(device)
    out = device.array(np.zeros((M, N), BF16))
    assert device.dispatcher.matmul(a, b, out) is out and (values(out) == exact).all()
    wide = device.array(np.zeros((M, 2 * N), BF16))
    device.dispatcher.matmul(a, b, wide[:, ::2])
    assert (values(wide)[:, ::2] == exact).all() and not values(wide)[:, 1::2].any()
    square = device.array(draw(N, N))
    device.rows[:] = [row((N, N, N))]
    wanted = values(square) @ values(square)
    assert device.dispatcher.matmul(square, square, square, explain=True)[1].choice.startswith("winograd")
    assert (values(square) == wanted).all()
    three = device.array(np.zeros((2, M, N), BF16))
    device.rows[:] = [row((2 * M, N, K))]
    both = device.array(draw(2, M, K))
    assert device.dispatcher.matmul(both, b, three) is three and (values(three) == values(both) @ values(b)).all()


def test_rows_that_keep_changing_are_looked_at_once_for_a_bucket(device, monkeypatch):
    asked = []
    real = shortlist
    monkeypatch.setattr("evaluate.lists.shortlist", lambda *given: asked.append(given) or real(*given))
    b = device.array(draw(K, N, seed=1))
    for m in range(33, 41):
        device.dispatcher.matmul(device.array(draw(m, K)), b)
    assert len(asked) == 1 and device.trials == 1


def test_a_packed_operand_is_used_with_its_planes(device, tmp_path):
    a, b, exact = operands(device)
    packed = device.dispatcher.pack(b, rows=M)
    assert (packed.shape, packed.dtype) == ((K, N), "bf16") and "b_constant" in packed.scheme
    found, told = device.dispatcher.matmul(a, packed, explain=True)
    assert (values(found) == exact).all() and "b_constant" in told.choice
    assert device.trials == 1
    with pytest.raises(AttributeError):
        packed.planes = None
    # Worth a trial is not enough: planes take memory before anything is tried.
    rows = [row(ratio=0.98, operands="b_constant"), row(ratio=0.9)]
    other = Dispatcher(device.plan_of, lambda *_: rows, Verdicts(tmp_path / "others"))
    plain = other.pack(b, rows=M)
    assert plain.scheme == "" and (values(other.matmul(a, plain)) == exact).all()
    assert device.dispatcher.pack(b, rows=M, max_workspace=0).planes is None


def test_a_packed_transposed_weight_keeps_its_layout(device):
    a, weight = draw(M, K), draw(N, K, seed=1)
    packed = device.dispatcher.pack(device.array(weight).T, rows=M)
    assert packed.layout == "nt" and packed.planes is not None
    found = device.dispatcher.matmul(device.array(a), packed)
    assert (values(found) == a.astype(float) @ weight.T.astype(float)).all()


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


def test_a_device_that_kernels_cannot_reach_is_left_to_the_vendor(device, monkeypatch):
    from evaluate.device import DeviceMissingError

    def missing(self, x):
        raise DeviceMissingError("no usable GPU: CuPy cannot be imported")

    monkeypatch.setattr(f"evaluate.array_{device.name}.{device.name.title()}.info", missing, raising=False)
    a, b, exact = operands(device)
    found, told = device.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.why.startswith("kernels cannot reach the device")
    assert device.dispatcher.pack(b, rows=M).planes is None


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


def test_what_cannot_be_meant_is_refused_in_one_sentence(device):
    a, b, _ = operands(device)
    with pytest.raises(ValueError, match="out must have the shape"):
        device.dispatcher.matmul(a, b, device.array(np.zeros((M, M), BF16)))
    with pytest.raises(TypeError, match="one library"):
        device.dispatcher.matmul(a, np.zeros((K, N), BF16))
    with pytest.raises(TypeError, match="one library"):
        device.dispatcher.matmul(a, b, np.zeros((M, N), BF16))
    with pytest.raises(ValueError, match="one type"):
        device.dispatcher.matmul(a, device.array(np.zeros((K, N), np.float16)))
    if device.name == "torch":
        grown = Tensor(draw(M, K), requires_grad=True)
        with pytest.raises(ValueError, match="no_grad"):
            device.dispatcher.matmul(grown, b)
        with pytest.raises(ValueError, match="no_grad"):
            device.dispatcher.pack(grown)
        device.module.is_grad_enabled = lambda: False
        device.dispatcher.matmul(grown, b)
        with pytest.raises(ValueError, match="on one device, not GPU 0 and the host"):
            device.dispatcher.matmul(a, Tensor(draw(K, N), device="cpu"))


def test_jax_waits_for_its_operands_and_gets_its_result_by_dlpack(with_jax):
    a, b, exact = operands(with_jax)
    found, told = with_jax.dispatcher.matmul(a, b, explain=True)
    assert type(found) is ArrayImpl and (values(found) == exact).all() and told.choice.startswith("winograd")
    assert with_jax.module.waited and with_jax.module.taken[-1] == (M, N)
    packed = with_jax.dispatcher.pack(b, rows=M)
    found, told = with_jax.dispatcher.matmul(a, packed, explain=True)
    assert (values(found) == exact).all() and "b_constant" in told.choice


def test_jax_folds_leading_dimensions_and_keeps_stacks(with_jax):
    with_jax.rows[:] = [row((6 * M, N, K)), row()]
    a, b, exact = operands(with_jax, 2, 3)
    found, told = with_jax.dispatcher.matmul(a, b, explain=True)
    assert type(found) is ArrayImpl and found.shape == (2, 3, M, N) and (values(found) == exact).all()
    assert told.choice.startswith("winograd")
    stack = with_jax.array(draw(3, K, N, seed=2))
    found, told = with_jax.dispatcher.matmul(a, stack, explain=True)
    assert (values(found) == values(a) @ values(stack)).all() and "left to jax" in told.why


def test_arrays_of_jax_on_several_devices_are_left_to_jax(with_jax, monkeypatch):
    monkeypatch.setattr(ArrayImpl, "places", 2)
    a, b, exact = operands(with_jax)
    found, told = with_jax.dispatcher.matmul(a, b, explain=True)
    assert (values(found) == exact).all() and told.choice == "jax.numpy.matmul" and not with_jax.built


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
    finally:
        go_on.set()
        thread.join()


def test_a_result_that_shares_memory_with_an_operand_is_right_whether_or_not_others_were_met_before(device):
    a, b, exact = operands(device)
    apart = device.array(np.zeros((M, N), BF16))
    device.dispatcher.matmul(a, b, apart)
    assert (values(apart) == exact).all()
    memory = np.zeros(M * K + M * N, BF16)  # the same strides, but C begins inside A
    left, out = memory[: M * K].reshape(M, K), memory[8 : 8 + M * N].reshape(M, N)
    left[...] = values(a).astype(BF16)
    expected = left.astype(np.float64) @ values(b)
    shared = device.array(out)
    assert device.dispatcher.matmul(device.array(left), b, shared) is shared
    assert (values(shared) == expected).all() and device.trials == 1


def test_uneven_rows_are_scaled_where_a_sample_shows_them(device):
    a, b, exact = operands(device)
    assert "scale" not in device.dispatcher.matmul(a, b, scale="auto", explain=True)[1].choice
    assert "scale=1" in device.dispatcher.matmul(a, b, scale=True, explain=True)[1].choice
    rows = values(a) * np.where(np.arange(M) % 5, 1.0, 2.0**10)[:, None]
    left, twice = device.array(rows.astype(BF16)), device.array(np.concatenate([values(b)] * 2, 1).astype(BF16))
    device.rows += [row((M, 2 * N, K)), row((M, 2 * N, K), operands="b_constant")]
    found, told = device.dispatcher.matmul(left, twice, scale="auto", explain=True)
    assert "scale=1" in told.choice and (values(found)[:, :N] == rows @ values(b)).all()
    # Planes that were made without scaling cannot be used with it.
    told = device.dispatcher.matmul(a, device.dispatcher.pack(b, rows=M), scale=True, explain=True)[1]
    assert told.choice == f"{device.name}.matmul" and "packed without scale" in told.why
    packed = device.dispatcher.pack(b, rows=M, scale=True)
    assert "scale=1" in packed.scheme
    assert "scale=1" in device.dispatcher.matmul(a, packed, scale=True, explain=True)[1].choice
    for value in ("yes", 1):
        with pytest.raises(ValueError, match=f"scale must be True, False or 'auto', not {value!r}"):
            device.dispatcher.matmul(a, b, scale=value)
    # A packed operand saw columns of B alone; the rows of A are looked at with each product.
    plain = device.dispatcher.pack(b, rows=M, scale="auto")
    assert "scale" not in plain.scheme
    assert "packed without scale" in device.dispatcher.matmul(left, plain, scale="auto", explain=True)[1].why


@pytest.mark.parametrize(("factor", "planes"), [(1.0, "fp16"), (2.0**12, "bf16"), (2.0**-20, "bf16")])
def test_planes_of_fp16_are_taken_where_the_range_allows(device, factor, planes):
    a, b, exact = operands(device)
    device.rows += [row(plane_dtype="fp16"), row(plane_dtype="fp16", operands="b_constant")]
    left = device.array((values(a) * factor).astype(BF16))
    found, told = device.dispatcher.matmul(left, b, plane_dtype="auto", explain=True)
    assert f"{planes} planes" in told.choice and (values(found) == exact * factor).all()
    packed = device.dispatcher.pack(b, rows=M, plane_dtype="auto")  # sees b alone
    told = device.dispatcher.matmul(left, packed, plane_dtype="auto", explain=True)[1]
    if planes == "fp16":
        assert "fp16 planes, b_constant" in told.choice
    else:
        assert told.choice == f"{device.name}.matmul" and "may overflow" in told.why
