"""A fused kernel with the C interface of ``codegen/kernels/fused.h``: emitted, built, loaded by ctypes, launched."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from codegen.build import build_reported
from codegen.emit import fused_arch, fused_emitter
from codegen.epilogue import NOTHING, Epilogue
from codegen.extras import Operands
from codegen.plan import Plan
from evaluate.kernel import INTEGER, POINTER, REAL, SIZE, Built, Library, check, load_library, with_extras
from evaluate.variants import Variant

# Keys of a row and the constants of the emitted tables that hold them.
_COUNTS = {"publications": "kPublicationCount", "slots": "kSlots", "planes_a": "kPlanesA", "planes_b": "kPlanesB"}
ZEROED_BYTES = 4096  # of a new workspace, from its start
_OPERAND = [POINTER, INTEGER]
_PACK = [POINTER, POINTER, INTEGER, INTEGER, *_OPERAND, POINTER, SIZE]
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "open": ([POINTER], ctypes.c_int),
    "error": ([], ctypes.c_char_p),
    "workspace": ([INTEGER] * 3, SIZE),
    "planes_a": ([INTEGER] * 2, SIZE),
    "planes_b": ([INTEGER] * 2, SIZE),
    "pack_a": (_PACK, ctypes.c_int),
    "pack_b": (_PACK, ctypes.c_int),
    "launch": (
        [POINTER, POINTER, *[INTEGER] * 3, REAL, *_OPERAND * 2, REAL, *_OPERAND, POINTER, POINTER, POINTER, SIZE],
        ctypes.c_int,
    ),
    "close": ([POINTER], None),
}


class FusedKernel(Library):
    """One that does all products in one kernel. The first ``ZEROED_BYTES`` of a workspace start as zeros."""

    def planes_bytes(self, side: str, rows: int, k: int) -> int:
        """Bytes of memory that ``pack`` wants for the planes of one side.

        Args:
            side: "a" or "b".
            rows: M for A, N for B.
            k: the inner size.

        Returns:
            256 more than the planes take, so 256 if the scheme has none there; 0 only for sizes that the kernel cannot
            take.
        """
        return int(self.call(f"planes_{side}", rows, k))

    def pack(
        self, side: str, stream: int, sizes: tuple[int, int], matrix: int, ld: int, planes: int, size: int
    ) -> None:
        """Queue the making of the planes of a constant operand.

        Args:
            side: "a" or "b".
            stream: cudaStream_t as an integer.
            sizes: (M, K) for A, (N, K) for B.
            matrix: device address.
            ld: its leading dimension.
            planes: device address of the result, 256-byte aligned.
            size: its bytes, at least those of ``planes_bytes``.

        Raises:
            KernelError: the library refuses; nothing is queued then.
        """
        self.queue(f"pack_{side}", stream, *sizes, matrix, ld, planes, size)

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
        leading: tuple[int, int, int],
        planes: tuple[int, int] = (0, 0),
        alpha: float = 1.0,
        beta: float = 0.0,
        operands: Operands | None = None,
    ) -> None:
        """Queue C = alpha A B + beta C.

        Args:
            stream: cudaStream_t as an integer.
            sizes: M, N, K.
            a: device address of A.
            b: device address of B.
            c: device address of C.
            workspace: device address, 256-byte aligned.
            workspace_bytes: its size.
            leading: leading dimensions of A, B and C as they are stored.
            planes: device addresses of what ``pack`` made of A and of B, 0 for what the launch is to make itself.
            alpha: factor of the product.
            beta: factor of what C holds.
            operands: those of the kernel's epilogue, if it has one.

        Raises:
            KernelError: the library refuses; nothing is queued then.
            ValueError: operands that the epilogue does not take.
        """
        left, right = planes
        self.launcher(sizes, leading, operands)(stream, a, b, c, workspace, workspace_bytes, right, left, alpha, beta)

    def launcher(
        self, sizes: tuple[int, int, int], leading: tuple[int, int, int], operands: Operands | None = None
    ) -> Callable[..., None]:
        """What launches products of some sizes: all that does not change is prepared, which takes the host less time.

        Args:
            sizes: M, N, K.
            leading: leading dimensions of A, B and C as they are stored.
            operands: those of the kernel's epilogue, if it has one.

        Returns:
            A function of stream, a, b, c, workspace, workspace_bytes, planes of B and of A, alpha and beta as of
            ``launch``, which raises what that raises.

        Raises:
            ValueError: operands that the epilogue does not take.
        """
        (m, n, k), (lda, ldb, ldc) = sizes, leading
        library, name, handle = self.library, self.name, self.handle
        entry, extras = getattr(library, f"{name}_launch"), self.extras(operands)

        def launch(
            stream: int,
            a: int,
            b: int,
            c: int,
            space: int,
            size: int,
            right: int = 0,
            left: int = 0,
            alpha: float = 1.0,
            beta: float = 0.0,
        ) -> None:
            matrices = (alpha, a, lda, b, ldb, beta, c, ldc, left or None, right or None)
            status = entry(handle, stream, m, n, k, *matrices, space, size, *extras)
            if status:
                check(library, name, status)

        return launch


@contextmanager
def open_fused(built: Built, epilogue: Epilogue = NOTHING) -> Iterator[FusedKernel]:
    """Load a library of a fused kernel, and close its handle on leaving.

    Args:
        built: as of ``build_fused``.
        epilogue: that the kernel was emitted with.

    Raises:
        evaluate.device.DeviceMissingError: no device for which it was built.
        KernelError: the file is no such library, or it cannot be opened.
    """
    library, name = load_library(built.path, built.name, with_extras(_SIGNATURES, epilogue)), built.name
    handle = ctypes.c_void_p()
    check(library, name, getattr(library, f"{name}_open")(ctypes.byref(handle)))
    try:
        yield FusedKernel(library, name, handle, epilogue)
    finally:
        getattr(library, f"{name}_close")(handle)


def fused_text(plan: Plan, variant: Variant, arch: str) -> str:
    """The source of a fused kernel for a device.

    Raises:
        ValueError: the plan cannot be emitted with these types, or the kernels for the device lack an option.
    """
    return fused_emitter(fused_arch(arch)).emit(plan, **_options(variant))


def build_fused(plan: Plan, variant: Variant, arch: str) -> Built:
    """The library of a fused kernel.

    Returns:
        It, with these facts: ``registers`` and ``spill_bytes`` of the kernel that does the products (the one
        with the most registers), ``tile`` if there is one for all sizes, ``publications``, ``slots``, ``planes_a``,
        ``planes_b`` and ``block_units``, to multiples of which blocks are rounded up along M, K and N.

    Raises:
        ValueError: the plan cannot be emitted with these types.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
    """
    text = fused_text(plan, variant, arch)
    path, usage = build_reported(text, fused_arch(arch))
    largest = max(usage, key=lambda kernel: kernel.registers, default=None)
    sizes = [_constant(text, f"kTile{letter}") for letter in "MNK"]
    facts = {
        "registers": largest.registers if largest else None,
        "spill_bytes": largest.spill_stores if largest else None,
        "tile": "x".join(map(str, sizes)) if None not in sizes else None,
        **{key: _constant(text, name) for key, name in _COUNTS.items()},
        "block_units": [_constant(text, f"kUnit{letter}") for letter in "MKN"],
    }
    return Built(path, _name(text), facts)


def _constant(text: str, name: str) -> int | None:
    """The value of an integer constant of a text; None if it has no such constant."""
    found = re.search(rf"\b{name} = (\d+)", text)
    return int(found[1]) if found else None


def _name(text: str) -> str:
    """What the entry points of a text begin with."""
    found = re.search(r"\bint (\w+)_launch\(", text)
    if not found:
        raise ValueError("the emitted text has no launch function")
    return found[1]


def _options(variant: Variant) -> dict[str, Any]:
    layout = {} if variant.layout == "nn" else {"layout": variant.layout}
    return {"dtype": variant.dtype, "plane_dtype": variant.plane_dtype, **layout, **dict(variant.options)}
