"""An emitted fused kernel as a library for the host, and calls of it with poisoned memory around everything."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np

from codegen.epilogue import NOTHING, Epilogue
from codegen.extras import Operands, extras_of
from tests.codegen.on_host import aligned, matrix

NUMPY = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "fp32": np.dtype(np.float32)}
I64, P, D, SIZE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
ENTRIES = {
    "open": (ctypes.c_int, P),
    "workspace": (SIZE, I64, I64, I64),
    "planes_a": (SIZE, I64, I64),
    "planes_b": (SIZE, I64, I64),
    "pack_a": (ctypes.c_int, P, P, I64, I64, P, I64, P, SIZE),
    "pack_b": (ctypes.c_int, P, P, I64, I64, P, I64, P, SIZE),
    "launch": (ctypes.c_int, P, P, I64, I64, I64, D, P, I64, P, I64, D, P, I64, P, P, P, SIZE),
    "close": (None, P),
    "error": (ctypes.c_char_p,),
}


def build(text: str, folder: Path) -> ctypes.CDLL:
    """Compile a text whose file of PTX instructions was left out to a library."""
    library = folder / "kernel.so"
    _compile(text, folder, library, "-shared", "-fPIC")
    found = ctypes.CDLL(str(library))
    found.host_violation.restype = ctypes.c_char_p
    found.host_readable.argtypes = [P, SIZE]
    return found


def build_program(text: str, folder: Path) -> Path:
    """The same to the program that tests itself."""
    _compile(text, folder, folder / "selftest", "-DSUBCUBIC_MAIN")
    return folder / "selftest"


def _compile(text: str, folder: Path, result: Path, *flags: str) -> None:
    text = re.sub(r"#include <cuda_.*>\n", "", text)
    # Blocks with shared memory of a launch are run as fibers, which the barriers of this kernel need, too.
    text = text.replace("repair<<<kRepairGrid, kRepairThreads, 0,", "repair<<<kRepairGrid, kRepairThreads, 1,")
    text = re.sub(r"(\S+)<<<(.*)>>>\((.*)\);", r"run_grid(\2, [&] { \1(\3); });", text)
    assert "<<<" not in text and "mma.sync" not in text
    source = folder / "kernel.cpp"
    source.write_text('#include "fused_on_host.h"\n' + text)
    includes = f"-I{Path(__file__).parent}"
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", includes, *flags, "-o", result, source], check=True)


def bind(library: ctypes.CDLL, name: str, entry: str, epilogue: bool = False):
    found = getattr(library, f"{name}_{entry}")
    found.restype, *found.argtypes = ENTRIES[entry]
    if entry == "launch" and epilogue:
        found.argtypes = [*found.argtypes, P]
    return found


def stored_operands(epilogue: Epilogue, operands, dtype, gap: int, offset: int) -> dict[str, np.ndarray]:
    """An epilogue's operands as they lie in memory, with poison around them."""
    return {name: matrix(np.atleast_2d(operands[name]), gap, dtype, offset) for name in epilogue.operands}


class Opened:
    """One library with an open handle; every launch checks the rules of the machine."""

    def __init__(self, library: ctypes.CDLL, name: str, dtype: str, c_dtype: str, epilogue: Epilogue = NOTHING) -> None:
        self.library, self.name, self.dtype, self.c_dtype = library, name, NUMPY[dtype], NUMPY[c_dtype]
        self.epilogue = epilogue
        self.handle = P()
        assert self.entry("open")(ctypes.byref(self.handle)) == 0, self.error()

    def entry(self, name: str):
        return bind(self.library, self.name, name, bool(self.epilogue))

    def error(self) -> str:
        return self.entry("error")().decode()

    def mode(self, backwards: bool, late: bool, multiprocessors: int) -> None:
        self.library.host_mode(int(backwards), int(late), multiprocessors)

    def multiply(self, a, b, c, alpha=1.0, beta=0.0, gap=0, offset=0, packed=False, operands=None) -> np.ndarray:
        """C of matrices a [m, k], b [k, n] and c [m, n] and of an epilogue's operands by name, as float64."""
        (m, k), n = a.shape, b.shape[1]
        left, right = matrix(a, gap, self.dtype, offset), matrix(b, gap, self.dtype, offset)
        out = matrix(c if beta else np.full(c.shape, np.nan), gap, self.c_dtype, offset)
        size = self.entry("workspace")(m, n, k)
        space = aligned(size, np.dtype(np.uint8))
        space[:4096] = 0
        ranges, planes = [left, right, space], [None, None]
        if packed:
            for i, (side, rows, operand) in enumerate((("a", m, left), ("b", n, right))):
                bytes_ = self.entry(f"planes_{side}")(rows, k)
                made = aligned(bytes_, np.dtype(np.uint8))
                pack = self.entry(f"pack_{side}")
                code = pack(self.handle, None, rows, k, operand.ctypes.data, operand.shape[1], made.ctypes.data, bytes_)
                assert code == 0, self.error()
                planes[i] = made
                ranges.append(made)
        self.library.host_readable(None, 0)
        stored = stored_operands(self.epilogue, operands or {}, self.c_dtype, gap, offset)
        for array in (*ranges, *stored.values()):
            self.library.host_readable(array.ctypes.data, array.nbytes)
        addresses = {name: x.ctypes.data for name, x in stored.items()}
        extras = extras_of(self.epilogue, Operands(addresses, n + gap, (operands or {}).get("scale", 1.0)))
        last = [extras and ctypes.byref(extras)] if self.epilogue else []
        code = self.entry("launch")(
            self.handle, None, m, n, k, alpha, left.ctypes.data, k + gap, right.ctypes.data, n + gap, beta,
            out.ctypes.data, n + gap, *(None if p is None else p.ctypes.data for p in planes), space.ctypes.data, size,
            *last,
        )  # fmt: skip
        assert code == 0, self.error()
        wrong = self.library.host_violation()
        assert wrong is None, wrong.decode()
        assert not space[:4096].any(), "the counters are not zero after a launch"
        assert np.isnan(out[:, n:].astype(float)).all(), "the kernel wrote outside C"
        return out[:, :n].astype(float)
