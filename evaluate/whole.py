"""A whole problem by a kernel of matrices: leading dimensions, results that must be new, the device and its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluate.array_numpy import Numpy, each
from evaluate.opened import Opened
from evaluate.strides import overlaps

# Takes A [.., M, K], B [.., K, N], C [.., M, N] or None for a new one, and planes of B or None; returns C.
Whole = Callable[[Any, Any, Any, Any], Any]


def whole(library: Numpy, opened: Opened) -> Whole:
    """What does products of arrays of one signature, those of its first call, by a kernel.

    Args:
        library: of the arrays.
        opened: the kernel, for their type and device.
    """
    run: Callable[[Any, Any, Any, Any], None] | None = None

    def product(a: Any, b: Any, out: Any, planes: Any) -> Any:
        nonlocal run
        with library.current(a):
            library.ready(a, b)
            if b.ndim > 2:
                return _stack(library, opened, a, b, out)
            flat = a if a.ndim == 2 else a.reshape(-1, a.shape[-1])
            straight = out is not None and out.ndim == 2
            c = out if straight else library.empty((flat.shape[0], b.shape[1]), a)
            if run is None:
                run = opened.alike(flat, b, c)
            run(flat, b, c, planes)
            if straight:
                return out
            found = library.finish(c, a)
            if a.ndim > 2:
                found = found.reshape(*a.shape[:-1], b.shape[1])
            if out is None:
                return found
            out[...] = found
            return out

    return product


def _stack(library: Numpy, opened: Opened, a: Any, b: Any, out: Any) -> Any:
    apart = out if out is None or not overlaps(library, out, a, b) else None
    stack = each(library, lambda x, y, c: opened.run(x, y, c, None), a, b, apart)
    if out is None or apart is not None:
        return stack
    out[...] = stack
    return out
