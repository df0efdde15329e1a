"""A built fused kernel on a real device, called by ctypes and compared with FP64. CuPy is imported when used."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catalog.measures import growth
from codegen.fused_text import Types
from codegen.plan import Plan
from tests.codegen.fused_on_host import NUMPY, bind

UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24}


def arch() -> str:
    import cupy

    return f"sm_{cupy.cuda.Device().compute_capability}"


def to_device(array: np.ndarray, offset: int = 0):
    """The bytes of a host array on the device, `offset` bytes behind an aligned address."""
    import cupy

    raw = cupy.full(array.nbytes + offset, 0xFF, np.uint8)
    raw[offset:] = cupy.asarray(np.ascontiguousarray(array).view(np.uint8).ravel())
    return raw[offset:]


def poisoned(nbytes: int, clean: int = 0):
    """Bytes of a NaN, after `clean` zeros."""
    import cupy

    space = cupy.full(max(nbytes, 1), 0xFF, np.uint8)
    space[:clean] = 0
    return space


@dataclass
class Device:
    """An open kernel.

    Attributes:
        plan: what it computes.
        kinds: its storage types.
        library: the loaded file.
        name: prefix of its entry points.
        handle: what its open function returned.
    """

    plan: Plan
    kinds: Types
    library: ctypes.CDLL
    name: str
    handle: ctypes.c_void_p

    def call(self, entry: str, *arguments):
        return bind(self.library, self.name, entry)(*arguments)

    def succeed(self, entry: str, *arguments) -> None:
        assert self.call(entry, self.handle, *arguments) == 0, self.call("error").decode()

    def workspace(self, m: int, n: int, k: int):
        return poisoned(self.call("workspace", m, n, k), 4096)


@contextmanager
def opened(plan: Plan, kinds: Types, path: Path, name: str) -> Iterator[Device]:
    library, handle = ctypes.CDLL(str(path)), ctypes.c_void_p()
    kernel = Device(plan, kinds, library, name, handle)
    assert kernel.call("open", ctypes.byref(handle)) == 0, kernel.call("error").decode()
    try:
        yield kernel
    finally:
        kernel.call("close", handle)


def padded(values: np.ndarray, gap: int, dtype: np.dtype) -> np.ndarray:
    storage = np.full((values.shape[0], values.shape[1] + gap), np.nan, dtype)
    storage[:, : values.shape[1]] = values.astype(dtype)
    return storage


def check(kernel: Device, shape, gap=0, alpha=1.0, beta=0.0, packed=False, offset=0, integers=False) -> None:
    """One launch with poisoned C, gaps, planes and workspace against FP64; integers must be exact.

    Args:
        kernel: what to run.
        shape: m, k, n.
        gap: elements between rows, in all three matrices.
        alpha: factor of the product.
        beta: factor of the old C.
        packed: make the planes of both operands first.
        offset: elements by which A, B and C miss an aligned address.
        integers: draw small integers.
    """
    import cupy

    m, k, n = shape
    rng = np.random.default_rng([m, k, n])

    def draw(*size):
        return rng.integers(-1, 2, size).astype(float) if integers else rng.standard_normal(size)

    a, b = (padded(draw(*size), gap, NUMPY[kernel.kinds.input]) for size in ((m, k), (k, n)))
    c = padded(draw(m, n) if beta else np.full((m, n), np.nan), gap, NUMPY[kernel.kinds.output])
    left, right = (cupy.asarray(x.astype(float)) for x in (a[:, :k], b[:, :n]))
    exact = alpha * (left @ right).get()
    if beta:
        exact += beta * c[:, :n].astype(float)
    device = [to_device(x, offset * x.dtype.itemsize) for x in (a, b, c)]
    pointers = [x.data.ptr for x in device]
    stream, workspace = cupy.cuda.Stream(non_blocking=True), kernel.workspace(m, n, k)
    planes = [
        poisoned(kernel.call(f"planes_{side}", rows, k)) if packed else None for side, rows in (("a", m), ("b", n))
    ]
    cupy.cuda.Device().synchronize()
    if packed:
        for side, rows, ld, at, made in zip("ab", (m, n), (k + gap, n + gap), pointers, planes, strict=False):
            kernel.succeed(f"pack_{side}", stream.ptr, rows, k, at, ld, made.data.ptr, made.nbytes)
    kernel.succeed(
        "launch", stream.ptr, m, n, k, alpha, pointers[0], k + gap, pointers[1], n + gap, beta, pointers[2], n + gap,
        *(None if made is None else made.data.ptr for made in planes), workspace.data.ptr, workspace.nbytes,
    )  # fmt: skip
    stream.synchronize()
    result = device[2].get().view(c.dtype).reshape(c.shape).astype(float)
    assert np.isnan(result[:, n:]).all(), "the kernel wrote outside C"
    assert not workspace[:4096].any(), "the counters are not zero after a launch"
    for made, operand in ((device[0], a), (device[1], b)):
        assert (made.get() == np.ascontiguousarray(operand).view(np.uint8).ravel()).all(), "an operand was changed"
    if integers:
        np.testing.assert_array_equal(result[:, :n], exact)
        return
    unit = max(UNIT[kernel.kinds.plane], UNIT[kernel.kinds.output])
    tolerance = 8 * unit + 4 * UNIT["fp32"] * (8 + k**0.5)
    tolerance *= max(1.0, growth(kernel.plan.scheme) / kernel.plan.format.volume)
    scale = np.linalg.norm(a[:, :k].astype(float)) * np.linalg.norm(b[:, :n].astype(float)) / k**0.5
    scale = abs(alpha) * scale + (np.linalg.norm(exact) if beta else 0)
    assert np.linalg.norm(result[:, :n] - exact) <= tolerance * scale
