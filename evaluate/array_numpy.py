"""NumPy as a library of arrays: the face that all libraries have, and what they share."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np

from evaluate.device import DeviceInfo, require_gpu
from evaluate.timing import Measure
from evaluate.windows import HOST_REGIMES, host_measure

HERE = contextlib.nullcontext()  # the device that is current anyway
NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


@functools.cache  # NumPy takes microseconds to spell a type
def _name(dtype: Any) -> str:
    return NAMES.get(str(dtype), str(dtype))


class Numpy:
    """Arrays of NumPy in host memory; the face of all libraries."""

    name = "numpy"
    writable = True  # whether results can be put into an array of the caller's
    differentiable = False  # whether an array may want a gradient
    out_of_memory: tuple[type[Exception], ...] = (MemoryError,)  # what is raised where memory is short

    def __init__(self) -> None:
        self.xp: Any = np

    @property
    def version(self) -> str:
        """Of the library, which decides how fast its GEMM is."""
        return f"{self.name} {self.xp.__version__}"

    def signature(self, x: Any) -> tuple[Any, ...]:
        """All of an array but its place and values, hashable: what a decision depends on."""
        return x.dtype, x.shape, x.strides

    def signatures(self, a: Any, b: Any, out: Any | None) -> tuple[Any, ...]:
        """Those of the arrays of a call, hashable."""
        return self.signature(a), self.signature(b), None if out is None else self.signature(out)

    def read_only(self, x: Any) -> bool:
        """Whether nothing may be written to an array."""
        return not x.flags.writeable

    def dtype(self, x: Any) -> str:
        """As in ``evaluate.operands.DTYPES``, else the library's own name."""
        return _name(x.dtype)

    def strides(self, x: Any) -> tuple[int, ...]:
        """In elements; -1, which no kernel takes, where it is no whole number of them, as of a field of records."""
        size = x.itemsize
        return tuple(step // size if step % size == 0 else -1 for step in x.strides)

    def steps(self, x: Any) -> tuple[int, ...]:
        """Strides in bytes."""
        return tuple(x.strides)

    def device(self, x: Any) -> int | None:
        """Number of its GPU, None for the host's memory."""
        return None

    def why_not(self, x: Any) -> str:
        """Why an array cannot take part, a whole sentence; empty when it can."""
        return ""

    def capturing(self, x: Any) -> bool:
        """Whether launches are captured in a graph instead of run."""
        return False

    def matmul(self, a: Any, b: Any, out: Any | None) -> Any:
        """The library's own product."""
        found = self.xp.matmul(a, b) if out is None else self.xp.matmul(a, b, out=out)
        # NumPy's product of bf16 is fp32.
        return found if found.dtype is a.dtype or found.dtype == a.dtype else found.astype(a.dtype)

    def empty(self, shape: tuple[int, ...], like: Any) -> Any:
        """A new array with contiguous rows beside another one."""
        return self.xp.empty(shape, dtype=like.dtype)

    def contiguous(self, x: Any) -> Any:
        """The array itself if its rows are contiguous and dense, else a copy."""
        return self.xp.ascontiguousarray(x)

    def broadcast(self, x: Any, shape: tuple[int, ...]) -> Any:
        """A view with more leading dimensions."""
        return self.xp.broadcast_to(x, shape)

    def sample(self, x: Any, rows: np.ndarray) -> np.ndarray:
        """Some rows of a matrix in fp64 on the host."""
        return np.asarray(x[rows]).astype(np.float64)

    def measure(self, like: Any) -> Measure:
        """What times a launch."""
        return host_measure(HOST_REGIMES["burst"])

    # What follows is for devices only.

    def info(self, x: Any) -> DeviceInfo:
        """The GPU of an array."""
        return require_gpu()

    def current(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        """Makes the device of an array the current one."""
        return HERE

    def ready(self, *arrays: Any) -> None:
        """Lets the stream see what was queued for the arrays."""

    def settle(self, x: Any) -> None:
        """Waits until what was queued for an array on the current stream has been done."""

    def finish(self, x: Any, like: Any) -> Any:
        """A result of ``empty`` as the caller's type."""
        return x

    def stream(self, x: Any) -> int:
        """The caller's current stream on the device of an array: cudaStream_t as an integer."""
        return 0

    def address(self, x: Any) -> int:
        """Of the first element."""
        return int(x.ctypes.data)

    def memory(self, size: int, like: Any) -> Any:
        """Bytes on the device of an array.

        Raises:
            One of ``out_of_memory``: the device has too little.
        """
        raise NotImplementedError

    def scratch(self, size: int, like: Any) -> tuple[Any, int]:
        """Bytes on a device whose first ones are zero: what keeps them, and their address.

        They are new for every launch and go back to the library's pool after it. A pool hands memory on in the order of
        its stream, so launches of several threads, streams and shapes neither share it nor keep it. What that costs,
        one memset, is nothing beside a product for which a scheme pays.

        Raises:
            One of ``out_of_memory``: the device has too little.
        """
        raise NotImplementedError

    def keep(self, *temporaries: Any) -> None:
        """Keeps arrays that a launch reads or writes and the caller does not have, where a graph may repeat it."""


def each(library: Numpy, product: Any, a: Any, b: Any, out: Any | None) -> Any:
    """A product of stacks of matrices, one after the other.

    Args:
        library: of all arrays.
        product: puts the product of two matrices into a third.
        a: [..., M, K].
        b: [..., K, N]; the leading dimensions of both are broadcast.
        out: [..., M, N]; None for a new one.
    """
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (library.broadcast(x, (*lead, *x.shape[-2:])) for x in (a, b))
    out = library.empty((*lead, a.shape[-2], b.shape[-1]), a) if out is None else out
    for place in np.ndindex(*lead):
        product(a[place], b[place], out[place])
    return out
