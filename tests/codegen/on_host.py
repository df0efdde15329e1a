"""Emitted CUDA text run on the host by a C++ compiler and a shim of CUDA; only the launch syntax is rewritten."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")


def on_host(text: str, folder: Path) -> ctypes.CDLL:
    """Build and load a text without its self-test."""
    text = re.sub(r"#include <cuda_.*>\n", "", text.split("// A program that tests the launch", 1)[0])
    launch = r"([\w<>, ]+?)<<<(\w+|static_cast<unsigned>\(\w+\)), (\w+), 0, stream>>>\("
    text = re.sub(launch, r"run_grid(\1, \2, \3, ", text)
    assert "<<<" not in text
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text('#include "device_on_host.h"\n' + text)
    flags = ["-std=c++17", "-O0", "-shared", "-fPIC", f"-I{Path(__file__).parent}"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


def aligned(count: int, dtype, offset: int = 0) -> np.ndarray:
    """An array whose first element lies `offset` elements behind a 256-byte boundary."""
    size = np.dtype(dtype).itemsize
    raw = np.full(count * size + 512, 0xFF, np.uint8)
    start = -raw.ctypes.data % 256 + offset * size
    return raw[start : start + count * size].view(dtype)


def matrix(values: np.ndarray, gap: int, dtype, offset: int) -> np.ndarray:
    """Values in rows with a gap of poison behind each."""
    rows, columns = values.shape
    storage = aligned(rows * (columns + gap), dtype, offset).reshape(rows, columns + gap)
    storage[:, :columns] = values
    return storage
