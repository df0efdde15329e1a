"""Compilation of the walk kernels: numba without the GIL, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a flat kernel that releases the GIL; without a writable cache folder it is compiled in every process."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no cache folder that it can write
        return njit(nogil=True)(function)
