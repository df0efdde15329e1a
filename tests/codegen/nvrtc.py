"""The run-time compiler of CUDA by ctypes, as CuPy uses it: from the package nvidia-cuda-nvrtc or the toolkit."""

import ctypes
import functools
import os
import re
import shlex
import subprocess
from importlib import metadata
from pathlib import Path

from codegen.build import MissingCompilerError, compiler


@functools.cache
def path() -> str:
    """Where the library is.

    Raises:
        MissingCompilerError: nowhere.
    """
    try:
        files = metadata.files("nvidia-cuda-nvrtc") or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name.startswith("libnvrtc.so")]
    toolkit = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    found += [file for folder in ("lib64", "lib") for file in sorted(toolkit.glob(f"{folder}/libnvrtc.so*"))]
    if not found:
        raise MissingCompilerError("libnvrtc was not found; pip install nvidia-cuda-nvrtc")
    return str(found[0])


@functools.cache
def headers() -> str:
    """The folder of ``cuda_bf16.h``: that of the toolkit which nvcc belongs to, as it says itself.

    Raises:
        MissingCompilerError: no nvcc, or one without headers.
    """
    dry = [*shlex.split(compiler("nvcc")), "--dryrun", "-x", "cu", os.devnull]
    said = subprocess.run(dry, capture_output=True, text=True).stderr
    folders = [Path(root, "..", "include").resolve() for root in re.findall(r"^#\$ _HERE_=(.*)$", said, flags=re.M)]
    for folder in folders:
        if (folder / "cuda_bf16.h").exists():
            return str(folder)
    raise MissingCompilerError(f"cuda_bf16.h was not found in {folders}; install the CUDA toolkit")


def compile_device_part(text: str, arch: str) -> tuple[bytes, str]:
    """Compile CUDA text to a cubin; empty with the compiler's complaints where it refuses."""
    library = ctypes.CDLL(path())
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    options = [f"-arch={arch}", "-std=c++17", f"-I{headers()}"]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), given)
    log = _read(library, program, size, "ProgramLog").decode(errors="replace")
    cubin = b"" if status else _read(library, program, size, "CUBIN")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, size: ctypes.c_size_t, what: str) -> bytes:
    assert getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    buffer = ctypes.create_string_buffer(size.value)
    assert getattr(library, f"nvrtcGet{what}")(program, buffer) == 0
    return buffer.raw[: size.value]
