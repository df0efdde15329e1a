"""The checks of the GPU tests: they accept a right kernel and find mistakes, shown on a kernel for host memory."""

import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate.fused import open_fused
from tests.evaluate import fused_gpu
from tests.evaluate.fused_host import HostModule, library
from tests.evaluate.test_fused_gpu import NAMES, PADS

SHAPES = [(1, 1, 1), (7, 5, 300), (31, 17, 83)]


def run(built, layout="nn", integers=False):
    with open_fused(built) as kernel:
        one = fused_gpu.Opened(plan(winograd()), fused_gpu.variant("bf16", layout=layout), kernel)
        for shape in SHAPES:
            for gap, alpha, beta in PADS:
                fused_gpu.check(one, shape, gap, *((1.0, 1.0) if integers else (alpha, beta)), integers=integers)


@pytest.fixture(autouse=True)
def on_host(monkeypatch):
    module = HostModule()
    monkeypatch.setattr(fused_gpu, "array_module", lambda: module)
    fused_gpu.drawn.cache_clear()
    yield
    fused_gpu.drawn.cache_clear()  # products of a device are not those of the host


@pytest.mark.parametrize(("layout", "flags"), [("nn", []), ("nt", ["-DTRANSPOSED_B=1"])])
def test_a_right_kernel_passes(layout, flags, tmp_path):
    built = library(tmp_path, "right", *flags)
    run(built, layout)
    run(built, layout, integers=True)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("mistake", ["kRow", "kGap", "kTerm", "kPlanes", "kDirty"])
def test_each_mistake_is_found(mistake, integers, tmp_path):
    built = library(tmp_path, mistake, f"-DMISTAKE={mistake}")
    with pytest.raises(AssertionError):
        run(built, integers=integers)


def test_the_schemes_are_many_and_of_every_orientation():
    found = {name: fused_gpu.the_plan(name) for name in NAMES}
    assert len(found) >= 20
    ranks = {one.rank for one in found.values()}
    assert {1, 7, 49} <= ranks and len(ranks) >= 12
    assert len({tuple(sorted(one.format)) for one in found.values()}) < len({one.format for one in found.values()})
