"""Straight-line programs as text: every line is one addition or one product."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from catalog.additions import Program
from catalog.cse_search import Programs
from catalog.formulas import bracketed, entry_names
from catalog.scheme import Scheme

# A value of a program and the coefficient that an output has of it; 0 for an empty sum.
Output = tuple[str, int]


def program_lines(scheme: Scheme, programs: Programs) -> list[str]:
    """Lines such as ``s1 = a11 + a12``, ``M1 = s1*b11``, ``t1 = M1 - M2`` and ``c11 = t1``, in an order that works.

    Sums of A are called s, those of B t and those of the products z. The denominators of a scheme over Q appear as
    fractions; over F2 and F3 the lines hold modulo 2 and 3.
    """
    a, b, c = entry_names(scheme.format)
    products = [f"M{term}" for term in range(1, scheme.rank + 1)]
    lines: list[list[str]] = []
    outputs: list[list[str]] = []
    for program, inputs, letter, denominator in zip(
        (programs.a, programs.b, programs.c), (a, b, products), "stz", scheme.denominators, strict=True
    ):
        steps, found = step_lines(program, inputs, letter)
        lines.append(steps)
        outputs.append([scaled(Fraction(size, denominator), name) if size else "0" for name, size in found])
    left, right, entries = outputs
    pairs = zip(products, left, right, strict=True)
    multiply = [f"{name} = {bracketed(x)}*{bracketed(y)}" for name, x, y in pairs]
    return lines[0] + lines[1] + multiply + lines[2] + [f"{x} = {y}" for x, y in zip(c, entries, strict=True)]


def step_lines(
    program: Program, inputs: Sequence[str], letter: str, first: int = 1, times: str = "*"
) -> tuple[list[str], list[Output]]:
    """One assignment a step, and what every output is.

    Args:
        program: the program.
        inputs: names of its inputs.
        letter: beginning of the names given to the results of its steps.
        first: number of the first of them.
        times: what stands between a coefficient and a name.
    """
    names, lines = list(inputs), []
    for number, (left, right, x, y) in enumerate(program.steps, start=first):
        second = scaled(abs(y), names[right], times)
        lines.append(f"{letter}{number} = {scaled(x, names[left], times)} {'-' if y < 0 else '+'} {second}")
        names.append(f"{letter}{number}")
    return lines, [(names[value], coefficient) for value, coefficient in program.outputs]


def scaled(coefficient: int | Fraction, name: str, times: str = "*") -> str:
    """A multiple of a value."""
    if abs(coefficient) == 1:
        return name if coefficient > 0 else f"-{name}"
    return f"{coefficient}{times}{name}"
