"""A dispatcher on a device that is none: the fakes of a library, and one kernel of bf16 for host memory."""

import sys

import ml_dtypes
import numpy as np
import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate import arrays
from evaluate.dispatch import Dispatcher
from evaluate.timing import Comparison
from evaluate.verdicts import Verdicts
from tests.evaluate import fused_host
from tests.evaluate.dispatch_fakes import H200, ArrayImpl, Stream, Tensor, cupy, jax, ndarray, torch

BF16 = ml_dtypes.bfloat16
SHAPE = M, N, K = 40, 24, 32
MATCHED = {"error_fro": 4e-3, "baseline_error_fro": 1e-3, "regime": "burst", "layout": "nn", "correct": True}


def row(shape=SHAPE, ratio=1.1, **changes):
    facts = {"reference": "winograd", "levels": 1, "path": "fused", "dtype": "bf16", "plane_dtype": "bf16"}
    sizes = dict(zip("MNK", shape, strict=True))
    return {**facts, **sizes, **MATCHED, "operands": "variable", "ratio": ratio, **changes}


class Device:
    """A dispatcher on the stand of a library, and what it did.

    Attributes:
        ratio: that every trial gives.
        trials: their number.
        built: variants whose kernel was built.
    """

    def __init__(self, folder, patch, name, layouts=("nn", "nt")):
        self.ratio, self.trials, self.built, self.stream, self.name = 1.2, 0, [], Stream(), name
        self.rows = [row(), row(operands="b_constant")]
        self.module = jax() if name == "jax" else {"cupy": cupy, "torch": torch}[name](self.stream)
        patch.setitem(sys.modules, name, self.module)
        if name == "jax":
            patch.setitem(sys.modules, "cupy", cupy(self.stream))
        patch.setattr(arrays, "_known", {})
        arrays._made.cache_clear()
        patch.setattr("evaluate.array_numpy.require_gpu", lambda: H200)
        patch.setattr("evaluate.array_torch.driver_version", lambda: "580")
        patch.setattr(f"evaluate.array_{name}.{name.title()}.measure", lambda self, like: None)
        patch.setattr("evaluate.buckets.SMALLEST_SIDE", 1)
        patch.setattr("evaluate.buckets.SMALLEST_VOLUME", 1)
        patch.setattr("evaluate.trial.compare", self.compare)
        patch.setattr("evaluate.opened.build_library", self.build)
        flags = {"nn": (), "nt": ("-DTRANSPOSED_B=1",)}
        self.libraries = {layout: fused_host.library(folder, f"kernel_{layout}", *flags[layout]) for layout in layouts}
        self.dispatcher = Dispatcher(self.plan_of, lambda device, paths: self.rows, Verdicts(folder / "verdicts"))

    def plan_of(self, reference, levels, orbit):
        if reference != "winograd" or orbit:
            raise LookupError(reference)
        return plan(winograd(), levels)

    def compare(self, measure, ours, plain, **_):
        self.trials += 1
        ours(), plain()
        margin = 0.01
        return Comparison(1 / self.ratio, 1.0, self.ratio, self.ratio - margin, self.ratio + margin, 0.0, 0.0, 11)

    def build(self, the_plan, variant, info):
        self.built.append(variant)
        return self.libraries[variant.layout]

    def array(self, values):
        values = np.asarray(values)
        return Tensor(values) if self.name == "torch" else values.view({"cupy": ndarray, "jax": ArrayImpl}[self.name])


@pytest.fixture
def with_jax(tmp_path, monkeypatch):
    yield Device(tmp_path, monkeypatch, "jax")
    arrays._made.cache_clear()


@pytest.fixture(params=["cupy", "torch"])
def device(request, tmp_path, monkeypatch):
    yield Device(tmp_path, monkeypatch, request.param)
    arrays._made.cache_clear()


def draw(*shape, seed=0):
    """Small integers, of which every sum is exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(BF16)


def values(x):
    return np.asarray(getattr(x, "array", x)).astype(np.float64)


def operands(device, *lead):
    """A, B and their exact product."""
    a, b = draw(*lead, M, K), draw(K, N, seed=1)
    return device.array(a), device.array(b), a.astype(np.float64) @ b.astype(np.float64)
