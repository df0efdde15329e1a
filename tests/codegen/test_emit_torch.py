"""The Torch module: on a stand-in of the few functions that it uses, and on Torch itself where it is installed."""

import ast
import sys
import types
from importlib.util import find_spec

import ml_dtypes
import numpy as np
import pytest

from codegen.emit import emit
from tests.codegen.schemes import plans

PLANS = plans()
SHAPES = [(1, 1, 1), (7, 5, 3), (9, 13, 17)]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="no torch; it is not a dependency")


class Tensor(np.ndarray):
    """An array with what the module calls on a tensor."""

    def to(self, dtype):
        return self.astype(dtype).view(Tensor)

    @property
    def mT(self):
        return self.swapaxes(-1, -2)


def stand_in() -> types.ModuleType:
    module = types.ModuleType("torch")
    module.float16, module.float32 = np.dtype(np.float16), np.dtype(np.float32)
    module.bfloat16 = np.dtype(ml_dtypes.bfloat16)
    module.matmul = np.matmul
    module.cat = lambda tensors, dim: np.concatenate(tensors, axis=dim).view(Tensor)
    module.is_floating_point = lambda x: x.dtype.kind in "fV"
    module.is_complex = lambda x: x.dtype.kind == "c"

    def div(x, y, rounding_mode):
        assert rounding_mode == "floor"
        return x // y

    def pad(x, sizes):
        left, right, up, down = sizes
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(up, down), (left, right)]).view(Tensor)

    class Linear:
        def __init__(self, in_features, out_features):
            self.in_features, self.out_features = in_features, out_features

    module.div = div
    module.nn = types.SimpleNamespace(Linear=Linear, functional=types.SimpleNamespace(pad=pad))
    return module


def load(name, monkeypatch, torch=None):
    monkeypatch.setitem(sys.modules, "torch", torch or stand_in())
    scope: dict = {}
    exec(compile(emit(PLANS[name], "torch"), "emitted", "exec"), scope)
    return scope


@pytest.mark.parametrize("name", PLANS)
def test_it_is_exact_on_integers_of_any_size(name, monkeypatch):
    matmul = load(name, monkeypatch)["matmul"]
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a, b = rng.integers(-50, 50, (2, m, k)).view(Tensor), rng.integers(-50, 50, (2, k, n)).view(Tensor)
        result = matmul(a, b)
        assert result.dtype == np.int64
        np.testing.assert_array_equal(result, a @ b)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (ml_dtypes.bfloat16, 0.05), (np.float16, 0.005)])
def test_floats_keep_their_type(dtype, tolerance, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype).view(Tensor) for shape in ((33, 65), (65, 31)))
    result = load("rational", monkeypatch)["matmul"](a, b)
    assert result.dtype == dtype
    exact = a.astype(float) @ b.astype(float)
    assert np.linalg.norm(result.astype(float) - exact) <= 3 * tolerance * np.linalg.norm(exact)


def test_the_layer_is_that_of_torch(monkeypatch):
    layer = load("rectangular", monkeypatch)["Linear"](5, 3)
    rng = np.random.default_rng(0)
    layer.weight, layer.bias = (rng.integers(-9, 9, shape).view(Tensor) for shape in ((3, 5), (3,)))
    x = rng.integers(-9, 9, (2, 7, 5)).view(Tensor)
    np.testing.assert_array_equal(layer.forward(x), x @ layer.weight.T + layer.bias)
    layer.bias = None
    np.testing.assert_array_equal(layer.forward(x), x @ layer.weight.T)


def test_what_does_not_fit_is_refused(monkeypatch):
    matmul = load("winograd", monkeypatch)["matmul"]
    one = np.ones((2, 2)).view(Tensor)
    with pytest.raises(ValueError, match="must have one dtype, not float64 and float32"):
        matmul(one, one.to(np.float32))
    with pytest.raises(ValueError, match="A has 3 columns but B has 2 rows"):
        matmul(np.ones((2, 3)).view(Tensor), one)


def test_it_needs_torch_alone_and_names_the_fused_kernel():
    text = emit(PLANS["winograd2"], "torch")
    imported = [
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    ]
    assert imported == ["torch"]
    assert f"subcubic export {PLANS['winograd2'].digest[:12]} --to cuda --dtype bf16 --arch sm_90a --levels 2" in text


@needs_torch
@pytest.mark.parametrize("name", ["winograd2", "rectangular", "rational2"])
def test_torch_itself_gives_product_and_gradients(name, monkeypatch):
    import torch

    matmul = load(name, monkeypatch, torch)["matmul"]
    a, b = torch.randint(-9, 9, (2, 7, 5)), torch.randint(-9, 9, (2, 5, 3))
    assert torch.equal(matmul(a, b), a @ b)
    x, y = (t.double().requires_grad_() for t in (a, b))
    assert torch.autograd.gradcheck(matmul, (x, y))
    layer = load(name, monkeypatch, torch)["Linear"](5, 3).double()
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
