"""Thin kernels as libraries for the host, by the emulation of ``thin_on_host.h``."""

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from codegen import emit_thin
from codegen.emit_thin import PARTS, Streamed, Tile, prefix
from codegen.epilogue import Epilogue
from evaluate.kernel import load_library, with_extras
from evaluate.thin.kernel import SIGNATURES, Product, ThinKernel
from tests.codegen.fused_on_host import NUMPY
from tests.codegen.on_host import matrix
from tests.codegen.schemes import plans
from tests.fuzzing import rare

PLAN = plans()["trivial"]
FEW = {
    "nn": (Tile(1, 2, 4), Tile(2, 1, 4, 2), Tile(1, 2, 2, 2), Tile(2, 2)),
    "nt": (Tile(1, 2), Tile(2, 2, 2, 1)),
}
# Of a B as it is: boxes one below the other, one box that is not swizzled, boxes beside each other.
STREAMED = {
    "nn": (Streamed(64, 2, 64, 3), Streamed(48, 4, 16, 2), Streamed(128, 2, 32, 2)),
    "nt": (Streamed(32, 2, 128, 2), Streamed(48, 4, 64, 1)),
}
BOTH = {layout: FEW[layout] + STREAMED[layout] for layout in FEW}
REPLACED = ("thin/ptx", "thin/stream_ptx", "thin/encode", "thin/queue")
SAME: Callable[[str], str] = lambda text: text  # noqa: E731


def breaks(texts: dict[str, list[tuple[str, str]]], every: int) -> list[object]:
    """Cases of a layout and of texts that are replaced by wrong ones; one of ``every`` runs always."""
    return [
        (layout, *pair) if number % every == 0 else rare(layout, *pair)
        for layout, pairs in texts.items()
        for number, pair in enumerate(pairs)
    ]


def replacing(old: str, new: str) -> Callable[[str], str]:
    """A change of a kernel's text, which has to have what is replaced."""

    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


def compiled(
    folder: Path,
    dtype: str,
    c_dtype: str,
    layout: str,
    change: Callable[[str], str] = SAME,
    epilogue: str = "",
    tiles: Sequence[Tile | Streamed] | None = None,
) -> Path:
    """A library without the files of instructions that the emulation replaces."""
    left = tuple(part for part in PARTS if part not in REPLACED)
    with patch.object(emit_thin, "PARTS", left):
        text = change(
            emit_thin.emit_thin(PLAN, dtype, c_dtype, layout, epilogue, FEW[layout] if tiles is None else tiles)
        )
    text = re.sub(r"#include <cuda_.*>\n", "", text.split("// A program that tests the launch", 1)[0])
    assert not re.search("mma.sync|cp.async|ldmatrix", re.sub("//.*", "", text)) and "<<<" not in text
    # The emulation needs the types, and the kernels need the emulation.
    head, body = text.split("// What a launch of a thin product is about", 1)
    source, library = folder / f"{layout}.cpp", folder / f"{layout}.so"
    source.write_text(f'#include <cmath>\n#include "fused_on_host.h"\n{head}\n#include "thin_on_host.h"\n//{body}')
    includes = f"-I{Path(__file__).parent}"
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", includes, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def built(
    folder: Path,
    dtype: str,
    c_dtype: str,
    layout: str,
    change: Callable[[str], str] = SAME,
    epilogue: str = "",
    tiles: Sequence[Tile | Streamed] | None = None,
    multiprocessors: int = 132,
) -> ThinKernel:
    """The same, open as on a device of so many multiprocessors."""
    name, handle = prefix(PLAN, dtype, c_dtype, layout, epilogue), ctypes.c_void_p()
    steps = Epilogue.parse(epilogue)
    found = load_library(
        compiled(folder, dtype, c_dtype, layout, change, epilogue, tiles), name, with_extras(SIGNATURES, steps)
    )
    found.host_violation.restype = ctypes.c_char_p
    found.host_readable.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.host_mode(0, 0, multiprocessors)
    assert getattr(found, f"{name}_open")(ctypes.byref(handle)) == 0
    return ThinKernel(found, name, handle, steps)


def stacked(values: np.ndarray, gap: int, dtype, offset: int) -> tuple[np.ndarray, int, int]:
    """Matrices [g, r, c] in one array with poison behind each row, its leading dimension and the distance of groups."""
    groups, rows, columns = values.shape
    flat = matrix(values.reshape(groups * rows, columns), gap, dtype, offset)
    return flat, columns + gap, rows * (columns + gap)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def multiplied(
    kernel: ThinKernel, dtype, c_dtype, layout, a, b, c, alpha=1.0, beta=0.0, gap=0, offset=0, tile=-1, split=0,
    shared_b=False, operands=None, stride_vectors=0, further=(), early=0,
):  # fmt: skip
    """C [g, m, n] as float64 of a [g, m, k], b [g, k, n] or one for all, and c."""
    (groups, m, k), n = a.shape, b.shape[2]
    given = b.transpose(0, 2, 1) if layout == "nt" else b
    left, lda, stride_a = stacked(a, gap, NUMPY[dtype], offset)
    right, ldb, stride_b = stacked(given, gap, NUMPY[dtype], offset)
    out, ldc, stride_c = stacked(c if beta else np.full(c.shape, np.nan), gap, NUMPY[c_dtype], offset)
    before = out.copy()
    # ``ctypes`` takes the fields in the order of the structure.
    task = Product(
        groups, m, n, k, alpha, beta, address(left), lda, stride_a, address(right), ldb, 0 if shared_b else stride_b,
        address(out), ldc, stride_c, None, tile, split, early, stride_vectors,
    )  # fmt: skip
    kernel.library.host_readable(None, 0)
    for array in (left, right, *further):
        kernel.library.host_readable(array.ctypes.data, array.nbytes)
    kernel.launch(0, task, operands)
    wrong = kernel.library.host_violation()
    assert wrong is None, wrong.decode()
    np.testing.assert_array_equal(out[:, n:].view(np.uint8), before[:, n:].view(np.uint8), "written outside C")
    return out[:, :n].astype(float).reshape(c.shape)


def integers(groups, m, k, n):
    rng = np.random.default_rng([groups, m, k, n])
    return [rng.integers(-1, 2, shape) for shape in ((groups, m, k), (groups, k, n), (groups, m, n))]


def grouped(kernel, a, b, c, offsets, most, split, tile=-1, early=0):
    """C of rows of all groups as float64, which is added to; in bf16."""
    (left, lda, _), (right, ldb, stride_b), (out, ldc, _) = (stacked(x, 8, NUMPY["bf16"], 0) for x in (a, b, c))
    task = Product(
        len(offsets) - 1, most, c.shape[2], a.shape[2], 1.0, 1.0, address(left), lda, 0, address(right), ldb, stride_b,
        address(out), ldc, 0, address(offsets), tile, split, early,
    )  # fmt: skip
    kernel.library.host_readable(None, 0)
    kernel.launch(0, task)
    assert kernel.library.host_violation() is None
    return out[:, : c.shape[2]].astype(float).reshape(c.shape)
