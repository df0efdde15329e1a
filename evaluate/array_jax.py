# ruff: noqa: D102 - the methods are described where they are first, in evaluate/array_numpy.py
"""JAX as a library of arrays, outside its transformations."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np

from evaluate.array_cupy import Cupy
from evaluate.array_numpy import HERE, Numpy
from evaluate.timing import Measure
from evaluate.windows import HOST_REGIMES, host_measure


class Jax(Cupy):
    """Arrays of JAX outside ``jit``; on a GPU memory, stream and result are CuPy's, handed over by DLPack."""

    name = "jax"
    writable = False
    differentiable = True

    def __init__(self) -> None:
        import jax

        self.jax = jax
        self._captured = []
        self.out_of_memory = (MemoryError, jax.errors.JaxRuntimeError)  # which has no type of its own for it

    @functools.cached_property
    def xp(self) -> Any:
        """CuPy."""
        import cupy

        return cupy

    @property
    def version(self) -> str:
        return f"jax {self.jax.__version__}"

    def signature(self, x: Any) -> tuple[Any, ...]:
        return x.dtype, x.shape, x.sharding

    signatures = Numpy.signatures

    def strides(self, x: Any) -> tuple[int, ...]:
        return tuple(int(np.prod(x.shape[place + 1 :])) for place in range(x.ndim))

    def steps(self, x: Any) -> tuple[int, ...]:
        return tuple(step * x.dtype.itemsize for step in self.strides(x))

    def device(self, x: Any) -> int | None:
        (*others, place) = x.devices()
        return int(place.local_hardware_id) if place.platform == "gpu" and not others else None

    def capturing(self, x: Any) -> bool:
        return False

    def why_not(self, x: Any) -> str:
        if isinstance(x, self.jax.core.Tracer):
            return (
                "this is no product that JAX can trace or differentiate: call it outside jit, grad and vmap, or use "
                "jax.numpy.matmul there"
            )
        return ""

    def matmul(self, a: Any, b: Any, out: Any | None) -> Any:
        # By default JAX rounds fp32 operands to TF32 on a GPU, which no other library here does.
        return self.jax.numpy.matmul(a, b, precision="highest" if a.dtype == np.float32 else None)

    def contiguous(self, x: Any) -> Any:
        return x

    def sample(self, x: Any, rows: np.ndarray) -> np.ndarray:
        return np.asarray(x[rows]).astype(np.float64) if isinstance(x, self.jax.Array) else super().sample(x, rows)

    def measure(self, like: Any) -> Measure:
        """By the host's clock: JAX does not show its stream."""
        return host_measure(HOST_REGIMES["burst"])

    def current(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        place = self.device(x)
        return HERE if place is None else self.xp.cuda.Device(place)

    def ready(self, *arrays: Any) -> None:
        self.jax.block_until_ready([x for x in arrays if isinstance(x, self.jax.Array)])

    def settle(self, x: Any) -> None:
        self.ready(x)

    def finish(self, x: Any, like: Any) -> Any:
        self.xp.cuda.get_current_stream().synchronize()
        return self.jax.dlpack.from_dlpack(x)

    def address(self, x: Any) -> int:
        return int(x.unsafe_buffer_pointer() if isinstance(x, self.jax.Array) else x.data.ptr)


def array_of(words: Any, dtype: str) -> Any:
    """An array of JAX with what one of CuPy has.

    Args:
        words: of uint16.
        dtype: fp16 or bf16.

    Raises:
        ImportError: there is no JAX.
        RuntimeError: JAX has no GPU.
    """
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError("JAX has no GPU")
    return jax.block_until_ready(jax.dlpack.from_dlpack(words).view({"fp16": "float16", "bf16": "bfloat16"}[dtype]))
