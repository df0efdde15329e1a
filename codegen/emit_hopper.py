"""CUDA text of the fused kernel for sm_90a: bulk tensor copies, wgmma, and blocks that keep in step."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.device_text import STORAGE
from codegen.epilogue import NOTHING, Epilogue
from codegen.fused_tables import sources
from codegen.fused_text import Types, fused_text, ordered, types
from codegen.fused_text import prefix as fused_prefix
from codegen.plan import Plan
from codegen.schedule import Operand, Schedule

FAMILY = "sm90a"
PARTS = (
    "host",
    "types",
    "ahead",
    "planes",
    "fused_work",
    "hopper/ptx",
    "hopper/making",
    "hopper/jobs",
    "hopper/ring",
    "hopper/narrow",
    "hopper/tile",
    "hopper/sharing",
    "hopper/products",
    "hopper/run",
    "fused_host",
    "fused_selftest",
)
_FEW = {"hopper/products": "hopper/few", "hopper/run": "hopper/few_host"}  # what follows these files
# Columns of the tiles of C that are stored in bulk, and of all others.
_BULK_TILES, _DIRECT_TILE = (192, 256), 128
_LANES = 32  # of a warp, each of which keeps the scale of one slot


def emit_hopper(
    plan: Plan,
    dtype: str = "bf16",
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    layout: str = "nn",
    overlap: int = 0,
    constant_b: bool = False,
    scale: bool = False,
    guard: bool = False,
    epilogue: str | Epilogue = NOTHING,
    pace: bool = True,
    share: bool = True,
    pending_bits: int | None = None,
    version: str = "unknown",
) -> str:
    """One self-contained .cu: C entry points (``kernels/fused.h``), kernels and a self-test.

    Args:
        plan: what to compute; the trivial scheme gives a plain matrix product.
        dtype: the type of A and B; this and all types that follow as in ``codegen.fused_text.types``.
        plane_dtype: of the planes.
        c_dtype: of C.
        layout: of A and B, as there.
        overlap: planes are made by the same launch, while at least so many products run that need none of them; 0: by
            a pass before. That pays where the last tiles leave part of the device idle.
        constant_b: with ``overlap``: only planes of A are made then; those of B are given, or made by a pass before.
        scale: rows of A and columns of B are multiplied by powers of two, so that the largest magnitude of each is in
            [1, 2), and C is written without them. That keeps rows and columns of little weight accurate, and planes in
            FP16 in range. It takes a pass over A and B more, and copies of the blocks that are read where they lie.
        guard: what is not finite in C is computed again as a plain product, by a second kernel that does nothing where
            all is finite. So infinities and NaNs come out where they do in a plain product. beta must be 0.
        epilogue: what is done to each element of C before it is stored, as in ``codegen.epilogue``; "bias,gelu" for
            example. A launch then has one more argument.
        pace: blocks of the grid keep in step; switched off to measure what that brings.
        share: the last tiles are shared by several clusters; switched off for the same reason.
        pending_bits: 32, or 16 to keep pending tiles in FP16 with a scale for every 16 rows. That halves what they move
            and rounds them to 11 bits, beside 8 of the planes in bf16. Default: 16 where planes are in bf16 and there
            are at most 32 slots.
        version: of the emitting program, for the first lines of the text.

    Raises:
        ValueError: an unknown type, layout or step, a plan with too many products or blocks or none to overlap with,
            both ``overlap`` and ``scale``, or narrow pending tiles of more than 32 slots.
    """
    kinds = types(dtype, plane_dtype, c_dtype, layout, overlap, constant_b, scale, guard, epilogue)
    # Bulk copies take 64 rows of a transposed A and 64 columns of a B as it is, and rows of whole 16 bytes; bulk stores
    # take 64 x 64 of C, which are all of one block where there are several.
    m, _, n = plan.format
    units = (64 if kinds.layout[0] == "t" or m > 1 else 1, 8, 64 if kinds.layout[1] == "n" or n > 1 else 8)
    if pending_bits not in (None, 16, 32):
        raise ValueError(f"pending tiles have 16 or 32 bits, not {pending_bits}")
    found = ordered(plan, kinds)
    narrow = _narrow(found, kinds, pending_bits)
    tables = _tables(found, kinds, _switches(pace, share, narrow))
    parts = _with_few(PARTS) if _plain(found, kinds) else PARTS
    return fused_text(found, kinds, FAMILY, "sm_90a", parts, version, units, tables, "fp16" if narrow else "fp32")


def prefix(
    plan: Plan,
    dtype: str = "bf16",
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    layout: str = "nn",
    overlap: int = 0,
    constant_b: bool = False,
    scale: bool = False,
    guard: bool = False,
    epilogue: str | Epilogue = NOTHING,
    **_switched: int | None,
) -> str:
    """What the names of the entry points of ``emit_hopper`` with the same arguments begin with."""
    return fused_prefix(
        plan, types(dtype, plane_dtype, c_dtype, layout, overlap, constant_b, scale, guard, epilogue), FAMILY
    )


def _plain(found: Schedule, kinds: Types) -> bool:
    """Whether C is one product, of blocks as they lie, so that few tiles can have a kernel of their own."""
    as_they_lie = len(found.turns) == 1 and not found.planes_a and not found.planes_b
    once = all(one.coefficient == 1 for turn in found.turns for one in turn.publications)
    return as_they_lie and once and kinds.output != "fp32" and not kinds.scaled and not kinds.guarded


def _with_few(parts: Sequence[str]) -> list[str]:
    return [one for part in parts for one in ((part, _FEW[part]) if part in _FEW else (part,))]


def _narrow(found: Schedule, kinds: Types, pending_bits: int | None) -> bool:
    """Whether pending tiles have 16 bits."""
    if found.slots == 0:
        return False
    if pending_bits is None:
        return kinds.plane == "bf16" and found.slots <= _LANES
    if pending_bits == 16 and found.slots > _LANES:
        raise ValueError(f"pending tiles of 16 bits are there for at most {_LANES} slots, not for {found.slots}")
    return pending_bits == 16


def _switches(pace: bool, share: bool, narrow: bool) -> str:
    flags = f"kPaced = {str(bool(pace)).lower()}, kSharing = {str(bool(share)).lower()}"
    return f"[[maybe_unused]] constexpr bool {flags};\nconstexpr int kPendingBits = {16 if narrow else 32};"


def _tables(found: Schedule, kinds: Types, switches: str) -> str:
    lines = ["namespace {", "", switches, "", _factors(found, kinds.layout), "", _wgmma(kinds), "}  // namespace", ""]
    return "\n".join(
        [*(["#define SUBCUBIC_BULK  // C can be stored in bulk"] if kinds.output != "fp32" else []), *lines]
    )


def _factors(found: Schedule, layout: str) -> str:
    """Where the factors of each product lie, in the coordinates of their tensor maps."""
    _, k, n = found.plan.format
    lines = [
        "// A plane, or a block in the grid of the matrix as it lies in memory; index: among planes, or among copies.",
        "struct Factor { short plane, column, row, index; };",
    ]
    for name, side, columns, blocks, stored in zip(
        ("kLeft", "kRight"), "ab", (k, n), sources(found), layout, strict=True
    ):
        items = [_factor(getattr(turn, side), columns, blocks, stored == "t") for turn in found.turns]
        rows = [", ".join(items[i : i + 8]) for i in range(0, len(items), 8)]
        lines.append(f"__constant__ const Factor {name}[kTurnCount] = {{\n    " + ",\n    ".join(rows) + "};")
    return "\n".join(lines)


def _factor(operand: Operand, columns: int, blocks: list[Operand], transposed: bool) -> str:
    if operand.plane:
        return f"{{1, 0, {operand.index}, {operand.index}}}"
    row, column = divmod(operand.index, columns)
    if transposed:
        row, column = column, row
    return f"{{0, {column}, {row}, {blocks.index(operand)}}}"


def _wgmma(kinds: Types) -> str:
    """The tensor-core instruction of 64 rows, for each width and type, with its many operands."""
    lines = [
        "// d (64 rows) = or += a b, where a and b are descriptors of tiles in shared memory.",
        "template <class Element, int N>",
        "__device__ __forceinline__ void wgmma(float (&d)[N], unsigned long long a, unsigned long long b, bool add);",
    ]
    transposed = f"{int(kinds.layout[0] == 't')}, {int(kinds.layout[1] == 'n')}"
    tiles = (_DIRECT_TILE,) if kinds.output == "fp32" else (_DIRECT_TILE, *_BULK_TILES)
    for dtype in sorted({kinds.input, kinds.plane}):
        name = {"bf16": "bf16", "fp16": "f16"}[dtype]
        for columns in tiles:
            count = columns // 2
            registers = [f"%{i}" for i in range(count)]
            operands = [f'"+f"(d[{i}])' for i in range(count)]
            lines += [
                "template <>",
                f"__device__ __forceinline__ void wgmma<{STORAGE[dtype].name}, {count}>(",
                f"    float (&d)[{count}], unsigned long long a, unsigned long long b, bool add) {{",
                '  asm volatile("{\\n.reg .pred p;\\n"',
                f'      "setp.ne.b32 p, %{count + 2}, 0;\\n"',
                f'      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name} {{"',
                *(f'      "{text}"' for text in _wrapped(registers)),
                f'      "}}, %{count}, %{count + 1}, p, 1, 1, {transposed};\\n}}"',
                "      : " + "\n        ".join(_wrapped(operands)),
                '      : "l"(a), "l"(b), "r"(static_cast<int>(add)));',
                "}",
            ]
    return "\n".join(lines)


def _wrapped(items: list[str]) -> list[str]:
    """Eight items a line, with commas between all of them."""
    lines = [", ".join(items[i : i + 8]) for i in range(0, len(items), 8)]
    return [f"{line}, " for line in lines[:-1]] + lines[-1:]
