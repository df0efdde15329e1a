"""Stand-ins of PyTorch and CuPy over host memory: as much of both as the exported loaders use, with 7 as the stream."""

import contextlib
import types

import ml_dtypes
import numpy as np

STREAM = 7


class Capture:
    """Whether a graph is being captured, and on which device the caller is."""

    active = False


class Tensor:
    requires_grad = False

    def __init__(self, array: np.ndarray, device: str = "cuda:0") -> None:
        self.array, self.device = array, device

    is_cuda = property(lambda self: self.device.startswith("cuda"))
    dtype = property(lambda self: self.array.dtype.type)
    shape = property(lambda self: self.array.shape)

    def get_device(self) -> int:
        return int(self.device.removeprefix("cuda:"))

    def dim(self) -> int:
        return self.array.ndim

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def __setitem__(self, key, value) -> None:
        self.array[key] = value


def torch() -> types.ModuleType:
    module = types.ModuleType("torch")
    module.Tensor = Tensor
    module.float16, module.bfloat16, module.float32 = np.float16, ml_dtypes.bfloat16, np.float32
    module.uint8 = np.uint8
    module.empty = lambda *shape, dtype, device: Tensor(_poisoned(shape, dtype), str(device))
    module.is_grad_enabled = lambda: True
    module.cuda = types.SimpleNamespace(
        device=lambda number: contextlib.nullcontext(),
        current_stream=lambda: types.SimpleNamespace(cuda_stream=STREAM),
        is_current_stream_capturing=lambda: Capture.active,
    )
    return module


class Array(np.ndarray):
    data = property(lambda self: types.SimpleNamespace(ptr=self.ctypes.data))

    @property
    def device(self):
        device = contextlib.nullcontext()
        device.id = 0
        return device


def cupy() -> types.ModuleType:
    module = types.ModuleType("cupy")
    module.ndarray, module.uint8, module.dtype = Array, np.uint8, np.dtype
    module.empty = lambda shape, dtype: _poisoned(shape, dtype).view(Array)
    stream = types.SimpleNamespace(ptr=STREAM, is_capturing=lambda: Capture.active)
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    return module


def _poisoned(shape, dtype) -> np.ndarray:
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xFF
    return array
