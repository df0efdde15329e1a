"""CUDA text of the pass that makes planes: for each side a struct with its linear map, see ``kernels/planes.cuh``.

The map is emitted as direct sums, not as the shared-subexpression program: the pass is bound by memory traffic, so
additions are free, and a sum that is stored at once keeps no shared value alive in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.fused_tables import sources
from codegen.schedule import Schedule, Vector

# 32-bit registers that the widened blocks of one thread may take, comfortably and with exponents, and at all; a thread
# has 255.
_COMFORTABLE, _SCALED, _LIMIT = 100, 50, 200


# Indices of blocks are in the types, and elements are added one by one: operators on whole packs, inlined for every
# term, took a third of the time to compile 49 products.
_TERMS = """\
template <int FACTOR, int BLOCK>
struct Times {
  static constexpr int factor = FACTOR, block = BLOCK;
};
template <int BLOCK>
using Plus = Times<1, BLOCK>;
template <int BLOCK>
using Minus = Times<-1, BLOCK>;
template <class... TERMS, class Blocks>
__device__ __forceinline__ auto sum(const Blocks& x);
"""


@dataclass(frozen=True)
class Side:
    """The planes of one matrix.

    Attributes:
        rows: blocks in a column of the matrix.
        columns: blocks in a row of the matrix.
        planes: slot and coefficients over the blocks, row-major, of each plane.
        extras: the same for what is written only on demand and in the matrix' own type.
    """

    rows: int
    columns: int
    planes: tuple[tuple[int, Vector], ...]
    extras: tuple[tuple[int, Vector], ...] = ()


def fused_sides(schedule: Schedule) -> tuple[Side, Side]:
    """Both sides of a fused kernel: its planes in order, and as extras copies of the blocks it reads where they lie.

    Slots of extras are numbered like ``kBlocksOfA`` and ``kBlocksOfB`` of ``fused_tables.tables``.
    """
    m, k, n = schedule.plan.format
    sides = []
    for operands, planes, (rows, columns) in zip(
        sources(schedule), (schedule.planes_a, schedule.planes_b), ((m, k), (k, n)), strict=True
    ):
        blocks = [operand.index for operand in operands if not operand.plane]
        copies = [tuple(int(i == block) for i in range(rows * columns)) for block in blocks]
        sides.append(Side(rows, columns, tuple(enumerate(planes)), tuple(enumerate(copies))))
    return sides[0], sides[1]


def transposed(side: Side) -> Side:
    """The same planes, transposed, of a matrix that is stored transposed."""

    def moved(vector: Vector) -> Vector:
        return tuple(vector[i * side.columns + j] for j in range(side.columns) for i in range(side.rows))

    return Side(
        side.columns,
        side.rows,
        tuple((slot, moved(vector)) for slot, vector in side.planes),
        tuple((slot, moved(vector)) for slot, vector in side.extras),
    )


def sides_text(sides: Sequence[Side], input_bytes: int, plane_bytes: int, accumulator_bytes: int = 4) -> str:
    """The C++ structs ``MapA`` and ``MapB`` of both sides, and what the sums in them are written with.

    Args:
        sides: what is computed of A and of B.
        input_bytes: of an element of the matrix.
        plane_bytes: of an element of a plane.
        accumulator_bytes: of an element in which sums are computed.

    Raises:
        ValueError: more blocks than a thread's registers hold.
    """
    sizes = (input_bytes, plane_bytes, accumulator_bytes)
    return "\n".join([_TERMS, *(_side(f"Map{name}", side, *sizes) for name, side in zip("AB", sides, strict=True))])


def _side(name: str, side: Side, input_bytes: int, plane_bytes: int, accumulator_bytes: int) -> str:
    needed, rest = _needed(side.planes), _needed(side.extras)
    rest = [i for i in rest if i not in needed]
    count = len(needed) + len(rest)
    shape, narrowest = f"{side.rows} x {side.columns}", min(input_bytes, plane_bytes)
    # Sixteen doubles by ones leave room for twice as many threads as by twos: 0.91 of a copy's speed in place of 0.89.
    limits = (_COMFORTABLE if accumulator_bytes <= 4 else _SCALED, _SCALED)
    width, scaled = (access_width(shape, count, accumulator_bytes, narrowest, most) for most in limits)
    get = "template <class Get, class Blocks>\n  static __device__ __forceinline__ void"
    put = "template <class Blocks, class Put>\n  static __device__ __forceinline__ void"
    return "\n".join(
        [
            f"struct {name} {{",
            f"  static constexpr int rows = {side.rows}, columns = {side.columns};",
            f"  static constexpr int planes = {len(side.planes)}, extras = {len(side.extras)};",
            f"  static constexpr int width = {width}, scaled_width = {scaled};",
            f"  {get} load(Get get, Blocks& x) {{",
            *_loads(needed, side.columns),
            "  }",
            f"  {get} load_extras(Get get, Blocks& x) {{",
            *_loads(rest, side.columns),
            "  }",
            f"  {put} combine(const Blocks& x, Put put) {{",
            *_puts(side.planes),
            "  }",
            f"  {put} combine_extras(const Blocks& x, Put put) {{",
            *_puts(side.extras, copies=True),
            "  }",
            "};",
        ]
    )


def access_width(shape: str, blocks: int, accumulator_bytes: int, narrowest: int, most: int) -> int:
    """Elements of one access: 16 bytes of the narrower type, or fewer where a thread's blocks would take too much.

    Args:
        shape: of the cut matrix, for the message.
        blocks: that one thread holds.
        accumulator_bytes: of a widened element.
        narrowest: bytes of the narrowest stored element.
        most: 32-bit registers that the blocks may take.

    Raises:
        ValueError: more blocks than a thread's registers hold.
    """

    def registers(width: int) -> int:
        return blocks * width * accumulator_bytes // 4

    if registers(1) > _LIMIT:
        raise ValueError(
            f"a matrix cut into {shape} blocks has {blocks} of them in use, more than the "
            f"{_LIMIT * 4 // accumulator_bytes} that a CUDA thread can hold; use fewer levels"
        )
    width = 16 // narrowest
    while width > 1 and registers(width) > most:
        width //= 2
    return width


def sum_text(terms: dict[int, int], name: Callable[[int], str]) -> str:
    """A C++ expression for the sum of coefficient times value; a positive term comes first if there is one."""
    text = ""
    for index, c in _ordered(terms):
        magnitude = name(index) if abs(c) == 1 else f"Accumulator({abs(c)}) * {name(index)}"
        text += f" {'-' if c < 0 else '+'} {magnitude}" if text else ("-" if c < 0 else "") + magnitude
    return text


def _needed(planes: Sequence[tuple[int, Vector]]) -> list[int]:
    return sorted({i for _, vector in planes for i, c in enumerate(vector) if c})


def _loads(blocks: Sequence[int], columns: int) -> list[str]:
    return [f"    x.raw[{i}] = get({i // columns}, {i % columns});" for i in blocks]


def _puts(planes: Sequence[tuple[int, Vector]], copies: bool = False) -> list[str]:
    lines = []
    for slot, vector in sorted(planes):
        terms = {i: c for i, c in enumerate(vector) if c}
        if copies and list(terms.values()) == [1]:
            lines.append(f"    put({slot}, x.raw[{next(iter(terms))}]);")
        else:
            lines.append(f"    put({slot}, sum<{', '.join(_term(i, c) for i, c in _ordered(terms))}>(x));")
    return lines


def _ordered(terms: dict[int, int]) -> list[tuple[int, int]]:
    """Positive ones first."""
    return sorted(terms.items(), key=lambda term: (term[1] < 0, term[0]))


def _term(block: int, factor: int) -> str:
    names = {1: "Plus<", -1: "Minus<"}
    return f"{names.get(factor, f'Times<{factor}, ')}{block}>"
