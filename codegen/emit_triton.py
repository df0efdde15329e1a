"""Triton text: ``kernels/twin_triton.py`` with the tables and the planes of one plan.

The chained kernel is unrolled by Triton from tables of constants: a branch around a product would make the compiler
carry copies of the accumulator in other layouts. The planes are written out as direct sums, since their pass is bound
by memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from codegen.heading import comment
from codegen.limits import check_chained
from codegen.plan import Plan
from codegen.schedule import Operand, Schedule, Vector, schedule

DTYPES = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}
_THREADS = 128
# FP32 values that a thread may hold of the blocks it combines; it has 255 registers.
_COMFORTABLE, _LIMIT = 64, 200
_WIDEST = 8  # 16-bit elements of one access of a thread


def emit_triton(plan: Plan, dtype: str = "bf16", plane_dtype: str | None = None, version: str = "unknown") -> str:
    """A self-contained module with ``matmul(a, b)`` for CUDA tensors that needs only Torch and Triton.

    One kernel a side writes the planes that are no plain blocks; one kernel runs all products of a tile in the order
    of ``codegen.chain`` through one fp32 accumulator. Any sizes; ``tune`` and ``resources`` are there, too.

    Args:
        plan: what to compute.
        dtype: fp16 or bf16: the type of A, B and C.
        plane_dtype: type of the planes, ``dtype`` or "fp16". fp16 planes of bf16 matrices round eight times finer but
            overflow beyond 65504. Default: ``dtype``.
        version: of the emitting program, for the first lines of the text.

    Raises:
        ValueError: another type, too many products, or more blocks than a thread's registers hold.
    """
    if dtype not in DTYPES:
        raise ValueError(f"the triton target has no {dtype}; choose one of {', '.join(DTYPES)}")
    plane_dtype = plane_dtype or dtype
    if plane_dtype not in {dtype, "fp16"}:
        raise ValueError(f"planes of {dtype} can be {' or '.join(sorted({dtype, 'fp16'}))}, not {plane_dtype}")
    check_chained(plan, "triton")
    order = schedule(plan, convert=plane_dtype != dtype)
    source = files("codegen.kernels").joinpath("twin_triton.py").read_text(encoding="utf-8")
    source = source.split("\n", 1)[1]  # its first line is its own description
    before, _, rest = source.partition("# <scheme>\n")
    _, _, after = rest.partition("# </scheme>\n")
    return _banner(plan, dtype, plane_dtype, version) + before + _scheme(order, dtype, plane_dtype) + after


def name(plan: Plan, dtype: str, plane_dtype: str | None = None) -> str:
    """A name for the module, by which those of one plan can be told apart."""
    return f"{plan.name}_{dtype}" + (f"_{plane_dtype}planes" if plane_dtype not in (None, dtype) else "")


def _banner(plan: Plan, dtype: str, plane_dtype: str, version: str) -> str:
    first = (
        f'"""C = A @ B with {plan.rank} block products instead of {plan.format.volume}, on NVIDIA GPUs by Triton."""'
    )
    return comment(plan, version, "#", {"dtype": f"{dtype}, planes {plane_dtype}, sums fp32"}) + first + "\n"


def _scheme(order: Schedule, dtype: str, plane_dtype: str) -> str:
    plan = order.plan
    m, k, n = plan.format
    products, publications = _tables(order)
    sides = (("a", order.planes_a, m, k), ("b", order.planes_b, k, n))
    spans = [_span(side, planes, rows * columns) for side, planes, rows, columns in sides]
    parts = [
        f"DTYPE, PLANE_DTYPE = {DTYPES[dtype]}, {DTYPES[plane_dtype]}\n",
        f"BLOCKS_M, BLOCKS_K, BLOCKS_N = {m}, {k}, {n}\n",
        f"RANK, DIVISOR = tl.constexpr({plan.rank}), tl.constexpr({plan.divisor})\n",
        f"PLANES_A, PLANES_B, SLOTS = {len(order.planes_a)}, {len(order.planes_b)}, {order.slots}\n",
        f"SPAN_A, SPAN_B = {spans[0]}, {spans[1]}  # elements of each block that a program combines\n",
        _table("PRODUCTS", products),
        _table("PUBLICATIONS", publications),
        *(_combine(*side) for side in sides),
    ]
    return "".join(parts)


def _tables(order: Schedule) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Rows of PRODUCTS and PUBLICATIONS."""
    _, k, n = order.plan.format
    products: list[tuple[int, ...]] = []
    publications: list[tuple[int, ...]] = []
    for turn in order.turns:
        first = len(publications)
        for p in turn.publications:
            publications.append((*divmod(p.block, n), p.coefficient, max(0, p.slot), int(p.first), int(p.last)))
        products.append((*_place(turn.a, k), *_place(turn.b, n), int(turn.clear), first, len(turn.publications)))
    return products, publications


def _place(operand: Operand, across: int) -> tuple[int, int, int]:
    """Whether it is a plane; then its number and 0, as planes lie one below the other; else row and column."""
    return (1, operand.index, 0) if operand.plane else (0, *divmod(operand.index, across))


def _table(name: str, rows: Sequence[tuple[int, ...]]) -> str:
    lines = "".join(f"        {row},\n" for row in rows)
    return f"{name} = tl.constexpr(\n    (\n{lines}    )\n)  # fmt: skip\n"


def _span(side: str, planes: Sequence[Vector], blocks: int) -> int:
    """Elements of a row that a program combines: 16 bytes a thread, or fewer where the blocks would not fit.

    Raises:
        ValueError: one element of each block is too much already.
    """
    if planes and blocks > _LIMIT:
        raise ValueError(
            f"{side.upper()} is cut into {blocks} blocks, more than the {_LIMIT} a Triton program combines; "
            "use fewer levels"
        )
    width = _WIDEST
    while width > 1 and blocks * width > _COMFORTABLE:
        width //= 2
    return _THREADS * width


def _combine(side: str, planes: Sequence[Vector], rows: int, columns: int) -> str:
    """The kernel that writes the planes of a side."""
    if not planes:
        return f"combine_{side} = None\n"
    used = [i for i in range(rows * columns) if any(plane[i] for plane in planes)]
    lines = [
        "",
        "",
        "@triton.jit",
        f"def combine_{side}(x, ld, all_rows, all_columns, planes, rows, columns, SPAN: tl.constexpr):",
        f'    """Planes of {side.upper()}: each element of every block is read once."""',
        "    row, column = place(columns, SPAN)",
    ]
    for i in used:
        down, right = divmod(i, columns)
        where = f"{_times(down, 'rows')}row, {_times(right, 'columns')}column"
        lines.append(f"    x{i} = read(x, ld, all_rows, all_columns, {where}, column < columns)")
    for number, plane in enumerate(planes):
        lines.append(f"    write(planes, {number}, {_sum(plane)}, row, column, rows, columns)")
    return "\n".join([*lines, ""])


def _times(count: int, size: str) -> str:
    return "" if count == 0 else f"{size} + " if count == 1 else f"{count} * {size} + "


def _sum(plane: Vector) -> str:
    """The linear combination of blocks, a positive term first if there is one."""
    text = ""
    for i, c in sorted(((i, c) for i, c in enumerate(plane) if c), key=lambda term: (term[1] < 0, term[0])):
        term = f"x{i}" if abs(c) == 1 else f"{abs(c)} * x{i}"
        text += f" {'-' if c < 0 else '+'} {term}" if text else ("-" if c < 0 else "") + term
    return text
