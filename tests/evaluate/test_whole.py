"""Products of any strides and leading dimensions by one kernel of matrices, which is prepared once for each kind."""

import numpy as np
import pytest

from evaluate.fused import FusedKernel
from tests.evaluate.dispatch_stands import BF16, SHAPE, Device, draw, row, values

M, N, K = SHAPE


@pytest.fixture
def device(tmp_path, monkeypatch):
    return Device(tmp_path, monkeypatch, "cupy")


@pytest.fixture
def prepared(monkeypatch):
    """The sizes and leading dimensions for which launches were prepared."""
    found, real = [], FusedKernel.launcher

    def launcher(kernel, sizes, leading):
        found.append((sizes, leading))
        return real(kernel, sizes, leading)

    monkeypatch.setattr(FusedKernel, "launcher", launcher)
    return found


def test_a_launch_is_prepared_once_for_arrays_of_one_kind(device, prepared):
    b = device.array(draw(K, N, seed=1))
    for seed in range(3):
        a = device.array(draw(M, K, seed=seed))
        assert (values(device.dispatcher.matmul(a, b)) == values(a) @ values(b)).all()
    assert len(prepared) == 2  # for the trial and for what was decided


def test_other_strides_are_other_products(device, prepared):
    a, b = device.array(draw(M, K)), device.array(draw(K, N, seed=1))
    exact = values(a) @ values(b)
    for wider in (0, 8, 16):
        wide, out = device.array(draw(M, K + wider)), device.array(np.zeros((M, N + 2 * wider), BF16))
        wide[:, :K] = a
        device.dispatcher.matmul(wide[:, :K], b, out[:, :N])
        assert (values(out)[:, :N] == exact).all() and not values(out)[:, N:].any()
        assert prepared[-1] == (SHAPE, (K + wider, N, N + 2 * wider))


def test_operands_that_are_copied_are_prepared_once_too(device, prepared):
    b, out = device.array(draw(K, N, seed=1)), device.array(np.zeros((M, N), BF16))
    for seed in range(3):
        wide = device.array(draw(M, 2 * K, seed=seed))
        device.dispatcher.matmul(wide[:, ::2], b, out)
        assert (values(out) == values(wide)[:, ::2] @ values(b)).all()
    assert len(prepared) == 2


def test_a_result_over_a_copied_operand_goes_by_new_memory(device):
    memory = device.array(draw(4 * M * K))
    wide, b = memory[: 2 * M * K].reshape(M, 2 * K), device.array(draw(K, N, seed=1))
    apart, over = memory[2 * M * K :][: M * N].reshape(M, N), memory[: M * N].reshape(M, N)
    for seed, out in enumerate((apart, over, apart)):
        memory[...] = draw(4 * M * K, seed=seed)
        exact = values(wide)[:, ::2] @ values(b)
        device.dispatcher.matmul(wide[:, ::2], b, out)
        assert (values(out) == exact).all()


def test_a_stack_is_prepared_once_and_where_it_lies_over_an_operand_once_more(device, prepared):
    memory = device.array(draw(4, N, 2 * N))
    device.rows[:] = [row((N, N, N))]
    a, b = memory[:3, :, :N], device.array(draw(3, N, N, seed=2))
    apart = device.array(np.zeros((3, N, 2 * N), BF16))[:, :, :N]
    for seed, out in enumerate((apart, a, apart, memory[1:, :, :N])):  # of equal strides
        memory[...] = draw(4, N, 2 * N, seed=seed)
        exact = values(a) @ values(b)
        assert device.dispatcher.matmul(a, b, out) is out and (values(out) == exact).all()
    assert len(prepared) == 3  # for the trial, in place, and in new memory
    assert {leading for _, leading in prepared[1:]} == {(2 * N, N, 2 * N), (2 * N, N, N)}


def test_leading_dimensions_come_back_in_the_array_of_the_caller(device, prepared):
    device.rows[:] = [row((6 * M, N, K))]
    b = device.array(draw(K, N, seed=1))
    out = device.array(np.zeros((2, 3, M, N), BF16))
    for seed in range(2):
        a = device.array(draw(2, 3, M, K, seed=seed))
        assert device.dispatcher.matmul(a, b, out) is out and (values(out) == values(a) @ values(b)).all()
    turned = device.array(draw(3, 2, M, K)).transpose(1, 0, 2, 3)
    assert (values(device.dispatcher.matmul(turned, b, out)) == values(turned) @ values(b)).all()
    assert {sizes for sizes, _ in prepared} == {(6 * M, N, K)}
