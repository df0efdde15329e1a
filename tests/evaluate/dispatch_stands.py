"""CuPy and PyTorch over host memory, as much of both as the dispatch uses, and a device with one kernel of bf16."""

import contextlib
import sys
import types
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate import arrays
from evaluate.device import DeviceInfo
from evaluate.dispatch import Dispatcher
from evaluate.timing import Comparison
from evaluate.verdicts import Verdicts
from tests.evaluate import fused_host

BF16 = ml_dtypes.bfloat16
H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 20, "0")
SHAPE = (40, 24, 32)  # M, N, K
MATCHED = {"error_fro": 4e-3, "baseline_error_fro": 1e-3, "regime": "burst", "layout": "nn", "correct": True}


class Stream:
    """The current stream of both; a test turns capturing on."""

    ptr = cuda_stream = 0
    capturing = False

    def is_capturing(self):
        return self.capturing

    def synchronize(self):
        pass


class ndarray(np.ndarray):  # noqa: N801 - its name in CuPy
    __module__ = "cupy"

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data, device_id=0)

    _c_contiguous = property(lambda self: self.flags.c_contiguous)

    @property
    def device(self):
        device = contextlib.nullcontext()
        device.id = 0
        return device


class Tensor:
    __module__ = "torch"

    def __init__(self, array, requires_grad=False, device="cuda:0"):
        self.array, self.requires_grad, self.device = array, requires_grad, device

    is_cuda = property(lambda self: self.device.startswith("cuda"))
    shape = property(lambda self: tuple(self.array.shape))
    ndim = property(lambda self: self.array.ndim)
    dtype = property(lambda self: self.array.dtype)
    nbytes = property(lambda self: self.array.nbytes)
    T = property(lambda self: Tensor(self.array.T, device=self.device))

    def get_device(self):
        return int(self.device.removeprefix("cuda:")) if self.is_cuda else -1

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.array), device=self.device)

    def narrow(self, place, start, length):
        assert place == 0
        return self[start : start + length]

    def zero_(self):
        self.array[...] = 0

    def reshape(self, *shape):
        return Tensor(self.array.reshape(*shape), device=self.device)

    def double(self):
        return Tensor(self.array.astype(np.float64))

    def cpu(self):
        return self.array

    def __getitem__(self, key):
        return Tensor(self.array[getattr(key, "array", key)], device=self.device)

    def __setitem__(self, key, value):
        self.array[key] = getattr(value, "array", value)


class ArrayImpl(np.ndarray):
    """An array of JAX on a GPU: always dense, so that transposing copies."""

    __module__ = "jaxlib._jax"
    sharding, places, platform = "one device", 1, "gpu"

    @property
    def T(self):  # noqa: N802 - its name in JAX
        return np.ascontiguousarray(np.asarray(self).T).view(ArrayImpl)

    def devices(self):
        return [SimpleNamespace(platform=self.platform, local_hardware_id=number) for number in range(self.places)]

    def unsafe_buffer_pointer(self):
        assert self.flags.c_contiguous
        return self.ctypes.data


def jax():
    module = types.ModuleType("jax")
    module.__version__, module.Array, module.waited, module.taken = "0.10", ArrayImpl, [], []
    module.core = SimpleNamespace(Tracer=type("Tracer", (), {}))
    module.errors = SimpleNamespace(JaxRuntimeError=type("JaxRuntimeError", (RuntimeError,), {}))
    module.block_until_ready = module.waited.append

    def from_dlpack(x):
        assert type(x) is ndarray
        module.taken.append(x.shape)
        return x.view(ArrayImpl)

    module.dlpack = SimpleNamespace(from_dlpack=from_dlpack)
    module.numpy = SimpleNamespace(matmul=lambda a, b, precision: _product(a, b).view(ArrayImpl))
    return module


def _product(a, b):
    return np.matmul(np.asarray(a).astype(np.float32), np.asarray(b).astype(np.float32)).astype(a.dtype)


def cupy(stream):
    module = types.ModuleType("cupy")
    module.__version__, module.ndarray, module.uint8 = "14", ndarray, np.uint8
    module.empty = lambda shape, dtype: _poisoned(shape, dtype).view(ndarray)
    module.ascontiguousarray = lambda x: np.ascontiguousarray(x).view(ndarray)
    module.broadcast_to = lambda x, shape: np.broadcast_to(x, shape, subok=True)
    module.asarray = lambda x: x
    module.asnumpy = np.asarray
    memory = SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (MemoryError,), {}))

    def alloc(size):
        array = module.empty(size, np.uint8)  # by the module, since a test may have it fail

        def memset_async(value, count, on):
            assert on is stream
            array[:count] = value

        return SimpleNamespace(array=array, ptr=array.ctypes.data, memset_async=memset_async)

    class Current(contextlib.nullcontext):
        def synchronize(self):
            pass

    current = Current
    module.uint16 = np.uint16
    runtime = SimpleNamespace(getDevice=lambda: 0)
    module.cuda = SimpleNamespace(
        get_current_stream=lambda: stream, memory=memory, alloc=alloc, Device=current, runtime=runtime
    )

    def matmul(a, b, out=None):
        found = _product(a, b).view(ndarray)
        if out is None:
            return found
        out[...] = found
        return out

    module.matmul = matmul
    return module


def torch(stream):
    module = types.ModuleType("torch")
    module.__version__, module.Tensor, module.uint8 = "2", Tensor, np.uint8
    module.empty = lambda shape, dtype, device: Tensor(_poisoned(shape, dtype), device=device)
    module.matmul = lambda a, b, out=None: Tensor(_product(a.array, b.array), device=a.device)
    module.broadcast_to = lambda x, shape: Tensor(np.broadcast_to(x.array, shape), device=x.device)
    module.as_tensor = lambda x, device: Tensor(x)
    module.is_grad_enabled = lambda: True
    module.version = SimpleNamespace(cuda="13.0")
    facts = SimpleNamespace(name=H200.name, major=9, minor=0, L2_cache_size=1 << 20)
    module.cuda = SimpleNamespace(
        OutOfMemoryError=type("OutOfMemoryError", (RuntimeError,), {}),
        get_device_properties=lambda device: facts,
        device=lambda number: contextlib.nullcontext(),
        current_device=lambda: 0,
        current_stream=lambda: stream,
        is_current_stream_capturing=stream.is_capturing,
    )
    return module


def _poisoned(shape, dtype):
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xFF
    return array


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
