"""Inputs and errors on the GPU: as on the CPU, and the kernels as their emulation."""

import functools

import numpy as np
import pytest

from catalog.known import strassen, winograd
from codegen.plan import plan
from evaluate.accuracy import errors
from evaluate.attribution import attribution
from evaluate.bench import bench
from evaluate.operands import DISTRIBUTIONS, draw
from evaluate.variants import Wanted

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_errors_are_those_of_the_cpu(dtype, distribution):
    from evaluate.device import array_module

    xp = array_module()
    rng = xp.random.default_rng(1)
    a, b = (draw(xp, rng, size, dtype, distribution, side) for side, size in (("a", (130, 90)), ("b", (90, 70))))
    c = draw(xp, rng, (130, 70), dtype)
    here, there = (
        errors(module, [module.asarray(x)], *operands, dtype, np.arange(0, 130, 3), (2, 2, 2))[0]
        for module, x, operands in ((xp, c, (a, b)), (np, c.get(), (a.get(), b.get())))
    )
    for name in ("fro", "max", "componentwise", "normalised", "ulp", "cancellation", "mixed"):
        assert getattr(here, name) == pytest.approx(getattr(there, name), rel=1e-6, nan_ok=True)
    assert (here.missing, here.spread, here.rows) == (there.missing, there.spread, there.rows)


SCHEMES = {"strassen": strassen(), "winograd": winograd()}


@functools.cache
def emulated(scheme, dtype, size):
    """The errors of all arms, which take seconds to emulate."""
    return {row["arm"]: row for row in attribution(plan(SCHEMES[scheme]), (size,) * 3, dtype)}


@pytest.mark.parametrize(("scheme", "size"), [("strassen", 1024), ("winograd", 1024), ("winograd", 4096)])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("path", "arm"), [("fused", "fused"), ("cuda", "both")])
def test_kernels_have_the_errors_of_their_emulation(path, arm, dtype, scheme, size):
    wanted = Wanted(path)
    found = bench(
        [plan(SCHEMES[scheme])], [(size,) * 3], [dtype], device="gpu", wanted=wanted, pairs=1, seeds=2, load=False
    )
    assert not found["skipped"], found["skipped"]
    (measured,) = found["rows"]
    assert measured["correct"] and measured["error_seeds"] == 2
    for key in ("error_fro_ratio", "error_fro"):
        assert measured[key] == pytest.approx(emulated(scheme, dtype, size)[arm][key], rel=0.1)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_right_kernels_pass_on_every_distribution(distribution):
    wanted = Wanted("fused", layouts=("nn", "tt"))
    shape = (1000, 904, 520)
    found = bench(
        [plan(winograd())],
        [shape],
        ["bf16"],
        device="gpu",
        wanted=wanted,
        pairs=1,
        load=False,
        distribution=distribution,
    )
    assert not found["skipped"] and all(row["correct"] for row in found["rows"]), found
