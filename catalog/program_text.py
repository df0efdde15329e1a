"""A scheme as a straight-line program that a person can read: every line is one addition or one product."""

from __future__ import annotations

from fractions import Fraction

from catalog.additions import Program
from catalog.cse_search import Programs
from catalog.scheme import Scheme


def program_lines(scheme: Scheme, programs: Programs) -> list[str]:
    """Lines such as ``s1 = a11 + a12``, ``M1 = s1*b11``, ``t1 = M1 - M2`` and ``c11 = t1``, in an order that works.

    Sums of A are called s, those of B t and those of the products z. The denominators of a scheme over Q appear as
    fractions; over F2 and F3 the lines hold modulo 2 and 3.
    """
    m, k, n = scheme.format
    separator = "_" if max(scheme.format) > 9 else ""

    def entries(letter: str, rows: int, columns: int) -> list[str]:
        return [f"{letter}{i}{separator}{j}" for i in range(1, rows + 1) for j in range(1, columns + 1)]

    du, dv, dw = scheme.denominators
    lines_a, planes_a = _lines(programs.a, entries("a", m, k), "s", du)
    lines_b, planes_b = _lines(programs.b, entries("b", k, n), "t", dv)
    products = [f"M{term}" for term in range(1, scheme.rank + 1)]
    lines_c, results = _lines(programs.c, products, "z", dw)
    pairs = zip(products, planes_a, planes_b, strict=True)
    lines = lines_a + lines_b + [f"{name} = {_bracketed(a)}*{_bracketed(b)}" for name, a, b in pairs] + lines_c
    return lines + [f"{name} = {result}" for name, result in zip(entries("c", m, n), results, strict=True)]


def _lines(program: Program, inputs: list[str], letter: str, denominator: int) -> tuple[list[str], list[str]]:
    """One line a step, and the text of every output."""
    names, lines = list(inputs), []
    for number, (left, right, x, y) in enumerate(program.steps, start=1):
        second = _scaled(Fraction(abs(y)), names[right])
        lines.append(f"{letter}{number} = {_scaled(Fraction(x), names[left])} {'-' if y < 0 else '+'} {second}")
        names.append(f"{letter}{number}")
    return lines, [_scaled(Fraction(c, denominator), names[value]) if c else "0" for value, c in program.outputs]


def _scaled(coefficient: Fraction, name: str) -> str:
    if abs(coefficient) == 1:
        return name if coefficient > 0 else f"-{name}"
    return f"{coefficient}*{name}"


def _bracketed(text: str) -> str:
    return text if text.replace("_", "").isalnum() else f"({text})"
