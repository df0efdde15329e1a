"""Marks of tests that need a tool: where CI must have it, its absence is a failure, elsewhere a reason to skip."""

import os
from collections.abc import Callable

import pytest

from codegen.build import MissingCompilerError, compiler
from codegen.sass import disassembler


def needs(find: Callable[[], str]) -> pytest.MarkDecorator:
    """Skip with the sentence of the missing tool; in CI the test runs, and fails by that sentence."""
    try:
        find()
    except MissingCompilerError as error:
        return pytest.mark.skipif(not os.environ.get("CI"), reason=str(error))
    return pytest.mark.skipif(False, reason="")


needs_nvcc = needs(lambda: compiler("nvcc"))
needs_disassembler = needs(disassembler)
