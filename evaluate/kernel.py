"""An emitted CUDA library, loaded by ctypes and launched on the caller's stream; fused ones: ``evaluate.fused``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codegen.epilogue import NOTHING, Epilogue
from codegen.extras import Operands, extras_of
from evaluate.device import DeviceMissingError

POINTER, INTEGER, REAL, SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_size_t
_OPERAND = [POINTER, INTEGER]
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "open": ([POINTER, POINTER, POINTER], ctypes.c_int),
    "error": ([], ctypes.c_char_p),
    "workspace": ([INTEGER] * 3, SIZE),
    "launch": (
        [POINTER, POINTER, *[INTEGER] * 3, REAL, *_OPERAND, *_OPERAND, REAL, *_OPERAND, POINTER, SIZE],
        ctypes.c_int,
    ),
    "close": ([POINTER], None),
}
_MISSING = 4  # status of the library's functions when cuBLAS or the device is not there


class KernelError(RuntimeError):
    """An emitted library refused a call; the message is its own."""


@dataclass(frozen=True)
class Built:
    """A compiled library, or a module that compiles itself, that is not loaded yet.

    Attributes:
        path: the shared library or the module.
        name: prefix of its entry points, or name of the module.
        facts: keys of the rows that are measured with it; a module completes them when it is opened.
    """

    path: Path
    name: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """An open library; what its entry points take is declared.

    Attributes:
        library: the loaded file.
        name: prefix of its entry points.
        handle: what its open function returned.
        epilogue: what it does to each element of C.
    """

    library: ctypes.CDLL
    name: str
    handle: ctypes.c_void_p
    epilogue: Epilogue = NOTHING

    def workspace_bytes(self, m: int, n: int, k: int) -> int:
        """Bytes of device memory a launch of these sizes needs.

        Raises:
            KernelError: sizes the kernel cannot take.
        """
        size = int(self.call("workspace", m, n, k))
        if not size:
            raise KernelError(f"{self.name} cannot multiply {m} x {k} by {k} x {n}")
        return size

    def call(self, suffix: str, *arguments: Any) -> Any:
        """Call an entry point, and return what it returns."""
        return getattr(self.library, f"{self.name}_{suffix}")(*arguments)

    def extras(self, operands: Operands | None) -> list[Any]:
        """The last arguments of a launch: one if there is an epilogue.

        Raises:
            ValueError: operands that the epilogue does not take.
        """
        if operands is None and not self.epilogue:  # what most launches are
            return []
        found = extras_of(self.epilogue, operands or Operands())
        return [None if found is None else ctypes.byref(found)] if self.epilogue else []

    def queue(self, suffix: str, stream: int, *arguments: Any) -> None:
        """Call an entry point that queues work on a stream.

        Raises:
            DeviceMissingError: no device or no cuBLAS.
            KernelError: the library refuses; nothing is queued then.
        """
        check(self.library, self.name, self.call(suffix, self.handle, stream, *arguments))


class Kernel(Library):
    """One whose products are done by cuBLAS."""

    def launch(
        self,
        stream: int,
        sizes: tuple[int, int, int],
        a: int,
        b: int,
        c: int,
        workspace: int,
        workspace_bytes: int,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        leading: tuple[int, int, int] | None = None,
        operands: Operands | None = None,
    ) -> None:
        """Queue C = alpha A B + beta C, row-major.

        Args:
            stream: cudaStream_t as an integer.
            sizes: M, N, K; A is M x K, B is K x N.
            a: device address of A.
            b: device address of B.
            c: device address of C.
            workspace: device address, 256-byte aligned.
            workspace_bytes: its size.
            alpha: factor of the product.
            beta: factor of what C holds.
            leading: leading dimensions of A, B and C; default dense rows.
            operands: those of the kernel's epilogue, if it has one.

        Raises:
            KernelError: the library refuses; nothing is queued then.
            ValueError: operands that the epilogue does not take.
        """
        m, n, k = sizes
        lda, ldb, ldc = leading or (k, n, n)
        matrices = (alpha, a, lda, b, ldb, beta, c, ldc)
        self.queue("launch", stream, m, n, k, *matrices, workspace, workspace_bytes, *self.extras(operands))


@contextmanager
def open_kernel(path: Path, name: str, epilogue: Epilogue = NOTHING) -> Iterator[Kernel]:
    """Load a library built from ``emit(plan, "cuda")`` and close it on leaving; products are done by cuBLAS.

    Args:
        path: the shared library.
        name: what its entry points begin with, see ``codegen.emit_cuda.prefix``.
        epilogue: that the kernel was emitted with.

    Raises:
        DeviceMissingError: no usable device or no cuBLAS.
        KernelError: the file is no such library, or it cannot be opened.
    """
    library = load_library(path, name, with_extras(_SIGNATURES, epilogue))
    handle = ctypes.c_void_p()
    check(library, name, getattr(library, f"{name}_open")(ctypes.byref(handle), None, None))
    try:
        yield Kernel(library, name, handle, epilogue)
    finally:
        getattr(library, f"{name}_close")(handle)


def with_extras(
    signatures: Mapping[str, tuple[list[Any], Any]], epilogue: Epilogue
) -> Mapping[str, tuple[list[Any], Any]]:
    """The signatures of a kernel with an epilogue: a launch takes its operands last."""
    if not epilogue:
        return signatures
    arguments, result = signatures["launch"]
    return {**signatures, "launch": ([*arguments, POINTER], result)}


def load_library(path: Path, name: str, signatures: Mapping[str, tuple[list[Any], Any]]) -> ctypes.CDLL:
    """Load a shared library and declare its entry points.

    Args:
        path: the file.
        name: what its entry points begin with.
        signatures: argument types and result type by the rest of the name.

    Raises:
        KernelError: the file is no such library.
    """
    try:
        library = ctypes.CDLL(str(path))
        for suffix, (arguments, result) in signatures.items():
            function = getattr(library, f"{name}_{suffix}")
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:
        raise KernelError(f"{path} is not a library of {name}: {error}") from None
    return library


def check(library: ctypes.CDLL, name: str, status: int) -> None:
    """Turn a status into an exception with the library's own message.

    Raises:
        DeviceMissingError: no device or no cuBLAS.
        KernelError: the call was refused.
    """
    if not status:
        return
    message = getattr(library, f"{name}_error")().decode(errors="replace")
    if status == _MISSING:
        raise DeviceMissingError(message)
    raise KernelError(f"{name}: {message}")
