"""What guards, scaling and finer planes do to a choice, by stands of a device."""

import numpy as np
import pytest

from evaluate.dispatch import Dispatcher
from evaluate.verdicts import Verdicts
from tests.evaluate.dispatch_stands import BF16, K, M, N, device, operands, row, values

__all__ = ["device"]


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
