"""The GPU path: the emitted CUDA library against cuBLAS on the same operands."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from codegen.build import build_cuda
from codegen.emit import emit
from codegen.emit_cuda import prefix
from codegen.plan import Plan
from evaluate.cublas import open_cublas
from evaluate.device import DeviceInfo, array_module, release_memory, snapshot
from evaluate.kernel import open_kernel
from evaluate.operands import DTYPES, draw, poison
from evaluate.timing import Launch
from evaluate.windows import launches_in

_LOAD_SECONDS = 0.5  # of work until clocks and power have answered to it
_BATCH_SECONDS = 0.05  # of work queued at a time while nvidia-smi reads them


@dataclass(frozen=True)
class Arms:
    """Both arms, ready to launch.

    Attributes:
        xp: cupy.
        a: [M, K] of the first buffer set.
        b: [K, N] of the first buffer set.
        ours: queues the scheme.
        baseline: queues cuBLAS.
        result: C of the scheme in the first buffer set, after launch 0.
        baseline_result: C of the baseline.
        workspace_bytes: device memory that the scheme needs besides A, B and C.
        baseline_text: the baseline in words.
    """

    xp: Any
    a: Any
    b: Any
    ours: Launch
    baseline: Launch
    result: Any
    baseline_result: Any
    workspace_bytes: int
    baseline_text: str


def build_library(plan: Plan, dtype: str, product_dtype: str, device: DeviceInfo) -> Path:
    """The emitted CUDA, built for a device.

    Raises:
        ValueError: the plan cannot be emitted with these types.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
    """
    return build_cuda(emit(plan, "cuda", dtype=dtype, product_dtype=product_dtype), device.arch, kind="shared")


@contextmanager
def open_arms(
    plan: Plan,
    library: Path,
    dtype: str,
    product_dtype: str,
    shape: tuple[int, int, int],
    distribution: str,
    seed: int,
    device: DeviceInfo,
) -> Iterator[Arms]:
    """Draw operands and open both libraries, ours as ``build_library`` made it; both are closed on leaving.

    Launches rotate through sets of buffers, so many that what the cache holds of a set is gone when it is used again.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS.
        evaluate.kernel.KernelError: sizes that the kernel cannot take.
        MemoryError: the device has too little memory.
    """
    xp = array_module()
    release_memory()  # what an earlier measurement left in the pool, in sizes that may not suit this one
    m, n, k = shape
    # cuBLAS comes first: finding it tells the emitted library where it is.
    try:
        with open_cublas(xp, dtype) as cublas, open_kernel(library, prefix(plan, dtype, product_dtype)) as kernel:
            size = kernel.workspace_bytes(m, n, k)
            bytes_of_set = (m * k + k * n + m * n) * DTYPES[dtype].bytes
            sets = 1 + ceil(2 * device.l2_bytes / bytes_of_set)
            rng = xp.random.default_rng(seed)
            a, b = (draw(xp, rng, size_of, dtype, distribution) for size_of in ((m, k), (k, n)))
            lefts, rights = ([x] + [x.copy() for _ in range(sets - 1)] for x in (a, b))
            outputs, references = ([poison(xp, (m, n), dtype) for _ in range(sets)] for _ in range(2))
            # CuPy aligns allocations to 512 bytes.
            workspace = xp.empty(size, dtype=xp.uint8)
            stream = xp.cuda.get_current_stream().ptr

            def ours(number: int) -> None:
                i = number % sets
                pointers = (lefts[i].data.ptr, rights[i].data.ptr, outputs[i].data.ptr)
                kernel.launch(stream, (m, n, k), *pointers, workspace.data.ptr, size)

            def baseline(number: int) -> None:
                i = number % sets
                pointers = (lefts[i].data.ptr, rights[i].data.ptr, references[i].data.ptr)
                cublas.gemm(m, n, k, *pointers)

            text = cublas.describe()
            yield Arms(xp, a, b, ours, baseline, outputs[0], references[0], size, text)
            xp.cuda.get_current_stream().synchronize()
    except xp.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(f"{m} x {k} by {k} x {n} in {dtype} does not fit on {device.name}: {error}") from None


def load_snapshot(xp: Any, launch: Launch, seconds: float, device: DeviceInfo) -> dict[str, float | str | None]:
    """Clocks, power and limits while one arm runs, without a gap, until nvidia-smi has answered.

    Args:
        xp: cupy.
        launch: the arm.
        seconds: of one launch.
        device: where.
    """
    for number in range(launches_in(_LOAD_SECONDS, seconds)):
        launch(number)
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(snapshot, device)
        while not seen.done():
            for number in range(launches_in(_BATCH_SECONDS, seconds)):
                launch(number)
            xp.cuda.get_current_stream().synchronize()
    return seen.result()
