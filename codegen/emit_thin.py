"""CUDA text of products with few rows: the scheme of one product, made to read B as fast as memory gives it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from codegen.device_text import STORAGE, guarded, joined
from codegen.epilogue import NOTHING, Epilogue
from codegen.epilogue_text import declared, steps_text, with_epilogue
from codegen.fused_text import Types, types
from codegen.heading import block_comment, comment
from codegen.plan import Plan

FAMILY = "thin"
MOST_ROWS = 16  # that B is read once for
PARTS = (
    "host",
    "types",
    "thin/ptx",
    "thin/stream_ptx",
    "thin/task",
    "thin/write",
    "thin/piece",
    "thin/kernel",
    "thin/stream",
    "thin/encode",
    "thin/queue",
    "thin/tiles",
    "thin/choose",
    "thin/host",
    "thin/selftest",
)
LAYOUTS = ("nn", "nt")
_MMA = {"fp16": "f16", "bf16": "bf16"}
_HINTS = {"nn": "", "nt": ".L2::256B"}  # of loads of B into registers, see thin/ptx.cuh
_SUMS = 2.0**-18  # what the accumulation of some thousand terms in FP32 may cost


class Tile(NamedTuple):
    """What a block of the grid does that loads B into registers.

    Attributes:
        columns: warps side by side, each with columns of its own.
        depth: warps that share the depth of the same columns.
        stripes: of 16 columns that a warp has: 1, 2 or 4; of a transposed B any number.
        ahead: pieces of B that a warp has under way.
    """

    columns: int
    depth: int
    stripes: int = 1
    ahead: int = 3


class Streamed(NamedTuple):
    """What a block does that brings B through shared memory, on devices of compute capability 9.0 and later.

    Attributes:
        columns: of C, a multiple of 16.
        warps: that share the depth; an even number.
        depth: of a slot of a warp's ring, a multiple of 16, of a transposed B one of 64.
        slots: of each ring, if there is room for them beside the sums.
    """

    columns: int
    warps: int
    depth: int
    slots: int


# Narrow and deep ones for small products, which end before a block with much work of its own would; wide ones, whose
# warps share what they read of A, for large ones. Narrow enough that 4096 columns are as many blocks as a large device
# has multiprocessors, and one of 112 since widths of models are often 7 times a power of 2. Streamed ones follow, for
# products that keep a multiprocessor busy for long; of tiles that are alike the rule takes the first.
TILES = {
    "nn": (
        *(Tile(1, 8, 2), Tile(1, 16, 2, 2), Tile(1, 4, 2), Tile(1, 8), Tile(1, 4), Tile(7, 2)),
        *(Tile(1, 8, 4), Tile(1, 4, 4), Tile(1, 16, 4, 2), Tile(2, 4, 4), Tile(4, 2, 4), Tile(4, 4, 4, 2)),
        *(Streamed(64, 8, 64, 3), Streamed(112, 8, 32, 2), Streamed(112, 4, 64, 2), Streamed(128, 8, 32, 3)),
        *(Streamed(128, 4, 32, 3), Streamed(192, 4, 32, 3), Streamed(256, 4, 32, 2)),
    ),
    "nt": (
        *(Tile(1, 8), Tile(1, 4), Tile(1, 4, ahead=2), Tile(1, 16, ahead=2), Tile(1, 8, 2, 2), Tile(1, 4, 2, 2)),
        *(Tile(1, 16, 2, 1), Tile(7, 2, ahead=2), Tile(2, 4, 2, 2), Tile(4, 2, ahead=2), Tile(4, 4, 2, 1)),
        *(Streamed(32, 8, 128, 3), Streamed(112, 8, 64, 1), Streamed(112, 4, 64, 3)),
        *(Streamed(128, 8, 64, 1), Streamed(128, 4, 64, 2)),
    ),
}


def emit_thin(
    plan: Plan,
    dtype: str = "bf16",
    c_dtype: str | None = None,
    layout: str = "nn",
    epilogue: str | Epilogue = NOTHING,
    tiles: Sequence[Tile | Streamed] | None = None,
    version: str = "unknown",
) -> str:
    """One self-contained .cu: C entry points (``kernels/thin.h``), kernels and a self-test.

    Args:
        plan: of the scheme of one product.
        dtype: the type of A and B, "fp16" or "bf16".
        c_dtype: of C, ``dtype`` or "fp32". Default: ``dtype``.
        layout: "nn", or "nt" for a B that is stored transposed.
        epilogue: what is done to each element of C before it is stored, as in ``codegen.epilogue``; "bias,gelu" for
            example. A launch then has one more argument.
        tiles: to choose from, those of ``TILES`` by default.
        version: of the emitting program, for the first lines of the text.

    Raises:
        ValueError: a plan of more than one product, an unknown type or layout, or no tile.
    """
    name = prefix(plan, dtype, c_dtype, layout, epilogue)
    kinds = types(dtype, None, c_dtype, layout, epilogue=epilogue)
    chosen = TILES[layout] if tiles is None else tuple(tiles)
    if not chosen:
        raise ValueError("no tile was given; leave the tiles out for all that there are")
    parts = with_epilogue(PARTS) if kinds.epilogue else PARTS
    includes, body = joined(parts, (kinds.input, kinds.output), kinds.epilogue)
    steps = steps_text(kinds.epilogue, "Output")
    text = "\n".join([guarded(includes), _constants(kinds, chosen), *([steps] if steps else []), body])
    return _banner(plan, kinds, version) + "\n" + text.replace("SCHEME_", f"{name}_")


def header(
    plan: Plan,
    dtype: str = "bf16",
    c_dtype: str | None = None,
    layout: str = "nn",
    epilogue: str | Epilogue = NOTHING,
    version: str = "unknown",
) -> str:
    """The C header of the entry points of ``emit_thin`` with the same arguments."""
    text = declared(_file("thin.h"), Epilogue.parse(epilogue)).replace("/* PRODUCT */\n", _file("thin/product.h"))
    return block_comment(plan, version) + text.replace("SCHEME", prefix(plan, dtype, c_dtype, layout, epilogue))


def prefix(
    plan: Plan,
    dtype: str = "bf16",
    c_dtype: str | None = None,
    layout: str = "nn",
    epilogue: str | Epilogue = NOTHING,
) -> str:
    """What the names of the entry points of ``emit_thin`` with the same arguments begin with.

    Raises:
        ValueError: as ``emit_thin``.
    """
    if plan.rank != 1 or plan.format.volume != 1:
        raise ValueError(
            f"thin kernels are for the scheme of one product, 1x1x1, and the plan is of {plan.format} blocks and rank "
            f"{plan.rank}; with few rows no scheme pays, since the time is that of reading B: take classical-1x1x1"
        )
    if layout not in LAYOUTS:
        raise ValueError(f"thin kernels have the layouts {' and '.join(LAYOUTS)}, not {layout!r}")
    kinds = types(dtype, None, c_dtype, layout, epilogue=epilogue)
    parts = [FAMILY, kinds.input, "fp32c" if kinds.output != kinds.input else "", layout if layout != "nn" else ""]
    parts.append(kinds.epilogue.suffix)
    return "_".join(filter(None, parts))


def _file(name: str) -> str:
    return files("codegen.kernels").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _banner(plan: Plan, kinds: Types, version: str) -> str:
    build = "nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90"
    facts = {"dtype": f"{kinds.input}, C {kinds.output}, sums in fp32", "layout": kinds.layout}
    if kinds.epilogue:
        facts["after"] = f"{kinds.epilogue}, for each element of C in fp32"
    return f"""\
// C = alpha * A B + beta * C for up to {MOST_ROWS} rows of A, also many such products in one launch.
//
{comment(plan, version, "//", facts)}\
//
// Library: {build} -shared -Xcompiler -fPIC -o kernel.so FILE.cu
// Test:    {build} -DSUBCUBIC_MAIN -o selftest FILE.cu && ./selftest
"""


def _compiled(tile: Tile | Streamed) -> str:
    numbers = ", ".join(map(str, tile))
    return f"compiled_streamed<Streamed<{numbers}>>()" if isinstance(tile, Streamed) else f"compiled<Tile<{numbers}>>()"


def _constants(kinds: Types, tiles: Sequence[Tile | Streamed]) -> str:
    listed = ", \\\n      ".join(map(_compiled, tiles))
    tolerance = 2.0 ** -STORAGE[kinds.output].significand + _SUMS
    return f"""\
#pragma nv_diag_suppress 177  // not every function of the files that all kernels share is called here
#define SUBCUBIC_INPUT_MMA "{_MMA[kinds.input]}"
#define SUBCUBIC_STREAM_HINT "{_HINTS[kinds.layout]}"
#define SUBCUBIC_TILES \\
      {listed}

{_file("thin/product.h")}
namespace {{

using Input = {STORAGE[kinds.input].name};
using Output = {STORAGE[kinds.output].name};
using Accumulator = float;
constexpr bool kTransposedB = {str(kinds.layout[1] == "t").lower()};  // as it lies in memory
#ifdef SUBCUBIC_MAIN
constexpr double kTolerance = {tolerance:.3e};  // of the self-test: relative Frobenius error
#endif

}}  // namespace
"""
