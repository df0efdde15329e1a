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
from evaluate.thin.kernel import SIGNATURES, ThinKernel
from tests.codegen.on_host import matrix
from tests.codegen.schemes import plans

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
        text = change(emit_thin.emit_thin(PLAN, dtype, c_dtype, layout, epilogue, BOTH[layout] if tiles is None else tiles))
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
