"""Kernels of schemes that are built, open and ready for the arrays of a caller."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any

from codegen.emit import fused_arch
from codegen.plan import Plan
from evaluate import cpu, cublas
from evaluate.array_numpy import Numpy
from evaluate.decision import HOST_PATH, Candidate
from evaluate.device import DeviceInfo
from evaluate.fused import FusedKernel, open_fused
from evaluate.gpu import build_library
from evaluate.kernel import Built, Kernel, open_kernel
from evaluate.variants import FUSED_PATH, Variant, product_dtype_of


@dataclass(frozen=True)
class Opened:
    """One open kernel.

    Attributes:
        layout: in which it reads A and B without a copy, see ``evaluate.variants.LAYOUTS``.
        run: puts the product of A [M, K] and B [K, N] into C [M, N], given the planes of B or None; A and B may have
            any strides, those that the layout lacks are copied.
        workspace: bytes that a product of M, N, K needs besides.
        pack: makes the planes of a constant B [K, N], None if the scheme has none.
    """

    layout: str
    run: Callable[[Any, Any, Any, Any], None]
    workspace: Callable[[int, int, int], int]
    pack: Callable[[Any], Any]


def after_fork(renew: Callable[[], None]) -> None:
    """Call something in every child process that is forked from now on, where processes can be."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


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


def letter_of(library: Numpy, x: Any) -> str:
    """How a matrix lies in memory: "t" if its columns are contiguous and its rows are not, else "n"."""
    return "t" if not _step(library, x, "n") and _step(library, x, "t") else "n"


def stored(library: Numpy, x: Any, letter: str) -> tuple[Any, int]:
    """A matrix as a layout has it, the same memory where possible, and its leading dimension."""
    step = _step(library, x, letter)
    if step:
        return x, step
    return (library.contiguous(x), x.shape[1]) if letter == "n" else (library.contiguous(x.T).T, x.shape[0])


def _step(library: Numpy, x: Any, letter: str) -> int:
    """The leading dimension; 0 if the matrix does not lie in memory as the letter says."""
    place = 1 if letter == "n" else 0
    strides, length = library.strides(x), x.shape[place]
    step = strides[1 - place] if x.shape[1 - place] > 1 else max(strides[1 - place], length)
    return step if (length == 1 or strides[place] == 1) and step >= length else 0


def _host(library: Numpy, plan: Plan, dtype: str) -> Opened:
    multiply = cpu.c_twin(plan, dtype)

    def run(a: Any, b: Any, c: Any, planes: Any) -> None:
        target = _target(library, a, b, c)
        if _step(library, target, "n") != target.shape[1]:
            target = library.empty(tuple(c.shape), a)
        multiply(library.contiguous(a), library.contiguous(b), target)
        if target is not c:
            c[...] = target

    return Opened("nn", run, lambda m, n, k: cpu.workspace_bytes(plan, dtype, m, n, k), lambda b: None)


def _fused(library: Numpy, kernel: FusedKernel, layout: str) -> Opened:
    def run(a: Any, b: Any, c: Any, planes: Any) -> None:
        (m, k), n = a.shape, b.shape[1]
        (left, lda), (right, ldb) = stored(library, a, layout[0]), stored(library, b, layout[1])
        target = _target(library, a, b, c)
        out, ldc = stored(library, target, "n")
        size = kernel.workspace_bytes(m, n, k)
        space = library.scratch(size, c)
        kernel.launch(
            *(library.stream(c), (m, n, k), library.address(left), library.address(right), library.address(out)),
            *(library.address(space), size),
            leading=(lda, ldb, ldc),
            planes=(0, library.address(planes) if planes is not None else 0),
        )
        if target is not c:
            c[...] = target

    def pack(b: Any) -> Any:
        k, n = b.shape
        matrix, ldb = stored(library, b, layout[1])
        size = kernel.planes_bytes("b", n, k)
        if not size:
            return None
        library.ready(b)
        planes = library.scratch(size, b)
        kernel.pack("b", library.stream(b), (n, k), library.address(matrix), ldb, library.address(planes), size)
        return planes

    return Opened(layout, run, kernel.workspace_bytes, pack)


def _library(library: Numpy, kernel: Kernel) -> Opened:
    lock = Lock()  # its handle of cuBLAS is set to the stream of each launch

    def run(a: Any, b: Any, c: Any, planes: Any) -> None:
        (m, k), n = a.shape, b.shape[1]
        (left, lda), (right, ldb) = stored(library, a, "n"), stored(library, b, "n")
        target = _target(library, a, b, c)
        out, ldc = stored(library, target, "n")
        size = kernel.workspace_bytes(m, n, k)
        space = library.scratch(size, c)
        with lock:
            kernel.launch(
                *(library.stream(c), (m, n, k), library.address(left), library.address(right), library.address(out)),
                *(library.address(space), size),
                leading=(lda, ldb, ldc),
            )
        if target is not c:
            c[...] = target

    return Opened("nn", run, kernel.workspace_bytes, lambda b: None)


def overlaps(library: Numpy, c: Any, *others: Any) -> bool:
    """Whether an array may share memory with another one."""
    low, high = _span(library, c)
    return any(low < end and start < high for start, end in (_span(library, x) for x in others))


def _target(library: Numpy, a: Any, b: Any, c: Any) -> Any:
    """C where a kernel can write it; new memory if its rows are not contiguous or it overlaps an operand."""
    return c if _step(library, c, "n") and not overlaps(library, c, a, b) else library.empty(tuple(c.shape), c)


def _span(library: Numpy, x: Any) -> tuple[int, int]:
    """Addresses of the first byte of an array and of that after its last."""
    reach = [(size - 1) * step * x.dtype.itemsize for size, step in zip(x.shape, library.strides(x), strict=True)]
    start = library.address(x)
    return start + sum(min(each, 0) for each in reach), start + sum(max(each, 0) for each in reach) + x.dtype.itemsize


def _variant(candidate: Candidate, dtype: str, layout: str) -> Variant:
    assert candidate.path != HOST_PATH
    products = "fp32" if candidate.path == FUSED_PATH else product_dtype_of(dtype, candidate.path, None)
    return Variant(dtype, candidate.path, "variable", candidate.plane_dtype, products, layout, candidate.options)
