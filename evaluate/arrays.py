"""The library of a caller's arrays; each is imported only when one of its arrays is met.

``matmul`` of each is the vendor's GEMM as its user knows it, and so the baseline of every trial. Memory comes from the
caller's own allocator, which knows the stream that uses it.
"""

from __future__ import annotations

import functools
from importlib import import_module

from evaluate.array_numpy import Numpy

_LIBRARIES = {
    "numpy": ("evaluate.array_numpy", "Numpy"),
    "cupy": ("evaluate.array_cupy", "Cupy"),
    "torch": ("evaluate.array_torch", "Torch"),
    "jax": ("evaluate.array_jax", "Jax"),
    "jaxlib": ("evaluate.array_jax", "Jax"),
}


_known: dict[type, Numpy] = {}


def library_of(kind: type) -> Numpy:
    """The library of a type of arrays.

    Raises:
        TypeError: it is of none of them.
    """
    found = _known.get(kind)
    if found is not None:
        return found
    for base in kind.__mro__:
        place = _LIBRARIES.get(base.__module__.partition(".")[0])
        if place:
            return _known.setdefault(kind, _made(*place))
    raise TypeError(f"operands must be arrays of NumPy, CuPy, PyTorch or JAX, not {kind.__name__}; convert them first")


@functools.cache
def _made(module: str, name: str) -> Numpy:
    found: Numpy = getattr(import_module(module), name)()
    return found
