# ruff: noqa: D102 - the methods are described where they are first, in evaluate/array_numpy.py
"""PyTorch as a library of arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import numpy as np

from evaluate.array_numpy import HERE, NAMES, Numpy
from evaluate.device import DeviceInfo, driver_version
from evaluate.fused import ZEROED_BYTES
from evaluate.timing import Measure
from evaluate.windows import TRIAL, gpu_measure

_L2_BYTES = 60 << 20  # where the library does not tell


class Torch(Numpy):
    """Tensors of PyTorch on its current stream."""

    name = "torch"
    differentiable = True

    def __init__(self) -> None:
        import torch

        self.xp = torch
        self.out_of_memory = (MemoryError, torch.cuda.OutOfMemoryError)

    def signatures(self, a: Any, b: Any, out: Any | None) -> tuple[Any, ...]:
        # One tuple of what is cheap to ask for and to hash, as with CuPy: a device is an object, its number is not.
        found = (
            a.dtype,
            a.shape,
            a.is_contiguous() or a.stride(),
            a.is_cuda,
            a.get_device(),
            b.dtype,
            b.shape,
            b.is_contiguous() or b.stride(),
            b.is_cuda,
            b.get_device(),
        )
        if out is None:
            return found
        strides = out.is_contiguous() or out.stride()
        return found + (out.dtype, out.shape, strides, out.is_cuda, out.get_device())  # noqa: RUF005

    def read_only(self, x: Any) -> bool:
        return False

    def dtype(self, x: Any) -> str:
        own = str(x.dtype).removeprefix("torch.")
        return NAMES.get(own, own)

    def strides(self, x: Any) -> tuple[int, ...]:
        return tuple(x.stride())

    def steps(self, x: Any) -> tuple[int, ...]:
        return tuple(step * x.dtype.itemsize for step in x.stride())

    def device(self, x: Any) -> int | None:
        return int(x.get_device()) if x.is_cuda else None

    def why_not(self, x: Any) -> str:
        if x.requires_grad and self.xp.is_grad_enabled():
            return "an operand requires a gradient, which is not recorded here: call it under torch.no_grad()"
        return ""

    def capturing(self, x: Any) -> bool:
        return bool(x.is_cuda and self.xp.cuda.is_current_stream_capturing())

    def matmul(self, a: Any, b: Any, out: Any | None) -> Any:
        return self.xp.matmul(a, b, out=out)

    def empty(self, shape: tuple[int, ...], like: Any) -> Any:
        return self.xp.empty(shape, dtype=like.dtype, device=like.device)

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def sample(self, x: Any, rows: np.ndarray) -> np.ndarray:
        return np.asarray(x[self.xp.as_tensor(rows, device=x.device)].double().cpu())

    def measure(self, like: Any) -> Measure:
        if not like.is_cuda:
            return super().measure(like)
        return gpu_measure(_events(self.xp, like.device), TRIAL, self.info(like).l2_bytes)

    def info(self, x: Any) -> DeviceInfo:
        facts = self.xp.cuda.get_device_properties(x.device)
        l2_bytes = int(getattr(facts, "L2_cache_size", 0)) or _L2_BYTES
        arch, cuda = f"sm_{facts.major}{facts.minor}", str(self.xp.version.cuda)
        return DeviceInfo(facts.name, arch, driver_version(), cuda, l2_bytes, str(x.get_device()))

    def current(self, x: Any) -> AbstractContextManager[Any]:
        place = x.get_device()  # -1 for the host, where asking for the current device may raise
        return HERE if place < 0 or place == self.xp.cuda.current_device() else self.xp.cuda.device(place)

    def settle(self, x: Any) -> None:
        if x.is_cuda:
            with self.current(x):
                self.xp.cuda.current_stream().synchronize()

    def stream(self, x: Any) -> int:
        return int(self.xp.cuda.current_stream().cuda_stream)

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def memory(self, size: int, like: Any) -> Any:
        return self.xp.empty(size, dtype=self.xp.uint8, device=like.device)

    def scratch(self, size: int, like: Any) -> tuple[Any, int]:
        space = self.memory(size, like)
        space.narrow(0, 0, min(size, ZEROED_BYTES)).zero_()
        return space, int(space.data_ptr())


def tensor_of(words: Any, dtype: str) -> Any:
    """A tensor on the memory of an array of CuPy.

    Args:
        words: of uint16.
        dtype: fp16 or bf16.

    Raises:
        ImportError: there is no PyTorch.
    """
    import torch

    return torch.from_dlpack(words).view({"fp16": torch.float16, "bf16": torch.bfloat16}[dtype])


def _events(torch: Any, device: Any) -> Any:
    """As much of CuPy as ``evaluate.windows.gpu_measure`` needs, by PyTorch."""

    def empty(size: int, dtype: Any) -> Any:
        tensor = torch.empty(size, dtype=dtype, device=device)
        return SimpleNamespace(nbytes=size, data=SimpleNamespace(memset_async=lambda value, _: tensor.fill_(value)))

    cuda = SimpleNamespace(
        Event=lambda: torch.cuda.Event(enable_timing=True),
        get_elapsed_time=lambda start, stop: start.elapsed_time(stop),
        get_current_stream=lambda: torch.cuda.current_stream(device),
    )
    return SimpleNamespace(empty=empty, uint8=torch.uint8, cuda=cuda)
