"""Measuring the device at hand: the host here, a GPU where there is one."""

import pytest

from evaluate.device import require_gpu
from evaluate.device_model import device_model, keep
from evaluate.measure_device import measure_device


def check(figures, tmp_path, lowest):
    assert figures["copy"] > lowest
    for rates in figures["gemm"].values():
        assert all(rate > 0 for _, rate in rates)
    path = keep(figures, tmp_path)
    found = device_model(path.stem, tmp_path)
    assert found.copy == figures["copy"] and found.sms == figures["sms"]
    return found


def test_the_host_is_measured_and_kept(tmp_path):
    figures = measure_device(None, (64, 128))
    found = check(figures, tmp_path, 1e8)
    assert set(figures["gemm"]) == {"fp32", "fp64"} and not found.tiled
    assert [size for size, _ in found.gemm["fp64"]] == [64, 128]


@pytest.mark.gpu
def test_the_gpu_is_measured_and_kept(tmp_path):
    figures = measure_device(require_gpu(), (1024, 4096))
    found = check(figures, tmp_path, 1e11)
    assert set(figures["gemm"]) == {"fp16", "bf16", "fp32", "fp64"} and found.tiled
    half = dict(figures["gemm"]["bf16"])
    assert half[4096] > half[1024] / 2 and half[4096] > dict(figures["gemm"]["fp32"])[4096]
