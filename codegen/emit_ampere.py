"""CUDA text of the fused kernel for sm_80 and later: mma.sync, ldmatrix and cp.async."""

from __future__ import annotations

from codegen.emit_planes import fused_sides
from codegen.epilogue import NOTHING, Epilogue
from codegen.fused_text import fused_text, ordered, types
from codegen.fused_text import prefix as fused_prefix
from codegen.plan import Plan
from codegen.schedule import Schedule

FAMILY = "sm80"
UNITS = (1, 8, 8)  # accesses of 16 bytes ask for rows of 8 elements
PARTS = (
    "host",
    "types",
    "ahead",
    "planes",
    "fused_work",
    "ampere/ptx",
    "ampere/tile",
    "ampere/loader",
    "ampere/kernel",
    "ampere/launch",
    "fused_host",
    "fused_selftest",
)


def emit_ampere(
    plan: Plan,
    dtype: str = "bf16",
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    scale: bool = False,
    guard: bool = False,
    epilogue: str | Epilogue = NOTHING,
    version: str = "unknown",
) -> str:
    """One self-contained .cu: C entry points (``kernels/fused.h``), kernels and a self-test.

    Args:
        plan: what to compute; the trivial scheme gives a plain matrix product.
        dtype: the type of A and B; this and all types that follow as in ``codegen.fused_text.types``.
        plane_dtype: of the planes.
        c_dtype: of C.
        scale: as for ``codegen.emit_hopper.emit_hopper``.
        guard: likewise.
        epilogue: likewise.
        version: of the emitting program, for the first lines of the text.

    Raises:
        ValueError: an unknown type or step, or a plan with too many products or blocks.
    """
    kinds = types(dtype, plane_dtype, c_dtype, scaled=scale, guarded=guard, epilogue=epilogue)
    found = ordered(plan, kinds)
    return fused_text(found, kinds, FAMILY, "sm_80", PARTS, version, UNITS, block_tables(found))


def prefix(
    plan: Plan,
    dtype: str = "bf16",
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    scale: bool = False,
    guard: bool = False,
    epilogue: str | Epilogue = NOTHING,
) -> str:
    """What the names of the entry points of ``emit_ampere`` with the same arguments begin with."""
    return fused_prefix(
        plan, types(dtype, plane_dtype, c_dtype, scaled=scale, guarded=guard, epilogue=epilogue), FAMILY
    )


def block_tables(found: Schedule) -> str:
    """``BlocksOfA``, ``BlocksOfB``: which blocks are read where they lie."""
    lines = ["namespace {", ""]
    for name, side in zip("AB", fused_sides(found), strict=True):
        places = [vector.index(1) for _, vector in side.extras]
        lines += [
            f"__device__ constexpr short kPlacesOf{name}[] = {{{', '.join(map(str, places)) or '0'}}};",
            f"struct BlocksOf{name} {{",
            f"  static constexpr int count = {len(places)}, columns = {side.columns};",
            f"  static __device__ __forceinline__ int at(int source) {{ return kPlacesOf{name}[source]; }}",
            "};",
        ]
    return "\n".join([*lines, "", "}  // namespace", ""])
