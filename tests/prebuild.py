"""Builds what the GPU tests run before they start, on all cores: python -m tests.prebuild.

A test finds what was built by the name of a function and its arguments, without emitting the text again; what is
missing it builds itself. All that is kept is forgotten when a source file, the compiler or an argument changes.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

from catalog.files import cache_folder, write_durably
from codegen.build import MissingCompilerError, compiler
from evaluate.device import usable_gpu

ROOT = Path(__file__).resolve().parent.parent
# Each has a function ``builds`` from the device's architecture to calls of functions that are ``kept``. The longest
# come first, so that no core is left with one of them at the end.
MODULES = (
    "tests.evaluate.test_fused_gpu",
    "tests.codegen.test_ampere_gpu",
    "tests.evaluate.test_bench",
    "tests.codegen.test_cuda_gpu",
    "tests.codegen.test_planes_gpu",
    "tests.codegen.test_thin_gpu",
    "tests.codegen.test_epilogue_gpu",
    "tests.codegen.test_few_gpu",
)
_SOURCES = ("catalog", "codegen", "evaluate", "tests")
_SUFFIXES = (".py", ".cuh", ".h", ".c", ".csv", ".h5")
_TELL_S = 5.0  # seconds between two lines of progress

Build = functools.partial


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function of strings and other plain values that builds a file, asked once for all processes and runs.

    Args:
        make: returns the path of what it built, or something that has one as ``path``.
    """

    @functools.wraps(make)
    def found(*arguments: Any) -> Any:
        name = repr((make.__module__, make.__qualname__, arguments))
        place = _folder() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.pickle"
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            result = pickle.loads(place.read_bytes())
            if Path(getattr(result, "path", result)).exists():
                return result
        result = make(*arguments)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_durably(place, pickle.dumps(result))
        return result

    return found


def _folder() -> Path:
    return cache_folder() / "gpu-tests" / fingerprint()


@functools.cache
def fingerprint() -> str:
    """A digest of all that decides what is built: sources, and the compiler as it is found."""
    digest = hashlib.sha256()
    for room in _SOURCES:
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in _SUFFIXES:
                digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    with suppress(MissingCompilerError):
        command = compiler("nvcc")
        digest.update(command.encode())
        with suppress(OSError):  # an update in place makes another file
            facts = Path(command).resolve().stat()
            digest.update(f"{facts.st_size} {facts.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def label(build: Build[Any]) -> str:
    """What a person calls a build."""
    make = build.func
    return f"{make.__module__.rpartition('.')[2]}.{make.__name__}: {' '.join(map(str, build.args))}"


def wanted(arch: str, only: str = "") -> list[Build[Any]]:
    """All builds for a device of architecture ``arch`` whose label holds ``only``, none twice."""
    calls = [build for module in MODULES for build in importlib.import_module(module).builds(arch)]
    return [build for text, build in {label(build): build for build in calls}.items() if only in text]


def prebuild(builds: Sequence[Build[Any]], workers: int) -> list[str]:
    """Make all builds by ``workers`` processes and tell how it goes; return what failed and why."""
    began = told = time.monotonic()
    failed: list[str] = []
    seconds: dict[str, float] = {}
    context = multiprocessing.get_context("spawn")  # a forked process must not inherit the CUDA context
    with ProcessPoolExecutor(max(1, min(workers, len(builds))), mp_context=context) as pool:
        futures: dict[Future[tuple[float, str]], str] = {pool.submit(_made, build): label(build) for build in builds}
        for future in _with_kernels_of_cupy(as_completed(futures)):
            took, complaint = future.result()
            seconds[futures[future]] = took
            if complaint:
                failed.append(f"{futures[future]}: {complaint}")
                print(f"prebuild: FAILED {failed[-1]}", flush=True)
            now = time.monotonic()
            if now - told > _TELL_S:
                told = now
                print(f"prebuild: {len(seconds)} of {len(builds)} after {now - began:.0f} s", flush=True)
    total, spent = sum(seconds.values()), time.monotonic() - began
    print(f"prebuild: {len(builds)} in {spent:.1f} s, {total:.0f} s of work by {workers} processes", flush=True)
    for name in sorted(seconds, key=lambda each: -seconds[each])[:5]:
        print(f"prebuild: {seconds[name]:5.1f} s {name}", flush=True)
    return failed


def _made(build: Build[Any]) -> tuple[float, str]:
    """Seconds that a build took, and why it failed."""
    began = time.monotonic()
    try:
        build()
    except Exception as error:  # not every exception can be sent to another process
        return time.monotonic() - began, f"{type(error).__name__}: {error}"
    return time.monotonic() - began, ""


def _with_kernels_of_cupy(futures: Iterator[Future[Any]]) -> Iterator[Future[Any]]:
    """The futures; before the first of them CuPy compiles its kernels that the tests use, which it keeps on disk."""
    if usable_gpu():
        from tests.evaluate.fused_gpu import warm_up

        warm_up()
    yield from futures


def main(arguments: Sequence[str] | None = None) -> int:
    """Build for the GPU of this machine, or for another architecture without one."""
    parser = argparse.ArgumentParser(prog="python -m tests.prebuild", description=__doc__.splitlines()[0])
    parser.add_argument("--arch", help="architecture of the device, for example sm_90; default: that of the GPU here")
    parser.add_argument("--only", default="", help="build those alone whose name holds this")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; default: one a core")
    parser.add_argument("--list", action="store_true", help="print the names and build nothing")
    given = parser.parse_args(arguments)
    gpu = None if given.arch else usable_gpu()
    if not (given.arch or gpu):
        parser.error("there is no GPU here: name the device's architecture, for example --arch sm_90")
    builds = wanted(given.arch or gpu.arch, given.only)
    if given.list:
        print("\n".join(map(label, builds)))
        return 0
    return 1 if prebuild(builds, given.workers) else 0


if __name__ == "__main__":
    sys.exit(main())
