"""Operands of a device of every kind, by stands of its libraries and a kernel for host memory."""

import numpy as np
import pytest

from evaluate.dispatch import Dispatcher
from evaluate.verdicts import Verdicts
from tests.evaluate.dispatch_fakes import ArrayImpl, Tensor
from tests.evaluate.dispatch_stands import BF16, SHAPE, K, M, N, device, draw, operands, row, values, with_jax

__all__ = ["device", "with_jax"]


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
