"""A thin kernel with the C interface of ``codegen/kernels/thin.h``: emitted, built, loaded by ctypes, launched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from codegen.build import build_reported
from codegen.emit_thin import emit_thin, prefix
from codegen.epilogue import NOTHING, Epilogue
from codegen.extras import Operands
from codegen.plan import Plan
from evaluate.kernel import POINTER, Built, Library, check, load_library, with_extras


class Product(ctypes.Structure):
    """``SCHEME_product``, see ``codegen/kernels/thin/product.h``."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in ("groups", "m", "n", "k")],
        *[(name, ctypes.c_double) for name in ("alpha", "beta")],
        *[(name, kind) for letter in "abc" for name, kind in (
            (letter, ctypes.c_void_p), (f"ld{letter}", ctypes.c_int64), (f"stride_{letter}", ctypes.c_int64)
        )],
        ("offsets", ctypes.c_void_p),
        ("tile", ctypes.c_int32),
        ("split", ctypes.c_int32),
        ("early", ctypes.c_int32),
        ("stride_vectors", ctypes.c_int64),
    ]  # fmt: skip


_PRODUCT, _NUMBER = ctypes.POINTER(Product), ctypes.POINTER(ctypes.c_int32)
SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "open": ([POINTER], ctypes.c_int),
    "error": ([], ctypes.c_char_p),
    "tiles": ([], ctypes.c_int),
    "columns": ([ctypes.c_int], ctypes.c_int),
    "most_split": ([POINTER], ctypes.c_int),
    "choose": ([POINTER, _PRODUCT, _NUMBER, _NUMBER], ctypes.c_int),
    "square": ([POINTER, _PRODUCT, _NUMBER, _NUMBER], ctypes.c_int),
    "launch": ([POINTER, POINTER, _PRODUCT], ctypes.c_int),  # and the operands of an epilogue
    "close": ([POINTER], None),
}


class Way(NamedTuple):
    """How a product is done.

    Attributes:
        tile: its number; -1 leaves it to the rule.
        split: blocks that share the depth; 0 leaves it to the rule.
        early: what happens while the kernel before it ends, see ``SCHEME_product``. 1 is right after any kernel,
            2 for a B that nothing writes.
    """

    tile: int = -1
    split: int = 0
    early: int = 1


class ThinKernel(Library):
    """One for few rows of A. Launches need no workspace."""

    @property
    def tiles(self) -> list[int]:
        """Columns of C that each tile takes."""
        return [int(self.call("columns", tile)) for tile in range(int(self.call("tiles")))]

    @property
    def most_split(self) -> int:
        """How many blocks can share the depth on this device."""
        return int(self.call("most_split", self.handle))

    def choose(self, product: Product) -> Way:
        """What the rule takes for a product.

        Raises:
            KernelError: arguments that ``launch`` would refuse.
        """
        return self._picked("choose", product)

    def square(self, product: Product) -> Way:
        """What the rule of square operands in shared memory takes.

        It is sqrt(0.7 x its bytes / (2 x those of an element)) columns for 16 rows, fewer for fewer, and blocks on the
        depth that fill the device once.

        Raises:
            KernelError: arguments that ``launch`` would refuse.
        """
        return self._picked("square", product)

    def _picked(self, entry: str, product: Product) -> Way:
        tile, split = ctypes.c_int32(), ctypes.c_int32()
        status = self.call(entry, self.handle, ctypes.byref(product), ctypes.byref(tile), ctypes.byref(split))
        check(self.library, self.name, status)
        return Way(tile.value, split.value)

    def launch(self, stream: int, product: Product, operands: Operands | None = None) -> None:
        """Queue a product.

        Args:
            stream: cudaStream_t as an integer.
            product: sizes, addresses on the device, distances in elements.
            operands: of the epilogue.

        Raises:
            evaluate.device.DeviceMissingError: no device.
            KernelError: the library refuses; nothing is queued then.
            ValueError: an operand is missing, or there is one that no step needs.
        """
        self.queue("launch", stream, ctypes.byref(product), *self.extras(operands))

    def launcher(self, fields: Product, operands: Operands | None = None) -> Callable[[int, int, int, int], None]:
        """What launches products that differ in their addresses alone: all else is prepared, for the host's sake.

        Args:
            fields: of all of them.
            operands: of the epilogue.

        Returns:
            A function of stream and the addresses of A, B and C, which raises what ``launch`` raises.
        """
        library, name, handle = self.library, self.name, self.handle
        entry, extras, copy, byref = (
            getattr(library, f"{name}_launch"),
            self.extras(operands),
            bytes(fields),
            ctypes.byref,
        )

        def launch(stream: int, a: int, b: int, c: int) -> None:
            product = Product.from_buffer_copy(copy)  # threads may launch at once
            product.a, product.b, product.c = a, b, c
            status = entry(handle, stream, byref(product), *extras)
            if status:
                check(library, name, status)

        return launch


@contextmanager
def open_thin(path: Path, name: str, epilogue: str | Epilogue = NOTHING) -> Iterator[ThinKernel]:
    """Load a library built from ``codegen.emit_thin.emit_thin``, and close its handle on leaving.

    Args:
        path: the shared library.
        name: what its entry points begin with, see ``codegen.emit_thin.prefix``.
        epilogue: that it was emitted with.

    Raises:
        evaluate.device.DeviceMissingError: no device for which it was built.
        evaluate.kernel.KernelError: the file is no such library, or it cannot be opened.
    """
    steps = Epilogue.parse(epilogue)
    library, handle = load_library(path, name, with_extras(SIGNATURES, steps)), ctypes.c_void_p()
    check(library, name, getattr(library, f"{name}_open")(ctypes.byref(handle)))
    try:
        yield ThinKernel(library, name, handle, steps)
    finally:
        getattr(library, f"{name}_close")(handle)


def build_thin(
    plan: Plan,
    arch: str,
    dtype: str,
    layout: str,
    c_dtype: str | None = None,
    epilogue: str | Epilogue = NOTHING,
) -> Built:
    """The library of thin kernels for a device.

    Args:
        plan: of the scheme of one product.
        arch: real architecture, for example "sm_90".
        dtype: of A and B.
        layout: "nn" or "nt".
        c_dtype: of C; ``dtype`` by default.
        epilogue: of ``codegen.epilogue``, or its text.

    Raises:
        ValueError: what ``codegen.emit_thin.emit_thin`` refuses.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
    """
    text = emit_thin(plan, dtype, c_dtype, layout, epilogue)
    path, usage = build_reported(text, arch)
    facts = {
        "registers": max((kernel.registers for kernel in usage), default=None),
        "spill_bytes": max((kernel.spill_stores for kernel in usage), default=None),
    }
    return Built(path, prefix(plan, dtype, c_dtype, layout, epilogue), facts)
