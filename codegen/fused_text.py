"""What the texts of all fused kernels share: types and constants, tables, linear maps, and how the files are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catalog.measures import growth
from codegen.device_text import STORAGE, guarded, joined
from codegen.emit_planes import fused_sides, sides_text, transposed
from codegen.epilogue import NOTHING, Epilogue
from codegen.epilogue_text import largest_integer, steps_text, with_epilogue
from codegen.fused_tables import tables
from codegen.heading import comment
from codegen.limits import check_chained
from codegen.plan import Plan
from codegen.schedule import Schedule, schedule

TYPES = ("fp16", "bf16")
# The largest numbers in fp32 that do not round to infinity.
LARGEST = {"fp16": "0x1.ffdffep15f", "bf16": "0x1.fefffep127f", "fp32": "0x1.fffffep127f"}
LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Types:
    """Storage types of a fused kernel, checked.

    Attributes:
        input: of A and B, "fp16" or "bf16".
        plane: of the planes, "fp16" or "bf16".
        output: of C, ``input`` or "fp32".
        layout: how A and B lie in memory, for each "n": as they are, or "t": transposed; both row-major.
        overlap: how many products that need no planes come first at least, while the planes are made; 0: none.
        constant_b: whether the planes of B are made before, so that only those of A count there.
        scaled: whether rows of A and columns of B are multiplied by powers of two, which are taken out of C.
        guarded: whether what is not finite in C is computed again as a plain product.
        epilogue: what is done to each element of C before it is stored.
    """

    input: str
    plane: str
    output: str
    layout: str = "nn"
    overlap: int = 0
    constant_b: bool = False
    scaled: bool = False
    guarded: bool = False
    epilogue: Epilogue = NOTHING

    @property
    def converted(self) -> bool:
        """Whether planes are of another type than the matrices."""
        return self.input != self.plane


def types(
    dtype: str,
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    layout: str = "nn",
    overlap: int = 0,
    constant_b: bool = False,
    scaled: bool = False,
    guarded: bool = False,
    epilogue: str | Epilogue = NOTHING,
) -> Types:
    """Fill in and check the storage types and the layout of a fused kernel.

    Args:
        dtype: "fp16" or "bf16": the type of A and B.
        plane_dtype: how planes are stored, "fp16" or "bf16". fp16 planes of bf16 matrices keep three more bits and
            have the smaller range: entries beyond 65504 become infinite. Default: ``dtype``.
        c_dtype: the type of C, ``dtype`` or "fp32". Default: ``dtype``.
        layout: "nn", "nt", "tn" or "tt": whether A and B are stored as they are or transposed.
        overlap: as in ``Types``.
        constant_b: as in ``Types``.
        scaled: as in ``Types``.
        guarded: as in ``Types``.
        epilogue: as in ``Types``, or its text.

    Raises:
        ValueError: a type, a layout, a number of products or an epilogue that the kernels do not have, or both
            ``overlap`` and ``scaled``.
    """
    if dtype not in TYPES:
        raise ValueError(f"unknown dtype {dtype!r} of a fused kernel; choose one of {', '.join(TYPES)}")
    if plane_dtype not in (None, *TYPES):
        raise ValueError(f"planes can be stored as {' or '.join(TYPES)}, not {plane_dtype!r}")
    if c_dtype not in (None, dtype, "fp32"):
        raise ValueError(f"C can be stored as {dtype} or fp32, not {c_dtype!r}")
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r} of A and B; choose one of {', '.join(LAYOUTS)}")
    if int(overlap) < 0:
        raise ValueError(f"so many products cannot come first: {overlap}; give 0 for one phase, or 1 and more")
    if overlap and scaled:
        raise ValueError("nothing overlaps where rows and columns are scaled, since all blocks are copied then")
    both, steps = bool(constant_b and overlap), Epilogue.parse(epilogue)
    found = dtype, plane_dtype or dtype, c_dtype or dtype, layout, int(overlap), both, bool(scaled), bool(guarded)
    return Types(*found, steps)


def prefix(plan: Plan, kinds: Types, family: str) -> str:
    """What the names of the entry points begin with, so that the files of one plan can be linked together."""
    parts = [plan.name, kinds.input, f"{kinds.plane}planes" if kinds.converted else ""]
    parts += [
        f"overlapped{kinds.overlap}" if kinds.overlap else "",
        "constant_b" if kinds.constant_b else "",
        "scaled" if kinds.scaled else "",
        "guarded" if kinds.guarded else "",
        "fp32c" if kinds.output != kinds.input else "",
        kinds.layout if kinds.layout != "nn" else "",
        kinds.epilogue.suffix,
    ]
    return "_".join(filter(None, [*parts, family]))


def ordered(plan: Plan, kinds: Types) -> Schedule:
    """What a fused kernel runs, in order.

    Raises:
        ValueError: a plan with too many products or blocks, or without products to overlap with.
    """
    check_chained(plan, "fused")
    return schedule(plan, kinds.converted, kinds.overlap, kinds.constant_b)


def fused_text(
    found: Schedule,
    kinds: Types,
    family: str,
    arch: str,
    parts: Sequence[str],
    version: str,
    units: tuple[int, int, int],
    further: str = "",
    pending: str = "fp32",
) -> str:
    """One self-contained .cu.

    Args:
        found: of ``ordered``.
        kinds: storage types.
        family: what distinguishes the entry points of this kind of kernel, for example "sm80".
        arch: real architecture to build for, in the instructions at the top.
        parts: files of ``kernels/`` without the suffix, in order.
        version: of the emitting program.
        units: blocks are rounded up to multiples of these many elements along M, K and N.
        further: declarations that this kind of kernel needs.
        pending: how pending tiles are stored, "fp32" or "fp16".
    """
    if kinds.scaled:
        parts = [part for each in parts for part in ((each, "exponents") if each == "planes" else (each,))]
    if kinds.guarded:
        parts = [part for each in parts for part in ((each, "guard") if each == "fused_work" else (each,))]
    if kinds.epilogue:
        parts = with_epilogue(parts)
    includes, body = joined(parts, (kinds.input, kinds.plane, kinds.output), kinds.epilogue)
    text = [guarded(includes), _constants(found, kinds, units, pending)]
    text += [part for part in (steps_text(kinds.epilogue, "Output"), further, body) if part]
    body = "\n".join(text).replace("SCHEME_", prefix(found.plan, kinds, family) + "_")
    return _banner(found, kinds, arch, version, pending) + "\n" + body


def _banner(found: Schedule, kinds: Types, arch: str, version: str, pending: str) -> str:
    plan = found.plan
    made = "planes of A are made; those of B are made before" if kinds.constant_b else "planes are made"
    facts = {
        "dtype": f"{kinds.input}, planes {kinds.plane}, C {kinds.output}, sums in fp32",
        "tile": f"{len(found.planes_a)} + {len(found.planes_b)} planes, {found.publications} publications, "
        f"{found.slots} pending in {pending}",
    }
    if kinds.epilogue:
        facts["after"] = f"{kinds.epilogue}, for each element of C in fp32"
    if kinds.overlap:
        facts["phases"] = f"two: {found.boundary} products first, while {made}"
    build = f"nvcc -O3 -std=c++17 -gencode=arch=compute_{arch[3:]},code={arch}"
    return f"""\
// C = alpha * A B + beta * C by a low-rank scheme, in one fused kernel: {plan.format} blocks, {plan.rank} products \
instead of {plan.format.volume}.
//
{comment(plan, version, "//", facts)}\
//
// Library: {build} -shared -Xcompiler -fPIC -o kernel.so FILE.cu
// Test:    {build} -DSUBCUBIC_MAIN -o selftest FILE.cu && ./selftest
"""


def _constants(found: Schedule, kinds: Types, units: tuple[int, int, int], pending: str) -> str:
    plan = found.plan
    m, k, n = plan.format
    significands = {STORAGE[kinds.output].significand}
    if found.planes_a or found.planes_b:
        significands.add(STORAGE[kinds.plane].significand)
    # A few roundings of what is stored, and the accumulation of some hundred to a thousand terms.
    unit = 8 * 2.0 ** -min(significands) + 32 * 2.0**-24
    # The standard algorithm has the growth factor mkn.
    tolerance = unit * max(1.0, growth(plan.scheme) / plan.format.volume)
    names = {"fp16": "f16", "bf16": "bf16"}
    plane_mma = f'#define SUBCUBIC_PLANE_MMA "{names[kinds.plane]}"\n' if kinds.converted else ""
    switches = {"SCALED": kinds.scaled, "GUARDED": kinds.guarded}
    defined = "".join(f"#define SUBCUBIC_{name}\n" for name, on in switches.items() if on)
    return f"""\
#define SUBCUBIC_INPUT_MMA "{names[kinds.input]}"
{plane_mma}{defined}
namespace {{

using Input = {STORAGE[kinds.input].name};
using Plane = {STORAGE[kinds.plane].name};
using Output = {STORAGE[kinds.output].name};
using Accumulator = float;
constexpr int kBlocksM = {m}, kBlocksK = {k}, kBlocksN = {n};
// Blocks are rounded up to multiples of these many elements.
[[maybe_unused]] constexpr int kUnitM = {units[0]}, kUnitK = {units[1]}, kUnitN = {units[2]};
constexpr float kDivisor = {plan.divisor};
constexpr bool kConverted = {str(kinds.converted).lower()};  // planes are of another type than the matrices
constexpr bool kConstantB = {str(kinds.constant_b).lower()};  // the first of two phases needs planes of B
constexpr bool kScaled = {str(kinds.scaled).lower()};  // by powers of two, rows of A and columns of B
constexpr bool kGuarded = {str(kinds.guarded).lower()};  // what is not finite in C is computed again
[[maybe_unused]] constexpr float kLargestC = {_largest(kinds)}
constexpr bool kTransposedA = {_flag(kinds, 0)}, kTransposedB = {_flag(kinds, 1)};  // as they lie in memory
#ifdef SUBCUBIC_MAIN
// Of the self-test: relative Frobenius error, and whether small integers pass through every step exactly.
constexpr double kTolerance = {tolerance:.3e};
constexpr bool kExactIntegers = {str(_exact(found, kinds, pending)).lower()};
#endif

{tables(found)}

{_maps(found, kinds)}

}}  // namespace
"""


def _largest(kinds: Types) -> str:
    """What a guard looks at is what comes before the steps of an epilogue, and that is never rounded to C's type."""
    if kinds.epilogue:
        return f"{LARGEST['fp32']};  // what is beyond is infinite"
    return f"{LARGEST[kinds.output]};  // what is beyond becomes infinite in C"


def _exact(found: Schedule, kinds: Types, pending: str) -> bool:
    """Whether the self-test's integer cases stay exact in every type: entries up to 1, inner size up to 32.

    |alpha A B + beta C| is at most 2 * 23 + 1 there, or 32, before the steps of an epilogue.
    """
    plan = found.plan
    if plan.divisor & (plan.divisor - 1):
        return False
    peak_a, peak_b = (int(np.abs(factor).sum(axis=0).max()) for factor in plan.scheme.factors[:2])
    planes = max(peak_a, peak_b) <= 1 << STORAGE[kinds.plane].significand
    output = largest_integer(kinds.epilogue, 2 * 23 + 1, 1) <= 1 << STORAGE[kinds.output].significand
    accumulator, slot = _peaks(found, -(-32 // plan.format.k))
    return planes and output and accumulator <= 1 << 24 and slot <= 1 << STORAGE[pending].significand


def _peaks(found: Schedule, depth: int) -> tuple[int, int]:
    """Largest magnitudes of the accumulator and of a pending tile, for entries up to 1 and blocks of a depth."""
    sides = (found.planes_a, found.planes_b)
    weight = lambda operand, planes: sum(map(abs, planes[operand.index])) if operand.plane else 1  # noqa: E731
    slots = [0] * found.slots
    now, peaks = 0, (0, 0)
    for turn in found.turns:
        product = depth * weight(turn.a, sides[0]) * weight(turn.b, sides[1])
        now = product if turn.clear else now + product
        for p in turn.publications:
            if p.resume:
                now += abs(p.coefficient) * slots[p.slot]
            elif not p.last:
                slots[p.slot] = abs(p.coefficient) * now + (0 if p.first else slots[p.slot])
        peaks = max(peaks[0], now), max(peaks[1], *slots, 0)
    return peaks


def _flag(kinds: Types, side: int) -> str:
    return str(kinds.layout[side] == "t").lower()


def _maps(found: Schedule, kinds: Types) -> str:
    """``MapA``, ``MapB``: what makes the planes."""
    lines = ["// The linear maps to the planes; extras are copies of the blocks that are read where they lie."]
    sides = [transposed(side) if kinds.layout[i] == "t" else side for i, side in enumerate(fused_sides(found))]
    element = STORAGE["fp16"].bytes
    return "\n".join([*lines, sides_text(sides, element, element)])
