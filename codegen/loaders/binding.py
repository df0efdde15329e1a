"""An exported fused kernel by ctypes: builds the library where it is missing, declares it, checks what it is given."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    """What was exported.

    Attributes:
        name: what the entry points and the file names begin with.
        arch: architecture that the library is built for, for example "sm_90a".
        dtype: element type of A and B: "fp16" or "bf16".
        c_dtype: element type of C: that or "fp32".
        layout: "n" where the rows of a matrix are contiguous, "t" where its columns are; for A, then for B.
        # epilogue: begin
        epilogue: steps that are applied to each element of C, joined by commas.
        # epilogue: end
    """

    name: str
    arch: str
    dtype: str
    c_dtype: str
    layout: str
    # epilogue: begin
    epilogue: str = ""
    # epilogue: end


class KernelError(RuntimeError):
    """The library could not be built or opened, or it refused a launch; the message says why."""


class Library:
    """The entry points of one kernel; a handle for each device is opened once and kept.

    Args:
        kernel: what was exported.
        folder: where its .cu lies.

    Raises:
        KernelError: the library is missing and cannot be built, or it is no library of this kernel.
    """

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self._handles: dict[int, ctypes.c_void_p] = {}
        path = built(kernel, folder)
        pointer, integer, real, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_size_t
        matrix = [pointer, integer]
        signatures: dict[str, tuple[list[Any], Any]] = {
            "open": ([pointer], ctypes.c_int),
            "workspace": ([integer] * 3, size),
            "planes_b": ([integer] * 2, size),
            "pack_b": ([pointer, pointer, *[integer] * 2, *matrix, pointer, size], ctypes.c_int),
            "launch": (
                [pointer, pointer, *[integer] * 3, real, *matrix, *matrix, real, *matrix, *[pointer] * 3, size],
                ctypes.c_int,
            ),
            "error": ([], ctypes.c_char_p),
        }
        # epilogue: begin
        if kernel.epilogue:
            signatures["launch"][0].append(pointer)
        # epilogue: end
        try:
            library = ctypes.CDLL(str(path))
            for entry, (arguments, result) in signatures.items():
                function = getattr(library, f"{kernel.name}_{entry}")
                function.argtypes, function.restype = arguments, result
        except (OSError, AttributeError) as error:
            raise KernelError(f"{path} is no library of {kernel.name} ({error}); delete it to have it built") from None
        self._library = library

    def call(self, entry: str, *arguments: Any) -> int:
        """Call an entry point that returns a number: a size, or a status that must be 0."""
        function = getattr(self._library, f"{self.kernel.name}_{entry}")
        value = int(function(*arguments))
        if function.restype is ctypes.c_int and value:
            message = getattr(self._library, f"{self.kernel.name}_error")().decode(errors="replace")
            raise KernelError(f"{self.kernel.name}: {message}")
        return value

    def handle(self, device: int, capturing: bool) -> ctypes.c_void_p:
        """The handle of the current device, whose number is ``device``."""
        if device not in self._handles:
            if capturing:
                raise KernelError(f"{self.kernel.name}: call it once before a graph is captured, to load the kernels")
            opened = ctypes.c_void_p()
            self.call("open", ctypes.byref(opened))
            self._handles[device] = opened
        return self._handles[device]

    def bytes_of(self, entry: str, *sizes: int) -> int:
        """Bytes that ``workspace`` (M, N, K) or ``planes_b`` (N, K) needs."""
        needed = self.call(entry, *sizes)
        if not needed and entry == "workspace":
            m, n, k = sizes
            raise KernelError(f"{self.kernel.name} cannot multiply {m} x {k} by {k} x {n}")
        return needed


@functools.cache
def library(kernel: Kernel) -> Library:
    """The kernel's library from this file's folder, built on first use.

    Raises:
        As ``Library``.
    """
    return Library(kernel, Path(__file__).resolve().parent)


class Workspaces:
    """Scratch memory, one for each device and stream, since a workspace serves one launch at a time.

    Args:
        fresh: makes a workspace on a device, of so many bytes, that is ready for its first launch.
    """

    def __init__(self, fresh: Callable[[int, int], Any]) -> None:
        self._fresh = fresh
        self._kept: dict[tuple[int, int], tuple[int, Any]] = {}
        self._captured: list[Any] = []

    def take(self, device: int, stream: int, size: int, capturing: bool) -> Any:
        """Memory for a launch of ``size`` bytes; a graph gets memory of its own, for it may be replayed anywhere."""
        if capturing:
            self._captured.append(self._fresh(device, size))
            return self._captured[-1]
        kept, space = self._kept.get((device, stream), (0, None))
        if kept < size:
            space = self._fresh(device, size)
            self._kept[device, stream] = size, space
        return space


def leading(matrix: str, shape: Sequence[int], strides: Sequence[int], layout: str) -> int:
    """The leading dimension of a matrix.

    Args:
        matrix: its name, for messages.
        shape: rows and columns.
        strides: of both, in elements.
        layout: "n" where rows must be contiguous, "t" where columns must be.

    Raises:
        ValueError: it lies in memory in another way.
    """
    lines, inner = (0, 1) if layout == "n" else (1, 0)
    step = strides[lines] if shape[lines] > 1 else max(strides[lines], shape[inner])
    if (shape[inner] > 1 and strides[inner] != 1) or step < shape[inner]:
        wanted = "rows" if layout == "n" else "columns"
        raise ValueError(
            f"{matrix} must have contiguous {wanted}, not the strides {tuple(strides)}: copy it into such memory, or "
            "export the kernel with another --layout"
        )
    return step


def multiplied(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int]:
    """M, N and K of a product of two shapes.

    Raises:
        ValueError: they do not fit, or there is nothing to multiply.
    """
    if len(a) != 2 or len(b) != 2 or a[1] != b[0] or 0 in (*a, *b):
        raise ValueError(f"a [M, K] and b [K, N] with elements are needed, not {list(a)} and {list(b)}")
    return a[0], b[1], a[1]


# epilogue: begin
def operand_shapes(kernel: Kernel, m: int, n: int, given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of the operands of the kernel's epilogue, in order, beside a C of m rows and n columns.

    Raises:
        ValueError: an operand was not given, or one too many.
    """
    vectors, steps = ("bias", "column_scale", "column_shift"), kernel.epilogue.split(",")
    shapes: dict[str, tuple[int, ...]]
    shapes = {step: (n,) if step in vectors else (m, n) for step in steps if step in (*vectors, "residual")}
    wanted = [*shapes, *(step for step in steps if step == "scale")]
    if set(given) != set(wanted):
        names = (", ".join(f"{name}=" for name in some) or "no operands" for some in (wanted, given))
        raise ValueError("the epilogue {} takes {}, not {}".format(kernel.epilogue, *names))
    return shapes


def extras(kernel: Kernel, operands: dict[str, tuple[int, int]], scale: float) -> Any:
    """The last argument of a launch: addresses and leading dimensions of the operands by name, and the scale."""
    values: dict[str, int | float] = {}
    fields: list[tuple[str, Any]] = []
    for name, (address, step) in operands.items():
        fields.append((name, ctypes.c_void_p))
        values[name] = address
        if name == "residual":
            fields.append(("residual_ld", ctypes.c_int64))
            values["residual_ld"] = step
    if "scale" in kernel.epilogue.split(","):
        fields.append(("scale", ctypes.c_double))
        values["scale"] = scale
    struct = type("Extras", (ctypes.Structure,), {"_fields_": fields})
    return ctypes.byref(struct(**values)) if fields else None


# epilogue: end
def built(kernel: Kernel, folder: Path) -> Path:
    """The library in the folder; if it is missing or older than its source it is built.

    Raises:
        KernelError: there is no compiler, or it fails.
    """
    source, library = folder / f"{kernel.name}.cu", folder / f"lib{kernel.name}.so"
    if library.exists() and (not source.exists() or library.stat().st_mtime >= source.stat().st_mtime):
        return library
    compiler = nvcc()
    number = kernel.arch.removeprefix("sm_")
    target = f"-gencode=arch=compute_{number},code={kernel.arch}"
    # A toolkit made of PyPI packages keeps its libraries where nvcc does not look by itself.
    libraries = Path(compiler).resolve().parent.parent / "lib"
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
        made = Path(scratch, library.name)
        command = [compiler, "-O3", "-std=c++17", target, "-shared", "-Xcompiler", "-fPIC", f"-L{libraries}"]
        done = subprocess.run([*command, "-o", str(made), str(source)], capture_output=True, text=True)
        if done.returncode or not made.exists():
            lines = (done.stderr + done.stdout).splitlines()
            complaint = next((line for line in lines if "error" in line), lines[-1] if lines else "it said nothing")
            raise KernelError(f"nvcc could not compile {source}: {complaint.strip()}")
        # In one step, so that processes which build at once all find a whole file.
        os.replace(made, library)
    return library


def nvcc() -> str:
    """The CUDA compiler: $NVCC, on PATH, in $CUDA_HOME or /usr/local/cuda, or from the package nvidia-cuda-nvcc.

    Raises:
        KernelError: it is nowhere.
    """
    toolkit = os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin")
    found = shutil.which(os.environ.get("NVCC") or "nvcc") or shutil.which("nvcc", path=toolkit)
    if found:
        return found
    try:
        files = metadata.files("nvidia-cuda-nvcc") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvcc":
            return str(file.locate())
    raise KernelError(
        "nvcc was not found: install the CUDA toolkit, or pip install nvidia-cuda-nvcc nvidia-cuda-cccl, or set $NVCC"
    )
