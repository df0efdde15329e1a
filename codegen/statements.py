"""Python statements of a straight-line program, for the emitters of Python targets."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.additions import Program
from catalog.program_text import scaled, step_lines


def statements(program: Program, inputs: Sequence[str], prefix: str) -> tuple[list[str], list[str]]:
    """One assignment per step and one expression per output.

    Args:
        program: the program.
        inputs: names of its inputs.
        prefix: start of the names given to the results of its steps.

    Returns:
        Assignments in order, and the expressions of the outputs.
    """
    lines, outputs = step_lines(program, inputs, prefix, first=0, times=" * ")
    return lines, [scaled(coefficient, name, " * ") for name, coefficient in outputs]
