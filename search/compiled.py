"""Compilation of the kernels: numba without the GIL, cached on disk where that is possible."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from catalog.files import cache_folder


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a flat kernel that releases the GIL; without a writable cache folder it is compiled in every process."""
    _choose_cache()
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except (RuntimeError, OSError):  # numba found no cache folder that it can write
        return numba.njit(nogil=True)(function)


@functools.cache
def _choose_cache() -> None:
    """Give every state of the sources a cache folder of its own, unless $NUMBA_CACHE_DIR names one.

    numba renews a cached kernel when its own file changes, but not when a file does whose functions or constants it
    has taken in; then an old kernel would run with new code around it.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    numba.config.CACHE_DIR = str(cache_folder() / "numba" / state_of_sources())  # type: ignore[attr-defined]


@functools.cache
def state_of_sources() -> str:
    """A hash of the sources of this package, the same wherever the same walks are walked."""
    state = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        state.update(source.read_bytes())
    return state.hexdigest()[:16]
