"""Measures what the cost model needs of the device at hand: how fast it copies, and how fast its library multiplies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from statistics import median
from typing import Any

import numpy as np

from evaluate.blas import BLAS_DTYPES, blas_threads, host_gemm
from evaluate.cpu import cpu_name, numpy_matmul
from evaluate.cublas import open_cublas
from evaluate.device import DeviceInfo, array_module, release_memory
from evaluate.operands import DTYPES, draw
from evaluate.timing import Launch, Measure
from evaluate.windows import GPU_REGIMES, HOST_REGIMES, gpu_measure, host_measure

GPU_SIZES, HOST_SIZES = (1024, 2048, 4096, 8192, 16384), (512, 1024, 2048)
_LONGEST = 5e12  # floating-point operations of a product of 32 or 64 bits on a GPU: a tenth of a second
_WINDOWS = 5
# Other processes of a host can only slow a window down; the clock of a GPU also errs to the other side.
Pick = Callable[[list[float]], float]
_COPY_BYTES = {"gpu": 1 << 30, "cpu": 1 << 28}  # far beyond any cache


def measure_device(gpu: DeviceInfo | None, sizes: tuple[int, ...] = ()) -> dict[str, Any]:
    """Copy rate and GEMM rates in short bursts: on a GPU the median of five windows, on a host the fastest.

    Args:
        gpu: the device; None for the CPU.
        sizes: M = N = K; ``GPU_SIZES`` or ``HOST_SIZES`` by default.

    Returns:
        For ``evaluate.device_model.keep``: ``device`` name, ``kind``, ``sms`` (threads of a CPU), ``l2_bytes``,
        ``copy`` in bytes/s read plus written, ``gemm``: by dtype pairs of size and FLOP/s; ``created_utc``.

    Raises:
        evaluate.device.DeviceMissingError: the GPU is lost, or there is no cuBLAS.
    """
    figures = _gpu(gpu, sizes or GPU_SIZES) if gpu else _host(sizes or HOST_SIZES)
    return {"created_utc": datetime.now(UTC).isoformat(timespec="seconds"), **figures}


def _host(sizes: tuple[int, ...]) -> dict[str, Any]:
    measure = host_measure(HOST_REGIMES["burst"])
    rate = _copy_rate(np, measure, "cpu", min)
    gemm: dict[str, list[tuple[int, float]]] = {}
    for dtype in BLAS_DTYPES:
        multiply = _host_product(dtype)
        for size in sizes:
            a, b = (draw(np, np.random.default_rng(i), (size, size), dtype) for i in range(2))
            c = np.empty_like(a)

            def product(_: int, a: Any = a, b: Any = b, c: Any = c, multiply: Any = multiply) -> None:
                multiply(a, b, c)

            gemm.setdefault(dtype, []).append((size, 2 * size**3 / _seconds(measure, product, min)))
    return {"device": cpu_name(), "kind": "cpu", "sms": blas_threads(), "l2_bytes": 0, "copy": rate, "gemm": gemm}


def _host_product(dtype: str) -> Any:
    """The baseline of the emitted C, or NumPy's product where there is no compiler for its adapter."""
    from codegen.build import MissingCompilerError

    try:
        return host_gemm(dtype).call
    except (MissingCompilerError, RuntimeError):
        return numpy_matmul


def _gpu(gpu: DeviceInfo, sizes: tuple[int, ...]) -> dict[str, Any]:
    xp = array_module()
    measure = gpu_measure(xp, GPU_REGIMES["burst"], gpu.l2_bytes)
    rate = _copy_rate(xp, measure, "gpu", median)
    gemm: dict[str, list[tuple[int, float]]] = {}
    for dtype in DTYPES:
        for size in sizes:
            if DTYPES[dtype].bytes > 2 and 2 * size**3 > _LONGEST:
                continue
            release_memory()
            gemm.setdefault(dtype, []).append((size, 2 * size**3 / _product_seconds(xp, measure, gpu, dtype, size)))
    runtime = xp.cuda.runtime
    sms = int(runtime.getDeviceProperties(runtime.getDevice())["multiProcessorCount"])
    return {"device": gpu.name, "kind": "gpu", "sms": sms, "l2_bytes": gpu.l2_bytes, "copy": rate, "gemm": gemm}


def _product_seconds(xp: Any, measure: Measure, gpu: DeviceInfo, dtype: str, size: int) -> float:
    """Seconds of one product; buffers rotate, so that what the cache holds of one is gone when it comes round."""
    matrix = size * size * DTYPES[dtype].bytes
    count = 1 + ceil(gpu.l2_bytes / matrix)
    rng = xp.random.default_rng(0)
    sets = [tuple(draw(xp, rng, (size, size), dtype) for _ in range(3)) for _ in range(count)]
    with open_cublas(xp, dtype) as library:

        def product(number: int) -> None:
            a, b, c = (each.data.ptr for each in sets[number % count])
            library.gemm(size, size, size, a, b, c)

        return _seconds(measure, product, median)


def _copy_rate(xp: Any, measure: Measure, kind: str, pick: Pick) -> float:
    source, target = (xp.zeros(_COPY_BYTES[kind], dtype=xp.uint8) for _ in range(2))
    source += xp.uint8(1)  # pages of a host that were never written may all be the same one

    def copy(_: int) -> None:
        xp.copyto(target, source)

    return 2 * source.nbytes / _seconds(measure, copy, pick)


def _seconds(measure: Measure, launch: Launch, pick: Pick) -> float:
    launch(0)
    return pick([measure(launch) for _ in range(_WINDOWS)])
