"""Kernels of schemes that are built, open and ready for the arrays of a caller."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakMethod

from codegen.emit import fused_arch
from codegen.plan import Plan
from evaluate import cpu, cublas
from evaluate.array_numpy import Numpy
from evaluate.candidate import Candidate
from evaluate.decision import HOST_PATH
from evaluate.device import DeviceInfo
from evaluate.fused import FusedKernel, open_fused
from evaluate.gpu import build_library
from evaluate.kernel import Built, Kernel, open_kernel
from evaluate.strides import span_of, step_of, stored, target_of
from evaluate.variants import FUSED_PATH, Variant, product_dtype_of

# Puts the product of A [M, K] and B [K, N] into C [M, N], given the planes of B or None; all may have any strides, of
# which those that the kernel lacks are copied.
Run = Callable[[Any, Any, Any, Any], None]


@dataclass(frozen=True)
class Opened:
    """One open kernel.

    Attributes:
        layout: in which it reads A and B without a copy, see ``evaluate.variants.LAYOUTS``.
        alike: returns a function that multiplies arrays whose types, shapes, strides and device are those of the A, B
            and C that it is given; others give wrong results.
        workspace: bytes that a product of M, N, K needs besides.
        pack: makes the planes of a constant B [K, N], None if the scheme has none.
    """

    layout: str
    alike: Callable[[Any, Any, Any], Run]
    workspace: Callable[[int, int, int], int]
    pack: Callable[[Any], Any]


def after_fork(renew: Callable[[], None]) -> None:
    """Call a method in every child process that is forked while its object lives, where processes can be."""
    held = WeakMethod(renew)

    def call() -> None:
        found = held()
        if found is not None:
            found()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


class Kernels:
    """Every kernel that was asked for, opened once for each device and kept until the process ends."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], Opened] = {}
        self._lock = Lock()
        after_fork(self._unlock)
        self._stack = ExitStack()
        atexit.register(self._stack.close)  # while the driver is still there

    def _unlock(self) -> None:
        """In a child of a fork nobody holds the lock, whoever did in the parent."""
        self._lock = Lock()

    def build(self, plan: Plan, candidate: Candidate, dtype: str, layout: str, info: DeviceInfo) -> Built:
        """The library of a candidate for a GPU, from the cache where possible; several threads may build at once.

        Raises:
            ValueError: the plan cannot be emitted with these types.
            codegen.build.MissingCompilerError: no nvcc.
            codegen.build.BuildError: nvcc refuses the text.
        """
        return build_library(plan, _variant(candidate, dtype, layout), info)

    def open(
        self, library: Numpy, like: Any, plan: Plan, candidate: Candidate, layout: str, info: DeviceInfo | None
    ) -> Opened:
        """The kernel of a candidate for the device of an array.

        Args:
            library: of the array.
            like: an array of the product.
            plan: of the candidate.
            candidate: what is run.
            layout: that of the operands; kernels that have only ``nn`` get copies of others.
            info: the GPU; None for the host.

        Raises:
            As ``build``, and evaluate.kernel.KernelError, evaluate.device.DeviceMissingError: it cannot be opened.
        """
        dtype = library.dtype(like)
        layout = layout if info and has_layouts(candidate, info) else "nn"
        kernel = (plan.name, candidate.path, candidate.plane_dtype, candidate.options)
        key = (library.name, library.device(like), dtype, layout, *kernel)
        with self._lock:
            if key not in self._open:
                if info is None:
                    self._open[key] = _host(library, plan, dtype)
                else:
                    built = self.build(plan, candidate, dtype, layout, info)
                    with library.current(like):
                        self._open[key] = self._device(library, candidate, built, layout)
            return self._open[key]

    def _device(self, library: Numpy, candidate: Candidate, built: Built, layout: str) -> Opened:
        if candidate.path == FUSED_PATH:
            return _fused(library, self._stack.enter_context(open_fused(built)), layout)
        cublas.load()  # tells the kernel where it is
        return _library(library, self._stack.enter_context(open_kernel(built.path, built.name)))


def has_layouts(candidate: Candidate, info: DeviceInfo) -> bool:
    """Whether a candidate's kernel can read transposed operands where they lie."""
    return candidate.path == FUSED_PATH and fused_arch(info.arch) == "sm_90a"


def _host(library: Numpy, plan: Plan, dtype: str) -> Opened:
    multiply = cpu.c_twin(plan, dtype)

    def run(a: Any, b: Any, c: Any, planes: Any) -> None:
        target = target_of(library, a, b, c)
        if step_of(library, target, "n") != target.shape[1]:
            target = library.empty(tuple(c.shape), a)
        multiply(library.contiguous(a), library.contiguous(b), target)
        if target is not c:
            c[...] = target

    return Opened("nn", lambda *_: run, lambda m, n, k: cpu.workspace_bytes(plan, dtype, m, n, k), lambda b: None)


@dataclass(frozen=True)
class _InPlace:
    """A product whose operands a kernel reads and writes where they lie: all that their addresses do not decide.

    Attributes:
        sizes: M, N, K.
        leading: dimensions of A, B and C.
        size: bytes of the workspace.
        spans: of A, B and C, bytes from the address of each to the first that it has, and to the one after its last.
    """

    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    size: int
    spans: tuple[tuple[int, int], ...]

    def apart(self, a: int, b: int, c: int) -> bool:
        """Whether C shares no memory with A and B."""
        left, right, out = self.spans
        low, high = c + out[0], c + out[1]
        return (high <= a + left[0] or a + left[1] <= low) and (high <= b + right[0] or b + right[1] <= low)


def _fused(library: Numpy, kernel: FusedKernel, layout: str) -> Opened:
    def in_place(a: Any, b: Any, c: Any) -> _InPlace | None:
        lda, ldb, ldc = (step_of(library, x, letter) for x, letter in zip((a, b, c), (*layout, "n"), strict=True))
        if not (lda and ldb and ldc):
            return None
        (m, k), n = a.shape, b.shape[1]
        spans = []
        for x in (a, b, c):
            low, high = span_of(library, x)
            spans.append((low - library.address(x), high - library.address(x)))
        return _InPlace((m, n, k), (lda, ldb, ldc), kernel.workspace_bytes(m, n, k), tuple(spans))

    def alike(a: Any, b: Any, c: Any) -> Run:
        prepared: dict[bool, Run] = {}  # for C itself, and for new memory, which where C lies may demand at any call

        def moved(a: Any, b: Any, c: Any, planes: Any) -> None:
            left, right = (stored(library, x, letter)[0] for x, letter in zip((a, b), layout, strict=True))
            target = target_of(library, left, right, c)
            straight = target is c
            if straight not in prepared:
                prepared[straight] = alike(left, right, target)
            prepared[straight](left, right, target, planes)
            if copies := [x for x in (left, right, target) if x is not a and x is not b and x is not c]:
                library.keep(*copies)
            if not straight:
                c[...] = target

        found = in_place(a, b, c)
        if found is None:
            return moved
        launch, size, apart = kernel.launcher(found.sizes, found.leading), found.size, found.apart
        address, scratch, stream = library.address, library.scratch, library.stream

        def run(a: Any, b: Any, c: Any, planes: Any) -> None:
            left, right, out = address(a), address(b), address(c)
            if not apart(left, right, out):
                return moved(a, b, c, planes)
            queue = stream(c)
            # ``space`` must outlive the launch call; the pool then reuses it in stream order.
            space, place = scratch(size, c)
            launch(queue, left, right, out, place, size, 0 if planes is None else address(planes))
            return None

        return run

    def pack(b: Any) -> Any:
        k, n = b.shape
        matrix, ldb = stored(library, b, layout[1])
        size = kernel.planes_bytes("b", n, k)
        if not size:
            return None
        library.ready(b)
        planes = library.memory(size, b)
        kernel.pack("b", library.stream(b), (n, k), library.address(matrix), ldb, library.address(planes), size)
        return planes

    return Opened(layout, alike, kernel.workspace_bytes, pack)


def _library(library: Numpy, kernel: Kernel) -> Opened:
    lock = Lock()  # its handle of cuBLAS is set to the stream of each launch

    def run(a: Any, b: Any, c: Any, planes: Any) -> None:
        (m, k), n = a.shape, b.shape[1]
        (left, lda), (right, ldb) = stored(library, a, "n"), stored(library, b, "n")
        target = target_of(library, a, b, c)
        out, ldc = stored(library, target, "n")
        size = kernel.workspace_bytes(m, n, k)
        space, place = library.scratch(size, c)
        with lock:
            kernel.launch(
                *(library.stream(c), (m, n, k), library.address(left), library.address(right), library.address(out)),
                *(place, size),
                leading=(lda, ldb, ldc),
            )
        if copies := [x for x in (left, right, target) if x is not a and x is not b and x is not c]:
            library.keep(*copies)
        if target is not c:
            c[...] = target

    return Opened("nn", lambda *_: run, kernel.workspace_bytes, lambda b: None)


def _variant(candidate: Candidate, dtype: str, layout: str) -> Variant:
    assert candidate.path != HOST_PATH
    products = "fp32" if candidate.path == FUSED_PATH else product_dtype_of(dtype, candidate.path, None)
    return Variant(dtype, candidate.path, "variable", candidate.plane_dtype, products, layout, candidate.options)
