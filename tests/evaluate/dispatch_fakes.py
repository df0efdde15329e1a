"""CuPy, PyTorch and JAX over host memory, as much of each as the dispatch uses."""

import contextlib
import types
from types import SimpleNamespace

import numpy as np

from evaluate.device import DeviceInfo

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 20, "0")


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

    def is_contiguous(self):
        return self.array.flags.c_contiguous

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
