"""Epilogues of the kernel for sm_80, run on the host: every step, applied once to each element of C where it is final."""

import shutil
import subprocess

import numpy as np
import pytest

from codegen.emit_ampere import FAMILY
from codegen.epilogue import STEPS, Epilogue, apply
from codegen.fused_text import prefix, types
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_host import NUMPY, Opened, build, build_program
from tests.codegen.schemes import plans
from tests.codegen.test_ampere_on_host import emulated, integers
from tests.fuzzing import rare

PLANS = plans()
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")

EVERYTHING = "column_scale,column_shift,gelu_tanh,residual,scale,bias,silu,gelu,relu"
CASES = [
    ("trivial", "bf16", None, "bias,gelu", {}),
    ("winograd", "bf16", None, "column_scale,column_shift,relu", {}),
    ("strassen", "fp16", "fp32", EVERYTHING, {}),
    ("winograd2", "fp16", None, "bias,residual,silu", {}),
    rare("rectangular", "bf16", None, EVERYTHING, {"scaled": True}),
    *(rare("winograd", dtype, None, step, {}) for step in STEPS for dtype in ("fp16", "bf16")),
]
# m, k, n, gap, elements off alignment, alpha, beta
LAUNCHES = [
    (1, 1, 1, 0, 0, 1, 0),
    (131, 70, 259, 3, 0, -0.5, 1),
    (7, 33, 264, 8, 1, 1, 0),
    (140, 16, 48, 8, 0, 0.25, -1),
]


def opened(name, dtype, c_dtype, epilogue, folder, change=lambda text: text, **options) -> Opened:
    kinds = types(dtype, None, c_dtype, epilogue=epilogue, **options)
    library = build(change(emulated(name, kinds)), folder)
    return Opened(library, prefix(PLANS[name], kinds, FAMILY), dtype, kinds.output, kinds.epilogue)


@pytest.mark.parametrize(("name", "dtype", "c_dtype", "text", "options"), CASES)
def test_steps_are_applied_once_to_sums_that_are_exact(name, dtype, c_dtype, text, options, tmp_path):
    epilogue, output = Epilogue.parse(text), c_dtype or dtype
    kernel = opened(name, dtype, c_dtype, epilogue, tmp_path, **options)
    for i, (m, k, n, gap, offset, alpha, beta) in enumerate(LAUNCHES):
        a, b, c = integers(m, k, n)
        operands = drawn(epilogue, m, n, NUMPY[output])
        kernel.mode(backwards=i % 2 == 1, late=i % 4 < 2, multiprocessors=1 + i % 3)
        found = kernel.multiply(a, b, c, alpha, beta, gap, offset, operands=operands)
        before = alpha * (a @ b) + beta * c
        off = np.abs(found - apply(epilogue, before, operands))
        assert (off <= bound(epilogue, before, operands, output)).all(), (off.max(), m, n)
