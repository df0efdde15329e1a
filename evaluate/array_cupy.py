# ruff: noqa: D102 - the methods are described where they are first, in evaluate/array_numpy.py
"""CuPy as a library of arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from evaluate.array_numpy import HERE, Numpy, each
from evaluate.fused import ZEROED_BYTES
from evaluate.timing import Measure
from evaluate.windows import TRIAL, gpu_measure


class Cupy(Numpy):
    """Arrays of CuPy on its current stream."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        self._captured: list[Any] = []

    def signatures(self, a: Any, b: Any, out: Any | None) -> tuple[Any, ...]:
        # One tuple, and no calls of ``signature``: this is most of the look-up of every product. x.device, x.flags and
        # x.strides are made anew each time they are asked for; _c_contiguous is an attribute of CuPy's own. Where it is
        # true, strides differ in dimensions of one element only, along which no kernel steps.
        found = (
            a.dtype,
            a.shape,
            a._c_contiguous or a.strides,
            a.data.device_id,
            b.dtype,
            b.shape,
            b._c_contiguous or b.strides,
            b.data.device_id,
        )
        if out is None:
            return found
        return found + (out.dtype, out.shape, out._c_contiguous or out.strides, out.data.device_id)  # noqa: RUF005

    def read_only(self, x: Any) -> bool:
        return False

    def device(self, x: Any) -> int | None:
        return int(x.device.id)

    def capturing(self, x: Any) -> bool:
        return bool(self.xp.cuda.get_current_stream().is_capturing())

    def matmul(self, a: Any, b: Any, out: Any | None) -> Any:
        # CuPy's batched product of 16-bit types goes by way of fp32 (cupy#10317), so its own GEMM is called for each.
        if b.ndim > 2 and a.dtype.itemsize == 2:
            return each(self, lambda x, y, c: self.xp.matmul(x, y, out=c), a, b, out)
        return super().matmul(a, b, out)

    def sample(self, x: Any, rows: np.ndarray) -> np.ndarray:
        return self.xp.asnumpy(x[self.xp.asarray(rows)]).astype(np.float64)

    def measure(self, like: Any) -> Measure:
        return gpu_measure(self.xp, TRIAL, self.info(like).l2_bytes)

    def current(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        # Entering a device takes the host longer than asking which one is current.
        return HERE if x.data.device_id == self.xp.cuda.runtime.getDevice() else x.device

    def settle(self, x: Any) -> None:
        with self.current(x):
            self.xp.cuda.get_current_stream().synchronize()

    def stream(self, x: Any) -> int:
        return int(self.xp.cuda.get_current_stream().ptr)

    def address(self, x: Any) -> int:
        return int(x.data.ptr)

    def memory(self, size: int, like: Any) -> Any:
        return self.xp.empty(size, dtype=self.xp.uint8)

    def scratch(self, size: int, like: Any) -> tuple[Any, int]:
        # Without an array around it and by a memset, since both take the host less time.
        cuda = self.xp.cuda
        space = cuda.alloc(size)
        stream = cuda.get_current_stream()
        space.memset_async(0, min(size, ZEROED_BYTES), stream)
        if stream.is_capturing():  # CuPy's pool would hand it on, and the graph may be replayed beside other launches
            self._captured.append(space)
        return space, space.ptr

    def keep(self, *temporaries: Any) -> None:
        if self.capturing(temporaries[0]):  # as of ``scratch``
            self._captured += temporaries
