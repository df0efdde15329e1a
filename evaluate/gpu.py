"""The GPU paths: an emitted CUDA library against cuBLAS on the same operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from codegen.build import build_cuda
from codegen.emit import emit
from codegen.emit_cuda import prefix
from codegen.plan import Plan
from evaluate.cublas import WORKSPACE_BYTES, CublasError, open_cublas
from evaluate.cublaslt import open_cublaslt
from evaluate.device import DeviceInfo, array_module, release_memory, snapshot
from evaluate.fused import ZEROED_BYTES, build_fused, open_fused
from evaluate.kernel import Built, open_kernel
from evaluate.operands import DTYPES, draw, poison
from evaluate.timing import Launch
from evaluate.triton_path import build_triton, open_triton
from evaluate.variants import FUSED_PATH, TRITON_PATH, VENDOR_PATH, Variant
from evaluate.windows import launches_in

_LOAD_SECONDS = 0.5  # of work until clocks and power have answered to it
_BATCH_SECONDS = 0.05  # of work queued at a time while nvidia-smi reads them
_ANY = 255  # byte of which a poisoned workspace consists: NaN in every type

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Arms:
    """Both arms, ready to launch.

    Attributes:
        xp: cupy.
        a: [M, K] of the first buffer set, a view where it is stored transposed.
        b: [K, N] of the first buffer set, likewise.
        ours: queues the scheme.
        baselines: each a text and what queues it: cublasGemmEx, and cuBLASLt's first choice where it has one.
        result: C of the scheme in the first buffer set, after launch 0.
        baseline_result: C of the baselines.
        workspace_bytes: device memory that the scheme needs besides A, B and C, packed planes included.
    """

    xp: Any
    a: Any
    b: Any
    ours: Launch
    baselines: list[tuple[str, Launch]]
    result: Any
    baseline_result: Any
    workspace_bytes: int


@dataclass(frozen=True)
class Buffers:
    """Sets of operands and results, so many that what the cache holds of a set is gone when it is used again.

    Attributes:
        xp: cupy.
        sizes: M, N, K.
        lefts: A as it is stored, of each set; all are equal.
        rights: B.
        outputs: C of the scheme, poisoned.
        references: C of the baseline, poisoned.
    """

    xp: Any
    sizes: Sizes
    lefts: list[Any]
    rights: list[Any]
    outputs: list[Any]
    references: list[Any]

    @property
    def stream(self) -> int:
        """CuPy's current stream."""
        return self.xp.cuda.get_current_stream().ptr

    @property
    def leading(self) -> Sizes:
        """Leading dimensions of A, B and C."""
        return self.lefts[0].shape[1], self.rights[0].shape[1], self.sizes[1]

    def rotated(self, queue: Callable[[int, int, int, int], None], outputs: list[Any]) -> Launch:
        """A launch that hands ``queue`` the next set: its number and the addresses of A, B and C."""

        def launch(number: int) -> None:
            i = number % len(self.lefts)
            queue(i, self.lefts[i].data.ptr, self.rights[i].data.ptr, outputs[i].data.ptr)

        return launch


def build_library(plan: Plan, variant: Variant, device: DeviceInfo) -> Built:
    """The emitted CUDA, built for a device.

    Raises:
        ValueError: the plan cannot be emitted with these types.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
    """
    if variant.path == FUSED_PATH:
        return build_fused(plan, variant, device.arch)
    if variant.path == TRITON_PATH:
        return build_triton(plan, variant)
    if variant.path == VENDOR_PATH:
        return Built(Path(), "")
    types = (variant.dtype, variant.product_dtype)
    text = emit(plan, "cuda", dtype=types[0], product_dtype=types[1])
    return Built(build_cuda(text, device.arch, kind="shared"), prefix(plan, *types))


@contextmanager
def open_arms(
    variant: Variant,
    built: Built,
    shape: Sizes,
    distribution: str,
    seed: int,
    device: DeviceInfo,
) -> Iterator[Arms]:
    """Draw operands and open both libraries, ours as ``build_library`` made it; both are closed on leaving.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS.
        evaluate.kernel.KernelError: sizes that the kernel cannot take.
        MemoryError: the device has too little memory.
    """
    xp = array_module()
    release_memory()  # what an earlier measurement left in the pool, in sizes that may not suit this one
    m, n, k = shape
    try:
        # cuBLAS comes first: finding it tells the emitted library where it is.
        with open_cublas(xp, variant.dtype) as cublas, ExitStack() as others:
            buffers = draw_buffers(xp, variant, shape, distribution, seed, device.l2_bytes)
            ours, size = others.enter_context(open_ours(variant, built, buffers))
            a, b = (
                stored[0].T if letter == "t" else stored[0]
                for letter, stored in zip(variant.layout, (buffers.lefts, buffers.rights), strict=True)
            )

            def gemm(_: int, left: int, right: int, out: int) -> None:
                cublas.gemm(m, n, k, left, right, out, variant.layout)

            baselines = [(cublas.describe(), buffers.rotated(gemm, buffers.references))]
            try:
                lt = others.enter_context(open_cublaslt(xp, variant.dtype, shape, variant.layout))
            except CublasError:  # it need not have an algorithm for every shape
                pass
            else:
                queue = buffers.rotated(lambda _, *addresses: lt(*addresses), buffers.references)
                baselines.append((cublas.describe("cublasLtMatmul, first heuristic"), queue))
            yield Arms(xp, a, b, ours, baselines, buffers.outputs[0], buffers.references[0], size)
            xp.cuda.get_current_stream().synchronize()
    except xp.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(f"{m} x {k} by {k} x {n} in {variant.dtype} does not fit on {device.name}: {error}") from None


def draw_buffers(xp: Any, variant: Variant, shape: Sizes, distribution: str, seed: int, l2_bytes: int) -> Buffers:
    """Operands of a shape as a variant stores them, copied into as many sets as exceed a cache of ``l2_bytes``."""
    m, n, k = shape
    dtype = variant.dtype
    sets = 1 + ceil(2 * l2_bytes / ((m * k + k * n + m * n) * DTYPES[dtype].bytes))
    rng = xp.random.default_rng(seed)
    sides = []
    for side, letter, size in zip("ab", variant.layout, ((m, k), (k, n)), strict=True):
        transposed = letter == "t"
        first = draw(xp, rng, size[::-1] if transposed else size, dtype, distribution, side, transposed)
        sides.append([first, *(first.copy() for _ in range(sets - 1))])
    outputs, references = ([poison(xp, (m, n), dtype) for _ in range(sets)] for _ in range(2))
    return Buffers(xp, shape, sides[0], sides[1], outputs, references)


def open_ours(variant: Variant, built: Built, buffers: Buffers) -> AbstractContextManager[tuple[Launch, int]]:
    """Open a built library: its launch, and the bytes of device memory it has besides the matrices."""
    if variant.path == FUSED_PATH:
        return _open_fused(variant, built, buffers)
    if variant.path == TRITON_PATH:
        return _open_triton(built, buffers)
    if variant.path == VENDOR_PATH:
        return _open_vendor(variant, buffers)
    return _open_library(built, buffers)


@contextmanager
def _open_vendor(variant: Variant, buffers: Buffers) -> Iterator[tuple[Launch, int]]:
    with open_cublas(buffers.xp, variant.dtype) as cublas:

        def queue(_: int, left: int, right: int, out: int) -> None:
            cublas.gemm(*buffers.sizes, left, right, out, variant.layout)

        yield buffers.rotated(queue, buffers.outputs), WORKSPACE_BYTES


@contextmanager
def _open_triton(built: Built, buffers: Buffers) -> Iterator[tuple[Launch, int]]:
    stored = (buffers.lefts, buffers.rights, buffers.outputs)
    with open_triton(built, *stored, buffers.stream) as (queue, size):
        yield lambda number: queue(number % len(buffers.lefts)), size


@contextmanager
def _open_library(built: Built, buffers: Buffers) -> Iterator[tuple[Launch, int]]:
    m, n, k = buffers.sizes
    with open_kernel(built.path, built.name) as kernel:
        size = kernel.workspace_bytes(m, n, k)
        workspace = buffers.xp.empty(size, dtype=buffers.xp.uint8)  # CuPy aligns allocations to 512 bytes
        stream = buffers.stream

        def queue(_: int, left: int, right: int, out: int) -> None:
            kernel.launch(stream, (m, n, k), left, right, out, workspace.data.ptr, size)

        yield buffers.rotated(queue, buffers.outputs), size


@contextmanager
def _open_fused(variant: Variant, built: Built, buffers: Buffers) -> Iterator[tuple[Launch, int]]:
    m, n, k = buffers.sizes
    xp, stream = buffers.xp, buffers.stream
    with open_fused(built) as kernel:
        size = kernel.workspace_bytes(m, n, k)
        workspace = xp.full(size, _ANY, dtype=xp.uint8)
        workspace[:ZEROED_BYTES] = 0
        packed: list[list[Any]] = []  # for A and for B the planes of each set, none if a launch makes them
        for side, given, matrices, rows, ld in (
            ("a", variant.operands == "planes_given", buffers.lefts, m, buffers.leading[0]),
            ("b", variant.operands != "variable", buffers.rights, n, buffers.leading[1]),
        ):
            length = kernel.planes_bytes(side, rows, k) if given else 0
            packed.append([xp.full(length, _ANY, dtype=xp.uint8) for _ in matrices] if length else [])
            for matrix, planes in zip(matrices, packed[-1], strict=False):
                kernel.pack(side, stream, (rows, k), matrix.data.ptr, ld, planes.data.ptr, length)
        left_planes, right_planes = (
            [planes.data.ptr for planes in side] or [0] * len(buffers.lefts) for side in packed
        )

        def queue(i: int, left: int, right: int, out: int) -> None:
            kernel.launch(
                *(stream, buffers.sizes, left, right, out, workspace.data.ptr, size),
                leading=buffers.leading,
                planes=(left_planes[i], right_planes[i]),
            )

        yield buffers.rotated(queue, buffers.outputs), size + sum(side[0].nbytes for side in packed if side)


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
