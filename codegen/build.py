"""Compile emitted text through gcc or nvcc, with a content-addressed cache.

A result is named by the hash of source, flags, architecture and compiler version, made beside its place under a
temporary name and moved into it, so that builders racing for the same text both end with a whole file.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from catalog.files import cache_folder
from codegen.cache import SCRATCH_PREFIX, digest_of, intact, publish, trim, used

Kind = Literal["shared", "program", "cubin"]

_NVCC_FLAGS = ("-O3", "-std=c++17")
_SPLIT = "--split-compile=0"  # which nvcc has since CUDA 12
_NVCC_KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "shared": (("-shared", "-Xcompiler", "-fPIC"), ".so"),
    "program": (("-DSUBCUBIC_MAIN",), ""),
    "cubin": (("-cubin", "-Xptxas", "-v"), ".cubin"),
}
_GCC_FLAGS = ("-O3", "-march=native", "-std=c99", "-fopenmp", "-shared", "-fPIC")
# The variable that names another compiler, and what to do if there is none.
_COMPILERS = {
    "gcc": ("CC", "install it, for example with `apt-get install gcc`"),
    "nvcc": ("NVCC", "install the CUDA toolkit and put its bin folder on PATH"),
}
_TIMEOUT = 600  # seconds
# What nvcc says where the C++ compiler is missing that it hands the host's part to.
_NO_HOST = "Failed to preprocess host compiler properties"


class BuildError(RuntimeError):
    """The compiler refused the text; the message has its first complaint, ``log`` all of them."""

    def __init__(self, compiler: str, log: str) -> None:
        self.log = log
        lines = [line for line in log.splitlines() if line.strip()] or ["it said nothing"]
        complaint = next((line for line in lines if "error" in line), lines[-1])
        super().__init__(f"{compiler} could not compile the text: {complaint.strip()}")
        self._made_of = compiler, log

    def __reduce__(self) -> tuple[type[BuildError], tuple[str, str]]:
        """Else the error of a worker process, made again from its message alone, would break the whole pool."""
        return BuildError, self._made_of


class MissingCompilerError(RuntimeError):
    """A needed compiler is not installed, or one that it needs in turn."""


class Usage(NamedTuple):
    """What one kernel takes, as ptxas reports it.

    Attributes:
        kernel: mangled name.
        registers: 32-bit registers of a thread.
        spill_stores: bytes.
        spill_loads: bytes.
    """

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int


def build_c(text: str, flags: Sequence[str] = ()) -> Path:
    """Compile C99 text to a shared library for this machine.

    Raises:
        MissingCompilerError: no gcc.
        BuildError: the text does not compile.
    """
    gcc = _command("gcc")
    # -march=native means another machine's library would not do, so the machine's answer to it is part of the key.
    machine = _output(*gcc, "-march=native", "-Q", "--help=target")
    return _build(text, ".c", gcc, (*_GCC_FLAGS, *flags), ".so", machine, link=("-lm",))[0]


def build_cuda(text: str, arch: str = "sm_90", kind: Kind = "shared", flags: Sequence[str] = ()) -> Path:
    """Compile CUDA text.

    Args:
        text: a whole .cu file.
        arch: real architecture, for example "sm_80" or "sm_90a".
        kind: a shared library, the self-test program, or a cubin.
        flags: further flags of nvcc.

    Raises:
        MissingCompilerError: no nvcc, or no C++ compiler for the host's part.
        BuildError: the text does not compile.
        ValueError: an architecture or kind that does not exist.
    """
    return _build_cuda(text, arch, kind, flags)[0]


def build_reported(text: str, arch: str = "sm_90") -> tuple[Path, list[Usage]]:
    """A shared library, and the registers and spills of its kernels, from one run of the compiler.

    Raises:
        As ``build_cuda``.
    """
    path, log = _build_cuda(text, arch, "shared", ("-Xptxas", "-v"))
    return path, resource_usage(log)


def resources(text: str, arch: str = "sm_90") -> list[Usage]:
    """Registers and spills of every kernel in CUDA text, read from the compiler's report.

    Raises:
        As ``build_cuda``.
    """
    return resource_usage(_build_cuda(text, arch, "cubin", ())[1])


def resource_usage(log: str) -> list[Usage]:
    """Read the report of ``-Xptxas -v``."""
    found = []
    for part in log.split("Compiling entry function '")[1:]:
        spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if spills and registers:
            found.append(Usage(part.split("'", 1)[0], int(registers[1]), int(spills[1]), int(spills[2])))
    return found


def _build_cuda(text: str, arch: str, kind: str, flags: Sequence[str]) -> tuple[Path, str]:
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise ValueError(f"architecture {arch!r} is not of the form sm_90 or sm_90a")
    if kind not in _NVCC_KINDS:
        raise ValueError(f"unknown kind {kind!r}; choose one of {', '.join(_NVCC_KINDS)}")
    target = f"-gencode=arch=compute_{arch[3:]},code={arch}"
    own, suffix = _NVCC_KINDS[kind]
    command = _command("nvcc")
    # The kernels of a file at the same time; each becomes what it would be alone.
    split = (_SPLIT,) if _SPLIT.split("=")[0] in _output(*command, "--help") else ()
    return _build(text, ".cu", command, (*_NVCC_FLAGS, *split, target, *own, *flags), suffix)


def compiler(name: Literal["gcc", "nvcc"]) -> str:
    """The command that compiles C or CUDA, its program as a path: $CC or $NVCC if set, else what is on PATH.

    The variable may hold a command with arguments, such as ``ccache gcc``. Without it, nvcc is also looked for in
    $CUDA_HOME, else in /usr/local/cuda.

    Raises:
        MissingCompilerError: it is nowhere.
    """
    return shlex.join(_command(name))


def _command(name: str) -> tuple[str, ...]:
    variable, remedy = _COMPILERS[name]
    wanted, *arguments = shlex.split(os.environ.get(variable, "")) or [name]
    found = shutil.which(wanted)
    if not found and wanted == "nvcc":
        found = shutil.which(name, path=os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin"))
    if not found:
        raise MissingCompilerError(f"{wanted} was not found; {remedy}, or set ${variable} to its path")
    return found, *arguments


def _run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise BuildError(_name(command), f"it took longer than {_TIMEOUT} s") from None


def _name(command: Sequence[str]) -> str:
    """What a person calls the compiler: the program's name, and that of the one which it starts."""
    return " ".join([Path(command[0]).name, *(word for word in command[1:2] if not word.startswith("-"))])


@functools.cache
def _output(*command: str) -> str:
    """What a short command prints; kept, since compiler versions do not change under a running process."""
    return _run(command).stdout


def _build(
    text: str,
    source: str,
    command: tuple[str, ...],
    flags: tuple[str, ...],
    suffix: str,
    extra: str = "",
    link: tuple[str, ...] = (),
) -> tuple[Path, str]:
    """The built file and the compiler's log, from the cache where possible.

    Args:
        text: source text.
        source: suffix of the source file.
        command: the compiler.
        flags: before the source.
        suffix: suffix of the result.
        extra: further text that decides the result.
        link: flags that must follow the source.
    """
    key = "\0".join([text, *command, *flags, *link, _output(*command, "--version"), extra])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    result, log = folder / f"{name}{suffix or '.bin'}", folder / f"{name}.log"
    kept = intact(result, log)
    if kept is not None:
        used(result, log)
        return result, kept
    with tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH_PREFIX) as scratch:
        # The file name enters the mangled names of a .cu, so it must be the same for everybody.
        written, made, said = Path(scratch, f"source{source}"), Path(scratch, "made"), Path(scratch, "log")
        written.write_text(text, encoding="utf-8")
        done = _run([*command, *flags, "-o", str(made), written.name, *link], scratch)
        report = done.stdout + done.stderr
        if done.returncode and _NO_HOST in report:
            raise MissingCompilerError(
                f"{_name(command)} found no working C++ compiler for the host; install g++, for example with `apt-get "
                "install g++`, or name one in $NVCC_CCBIN"
            )
        if done.returncode or not made.exists():
            raise BuildError(_name(command), report)
        said.write_text(f"{digest_of(made)}\n{report}", encoding="utf-8")
        publish(said, log)
        publish(made, result)
    trim(folder)
    return result, report
