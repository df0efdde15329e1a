"""What the emitters of CUDA text share: storage types, and the files of ``kernels/`` joined to one text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from codegen.epilogue import NOTHING, Epilogue
from codegen.epilogue_text import switched


@dataclass(frozen=True)
class Storage:
    """A storage type: C++ name, bytes, cudaDataType_t value, significand bits."""

    name: str
    bytes: int
    library: int
    significand: int


STORAGE = {
    "fp16": Storage("__half", 2, 2, 11),
    "bf16": Storage("__nv_bfloat16", 2, 14, 8),
    "fp32": Storage("float", 4, 0, 24),
    "fp64": Storage("double", 8, 1, 53),
}
_ON_DEVICE = ("#include <cuda_bf16.h>", "#include <cuda_fp16.h>")
_INTEGERS = (
    "using int64_t = long long;",
    "using uint16_t = unsigned short;",
    "using uint32_t = unsigned int;",
    "using uint64_t = unsigned long long;",
    "using uintptr_t = unsigned long long;",
)


def joined(names: Sequence[str], dtypes: Sequence[str], epilogue: Epilogue = NOTHING) -> tuple[str, str]:
    """Files of ``kernels/`` as one text.

    Args:
        names: paths without their suffix, in order.
        dtypes: storage types that the text uses; the headers of others are left out, since they are the slowest part
            of its compilation.
        epilogue: what follows the product; with one the names are those of ``with_epilogue``.

    Returns:
        The includes of system headers, sorted, and everything else.
    """
    few = "hopper/few" in names
    bodies, includes = zip(*(_source(name, epilogue, few) for name in names), strict=True)
    headers = {"fp16": "#include <cuda_fp16.h>", "bf16": "#include <cuda_bf16.h>"}
    unneeded = {line for dtype, line in headers.items() if dtype not in dtypes}
    needed = {line for lines in includes for line in lines} - unneeded
    return "\n".join(sorted(needed)) + "\n", "\n".join(bodies)


def guarded(includes: str) -> str:
    """Includes of ``joined`` for nvcc and the run-time compiler (NVRTC), which has no headers of the host.

    It gets the integer types that device code uses instead; the files of fused kernels leave out host code for it.
    """
    lines = includes.splitlines()
    host = [line for line in lines if line not in _ON_DEVICE]
    both = [line for line in lines if line in _ON_DEVICE]
    return "\n".join([*both, "#ifdef __CUDACC_RTC__", *_INTEGERS, "#else", *host, "#endif\n"])


def _source(name: str, epilogue: Epilogue, few: bool) -> tuple[str, list[str]]:
    """A file of ``kernels/`` without its includes, and those of them that are not of its neighbours."""
    text = files("codegen.kernels").joinpath(*f"{name}.cuh".split("/")).read_text(encoding="utf-8")
    text = switched(text, epilogue, few)
    found = re.findall(r"^#include <.*>$", text, flags=re.M)
    return re.sub(r"(^#include .*\n)+\n*", "", text, flags=re.M), found
