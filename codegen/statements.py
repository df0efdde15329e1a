"""Python statements of a straight-line program, for the emitters of Python targets."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.additions import Program


def statements(program: Program, inputs: Sequence[str], prefix: str) -> tuple[list[str], list[str]]:
    """One assignment per step and one expression per output.

    Args:
        program: the program.
        inputs: names of its inputs.
        prefix: start of the names given to the results of its steps.

    Returns:
        Assignments in order, and the expressions of the outputs.
    """
    names = list(inputs)
    lines = []
    for number, (left, right, x, y) in enumerate(program.steps):
        sign = "-" if y < 0 else "+"
        lines.append(f"{prefix}{number} = {_scaled(names[left], x)} {sign} {_scaled(names[right], abs(y))}")
        names.append(f"{prefix}{number}")
    return lines, [_scaled(names[value], coefficient) for value, coefficient in program.outputs]


def _scaled(name: str, coefficient: int) -> str:
    if coefficient in (1, -1):
        return name if coefficient == 1 else f"-{name}"
    return f"{coefficient} * {name}"
