"""CUDA text for sm_90a: the fused kernel of ``kernels/hopper`` put together with the tables of one schedule."""

from __future__ import annotations

import re
from importlib.resources import files

from codegen.emit_cuda import STORAGE
from codegen.fused_tables import sources, tables
from codegen.plan import Plan
from codegen.schedule import Operand, Schedule, schedule

LAYOUTS = ("nn", "nt", "tn", "tt")
_SOURCES = ("types", "fused_work", "fused_planes", "hopper/ptx", "hopper/wgmma", "hopper/tile", "hopper/products", "hopper/run", "fused_host")


def emit_hopper(
    plan: Plan,
    dtype: str = "bf16",
    plane_dtype: str | None = None,
    c_dtype: str | None = None,
    layout: str = "nn",
    version: str = "unknown",
) -> str:
    """One self-contained .cu for sm_90a with the entry points of ``kernels/fused.h``."""
    plane_dtype, c_dtype = plane_dtype or dtype, c_dtype or dtype
    made = schedule(plan, convert=plane_dtype != dtype)
    parts = [_constants(plan, dtype, plane_dtype, c_dtype, layout), tables(made), _factors(made, layout), _maps(made, layout)]
    bodies = []
    includes: set[str] = set()
    for name in _SOURCES:
        if name == "hopper/wgmma":
            bodies.append(wgmma({dtype, plane_dtype}, layout))
            continue
        text = files("codegen.kernels").joinpath(f"{name}.cuh").read_text(encoding="utf-8")
        includes |= set(re.findall(r"^#include <.*>$", text, flags=re.M))
        bodies.append(re.sub(r"(^#include .*\n)+\n*", "", text, flags=re.M))
    head = "\n".join(sorted(includes)) + "\n"
    return "\n".join([head, "namespace {", *parts, "}", *bodies]).replace("SCHEME_", prefix(plan, dtype, plane_dtype, c_dtype, layout) + "_")


def prefix(plan: Plan, dtype: str = "bf16", plane_dtype: str | None = None, c_dtype: str | None = None, layout: str = "nn") -> str:
    """What the names of the entry points begin with."""
    parts = [plan.name, "fused", dtype]
    if plane_dtype not in (None, dtype):
        parts.append(f"{plane_dtype}planes")
    if c_dtype not in (None, dtype):
        parts.append(f"{c_dtype}out")
    if layout != "nn":
        parts.append(layout)
    return "_".join(parts)


def _constants(plan: Plan, dtype: str, plane_dtype: str, c_dtype: str, layout: str) -> str:
    m, k, n = plan.format
    return f"""\
using Input = {STORAGE[dtype].name};
using Plane = {STORAGE[plane_dtype].name};
using Output = {STORAGE[c_dtype].name};
using Accumulator = float;
using i64 = long long;
constexpr int kBlocksM = {m}, kBlocksK = {k}, kBlocksN = {n};
constexpr float kDivisor = {plan.divisor};
constexpr bool kMixed = {str(plane_dtype != dtype).lower()};
constexpr bool kTransposedA = {str(layout[0] == "t").lower()}, kTransposedB = {str(layout[1] == "t").lower()};
"""


def _factors(made: Schedule, layout: str) -> str:
    m, k, n = made.plan.format
    left, right = sources(made)

    def factor(operand: Operand, columns: int, transposed: bool, plain: list[Operand]) -> str:
        if operand.plane:
            return f"{{1, 0, {operand.index}, {operand.index}}}"
        row, column = divmod(operand.index, columns)
        if transposed:
            row, column = column, row
        return f"{{0, {column}, {row}, {plain.index(operand)}}}"

    lines = ["struct Factor { short plane, column, row, index; };"]
    for name, side, columns, transposed, plain in (
        ("kLeft", "a", k, layout[0] == "t", left),
        ("kRight", "b", n, layout[1] == "t", right),
    ):
        items = ", ".join(factor(getattr(turn, side), columns, transposed, plain) for turn in made.turns)
        lines.append(f"__constant__ const Factor {name}[kTurnCount] = {{{items}}};")
    return "\n".join(lines) + """

"""


def _maps(made: Schedule, layout: str) -> str:
    m, k, n = made.plan.format
    texts = []
    for name, (rows, columns), side, planes, transposed, operands in (
        ("MapA", (m, k), "A", made.planes_a, layout[0] == "t", sources(made)[0]),
        ("MapB", (k, n), "B", made.planes_b, layout[1] == "t", sources(made)[1]),
    ):
        vectors = [
            planes[o.index] if o.plane else tuple(int(i == o.index) for i in range(rows * columns)) for o in operands
        ]
        if transposed:
            vectors = [tuple(v[c * columns + r] for r in range(columns) for c in range(rows)) for v in vectors]
            rows, columns = columns, rows
        table = ", ".join("{" + ", ".join(f"{x}" for x in v) + "}" for v in vectors)
        texts.append(f"""\
__device__ constexpr signed char k{name}[{len(vectors)}][{rows * columns}] = {{{table}}};
struct {name} {{
  static constexpr int rows = {rows}, columns = {columns}, plain = kPlain{side}, planes = kPlanes{side};
  static __device__ __forceinline__ float coefficient(int source, int block) {{ return k{name}[source][block]; }}
}};
""")
    return "\n".join(texts)


def wgmma(dtypes: set[str], layout: str) -> str:
    """The tensor-core instructions of 64 rows and every width, with their many operands."""
    lines = ["namespace {", "", "template <class Element, int N>"]
    lines += ["__device__ __forceinline__ void wgmma(float (&d)[N], u64 a, u64 b, bool add);", ""]
    ta, tb = int(layout[0] == "t"), int(layout[1] == "n")
    for dtype in sorted(dtypes):
        name, cpp = {"bf16": "bf16", "fp16": "f16"}[dtype], STORAGE[dtype].name
        for columns in (128, 192, 256):
            count = columns // 2
            registers = ", ".join(f"%{i}" for i in range(count))
            operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
            lines += [
                "template <>",
                f"__device__ __forceinline__ void wgmma<{cpp}, {count}>(float (&d)[{count}], u64 a, u64 b, bool add) {{",
                '  asm volatile("{\\n.reg .pred p;\\n"',
                f'      "setp.ne.b32 p, %{count + 2}, 0;\\n"',
                f'      "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name} {{{registers}}}, "',
                f'      "%{count}, %{count + 1}, p, 1, 1, {ta}, {tb};\\n}}"',
                f"      : {operands}",
                '      : "l"(a), "l"(b), "r"(static_cast<int>(add)));',
                "}",
                "",
            ]
    return "\n".join([*lines, "}  // namespace", ""])
