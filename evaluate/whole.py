"""A whole problem by a kernel of matrices: leading dimensions, results that must be new, the device and its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evaluate.array_numpy import Numpy, each
from evaluate.opened import Opened, Run
from evaluate.strides import overlaps

# Takes A [.., M, K], B [.., K, N], C [.., M, N] or None for a new one, and planes of B or None; returns C.
Whole = Callable[[Any, Any, Any, Any], Any]


def whole(library: Numpy, opened: Opened) -> Whole:
    """Returns a function that multiplies arrays by a kernel.

    Their types, shapes, strides and devices must be those of its first call; others give wrong results.

    Args:
        library: of the arrays.
        opened: the kernel, for their type and device.
    """
    run: Run | None = None
    stack = _stack(library, opened)

    def product(a: Any, b: Any, out: Any, planes: Any) -> Any:
        nonlocal run
        with library.current(a):
            library.ready(a, b)
            if b.ndim > 2:
                return stack(a, b, out)
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
                library.keep(flat)
                found = found.reshape(*a.shape[:-1], b.shape[1])
            if out is None:
                return found
            library.keep(found)
            out[...] = found
            return out

    return product


def _stack(library: Numpy, opened: Opened) -> Callable[[Any, Any, Any], Any]:
    prepared: dict[bool, Run] = {}  # for results that are new, and for those in an array of the caller's

    def product(a: Any, b: Any, out: Any) -> Any:
        new = out is None or overlaps(library, out, a, b)

        def one(x: Any, y: Any, c: Any) -> None:
            if new not in prepared:
                prepared[new] = opened.alike(x, y, c)
            prepared[new](x, y, c, None)

        found = each(library, one, a, b, None if new else out)
        if out is None or not new:
            return found
        library.keep(found)
        out[...] = found
        return out

    return product
