"""A scheme as a straight-line program in plain text, with common subexpressions shared, for other programs to read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from catalog.program_text import scaled, step_lines
from codegen.heading import comment
from codegen.plan import Plan

GRAMMAR = """\
#
# Grammar. A line is empty, a comment that begins with #, or one statement; every name is assigned once, before it is
# used. Blocks are named by row and column, from 1: a1_2 is in row 1, column 2 of A. C is not transposed.
#   statement = name "=" sum | name "=" name "*" name
#   sum       = term | term ("+" | "-") term
#   term      = ["-"] [number "*"] name
#   number    = digits ["/" digits]
#   name      = letter digits ["_" digits]
# Names: inputs a, b; sums s of blocks of A, t of blocks of B, u of products; products p; outputs c. A product of two
# names is one block product, its left factor of A and its right factor of B; every other line is a linear one.
"""


def emit_slp(plan: Plan, version: str = "unknown") -> str:
    """Additions, products and outputs, one statement a line; the grammar stands in the first lines.

    Args:
        plan: what to compute; over F2 and F3, too.
        version: of the emitting program, for the first lines of the text.
    """
    m, k, n = plan.format
    modulus = plan.base.ring.modulus
    rule = f"# All arithmetic is modulo {modulus}.\n" if modulus else ""
    before_a, planes_a = step_lines(plan.planes_a, _names("a", m, k), "s")
    before_b, planes_b = step_lines(plan.planes_b, _names("b", k, n), "t")
    products = [f"p{r}" for r in range(1, plan.rank + 1)]
    before_c, sums = step_lines(plan.outputs_c, products, "u")
    scaled_a, left = _factors(planes_a, "s", len(before_a))
    scaled_b, right = _factors(planes_b, "t", len(before_b))
    blocks = _names("c", m, n)
    outputs = [scaled(Fraction(coefficient, plan.divisor), name) for name, coefficient in sums]
    parts = {
        "sums of blocks of A": [*before_a, *scaled_a],
        "sums of blocks of B": [*before_b, *scaled_b],
        "products": [f"{p} = {x} * {y}" for p, x, y in zip(products, left, right, strict=True)],
        "sums of products": before_c,
        "blocks of C": [f"{name} = {text}" for name, text in zip(blocks, outputs, strict=True)],
    }
    text = [line for title, lines in parts.items() for line in ("", f"# {len(lines)} {title}", *lines)]
    return comment(plan, version, "#") + GRAMMAR + rule + "\n".join([*text, ""])


def _names(letter: str, rows: int, columns: int) -> list[str]:
    return [f"{letter}{i}_{j}" for i in range(1, rows + 1) for j in range(1, columns + 1)]


def _factors(planes: Sequence[tuple[str, int]], letter: str, count: int) -> tuple[list[str], list[str]]:
    """Statements for the factors that are multiples of a value, each once, and the name of every factor."""
    named: dict[tuple[str, int], str] = {}
    lines = []
    for name, coefficient in planes:
        if coefficient != 1 and (name, coefficient) not in named:
            named[name, coefficient] = f"{letter}{count + len(named) + 1}"
            lines.append(f"{named[name, coefficient]} = {scaled(coefficient, name)}")
    return lines, [named.get(plane, plane[0]) for plane in planes]
