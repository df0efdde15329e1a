"""A fused kernel for host memory, and NumPy in CuPy's place."""

import subprocess
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import numpy as np

from codegen.build import compiler
from evaluate.kernel import Built

HERE = Path(__file__).resolve().parent
STREAM = SimpleNamespace(ptr=0, synchronize=lambda: None)


class HostArray(np.ndarray):
    """A NumPy array that tells its address as CuPy's do."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data, memset_async=lambda value, size: self.fill(value))


class Event:
    """A time on the host's clock."""

    def record(self) -> None:
        self.time = perf_counter()

    def synchronize(self) -> None:
        pass


class HostModule:
    """NumPy in CuPy's place, as far as measuring needs it; the current stream is the null stream."""

    cuda = SimpleNamespace(
        get_current_stream=lambda: STREAM,
        Stream=lambda non_blocking: STREAM,
        Device=lambda: STREAM,
        Event=Event,
        get_elapsed_time=lambda start, stop: (stop.time - start.time) * 1e3,
        memory=SimpleNamespace(OutOfMemoryError=MemoryError),
    )

    @staticmethod
    def get_default_memory_pool():
        return SimpleNamespace(free_all_blocks=lambda: None)

    def __getattr__(self, name):
        found = getattr(np, name)
        if name not in ("empty", "full"):
            return found
        return lambda *args, **kwargs: found(*args, **kwargs).view(HostArray)


def library(folder: Path, name: str, *flags: str) -> Built:
    """``fused_on_host.c`` under a name, with further definitions."""
    entries = "open workspace planes_a planes_b pack_a pack_b launch close error".split()
    names = [f"-DSCHEME_{entry}={name}_{entry}" for entry in entries]
    include = f"-I{HERE.parents[1] / 'codegen' / 'kernels'}"
    path = folder / f"{name}.so"
    command = [*compiler("gcc").split(), "-O2", "-shared", "-fPIC", "-Wall", "-Werror", include, *names, *flags]
    subprocess.run([*command, str(HERE / "fused_on_host.c"), "-o", str(path)], check=True)
    return Built(path, name)


def cublas_library(folder: Path) -> Path:
    """``cublas_on_host.c`` as a library."""
    path = folder / "libcublas.so.13"
    flags = ["-O1", "-shared", "-fPIC", "-Wall", "-Werror"]
    command = [*compiler("gcc").split(), *flags, str(HERE / "cublas_on_host.c"), "-o", str(path), "-lm"]
    subprocess.run(command, check=True)
    return path
