"""Compile functions with numba, keeping the machine code on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """``njit`` without the GIL, with a disk cache when a cache folder is writable and without one otherwise.

    Set ``NUMBA_CACHE_DIR`` to choose the folder.
    """
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no writable place for its cache
        return njit(nogil=True)(function)
