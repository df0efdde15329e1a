"""Epilogues of the kernel for sm_80 on the host: every step, applied once to each element of C where it is final."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from codegen.emit_ampere import FAMILY
from codegen.epilogue import STEPS, Epilogue, apply
from codegen.extras import Operands, extras_of
from codegen.fused_text import prefix, types
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_host import NUMPY, Opened, build, build_program
from tests.codegen.on_host import aligned
from tests.codegen.schemes import plans
from tests.codegen.test_ampere_on_host import emulated, integers
from tests.fuzzing import rare

PLANS = plans()
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")

EVERYTHING = "column_scale,column_shift,gelu_tanh,residual,scale,bias,silu,gelu,relu"
CASES = [
    rare("trivial", "bf16", None, "bias,gelu", {}),
    ("winograd", "bf16", None, "column_scale,column_shift,relu", {}),
    ("strassen", "fp16", "fp32", EVERYTHING, {}),
    rare("winograd2", "fp16", None, "bias,residual,silu", {}),
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


# Each does something once too often or at the wrong place.
ONCE = "return finished(x, work.extras, with, e); });"
OPERANDS = "fetched_edge<2>(work.extras, row, column, valid)"
BROKEN = {
    "twice": (ONCE, ONCE.replace("(x,", "(finished(x, work.extras, with, e),")),
    "at pending tiles": ("      if (keep) {\n", "      if (keep) {\n        sum.x = relu(sum.x + 1);\n"),
    "not at all": ("sum.v[e] = finished_unless_spoiled(", "if (e) sum.v[e] = finished_unless_spoiled("),
    "order": ("x += get(0);  // bias\n    x = relu(x);", "x = relu(x);\n    x += get(0);  // bias"),
    "row of the residual": (OPERANDS, OPERANDS.replace("row", "row - row % 2")),
    "column of the bias": ("ld[operand] : 0) + column;", "ld[operand] : 0) + column / 2;"),
    "NaN": ("return x < 0 ? Accumulator(0) : x;", "return x > 0 ? x : Accumulator(0);"),
}


@pytest.mark.parametrize("what", [name if name == "twice" else rare(name) for name in BROKEN])
def test_a_broken_text_is_noticed(what, tmp_path):
    def change(text: str) -> str:
        assert text.count(BROKEN[what][0]) == 1
        return text.replace(*BROKEN[what])

    epilogue = Epilogue.parse("bias,relu,residual")
    kernel = opened("winograd", "bf16", None, epilogue, tmp_path, change)
    a, b, c = integers(140, 24, 72)
    c = c.astype(float)
    c[3, 5] = np.nan
    operands, before = drawn(epilogue, 140, 72, NUMPY["bf16"]), a @ b + c
    try:
        found = kernel.multiply(a, b, c, beta=1.0, operands=operands)
    except AssertionError:  # of the emulation, which accesses violate
        return
    right = np.abs(found - apply(epilogue, before, operands)) <= bound(epilogue, before, operands, "bf16")
    assert not (right | (np.isnan(found) & np.isnan(before))).all()


@pytest.mark.parametrize(
    "text", ["bias,gelu", rare("residual,silu"), rare("column_scale,relu,scale"), rare("gelu_tanh")]
)
def test_what_is_not_finite_goes_through_the_steps_of_a_plain_product(text, tmp_path):
    epilogue = Epilogue.parse(text)
    a, b, c = (x.astype(float) for x in integers(67, 70, 131))
    finite = a, b
    a, b = a.copy(), b.copy()
    a[5, 60], a[50, 3], b[8, 100] = np.inf, np.nan, -np.inf
    operands = drawn(epilogue, 67, 131, NUMPY["bf16"])
    if "bias" in operands:
        operands["bias"][7] = np.inf  # which is no trace of a sum that has to be repaired
    kernel = opened("winograd", "bf16", None, epilogue, tmp_path, guarded=True)
    with np.errstate(invalid="ignore"):
        for backwards, factors in ((False, (a, b)), (True, (a, b)), (False, finite)):
            kernel.mode(backwards=backwards, late=backwards, multiprocessors=2)
            close(kernel.multiply(*factors, c, operands=operands), factors[0] @ factors[1], epilogue, operands, "bf16")


def close(found, before, epilogue, operands, dtype):
    exact = apply(epilogue, before, operands)
    fine = np.isfinite(exact)
    np.testing.assert_array_equal(found[~fine], exact[~fine])
    limit = bound(epilogue, before, operands, dtype)
    # Where an infinity leaves a finite number the limit of a function has to come out.
    limit[~np.isfinite(limit)] = 0
    assert (np.abs(found - exact)[fine] <= limit[fine]).all()


@pytest.mark.parametrize("dtype", [rare("fp16"), "bf16"])
def test_functions_are_accurate_over_their_whole_range(dtype, tmp_path):
    """Sums that are any number of C's type, infinities and NaN among them, by products with one."""
    every = np.arange(0, 1 << 16, 29, dtype=np.uint16).view(NUMPY[dtype])
    with np.errstate(invalid="ignore"):
        values = np.append(every, np.array([np.inf, -np.inf, np.nan, 0.0], every.dtype)).astype(float)[:, None]
        for step in ("relu", "gelu", "gelu_tanh", "silu"):
            epilogue, folder = Epilogue((step,)), tmp_path / step
            folder.mkdir()
            found = opened("trivial", dtype, None, epilogue, folder).multiply(values, np.ones((1, 1)), 0 * values)
            close(found, values, epilogue, {}, dtype)


@pytest.mark.parametrize("broken", [False, rare(True)])
def test_the_self_test_tells_right_from_wrong(broken, tmp_path):
    text = emulated("winograd", types("bf16", epilogue="column_scale,bias,residual,scale,gelu"))
    text, count = re.subn(r"\s*{(517|1000), \d+, \d+, [^}]*},", "", text)  # would take an emulation too long
    assert count == 2
    if broken:
        assert text.count("x *= get(0);") == 1
        text = text.replace("x *= get(0);", "x -= get(0);")
    done = subprocess.run([build_program(text, tmp_path)], capture_output=True, text=True)
    assert done.returncode == int(broken), done.stdout + done.stderr
    assert done.stdout.endswith("FAIL\n" if broken else "PASS\n")


def test_wrong_operands_are_refused_in_one_sentence(tmp_path):
    kernel = opened("trivial", "bf16", None, Epilogue.parse("bias,residual,scale"), tmp_path)
    space = aligned(1 << 20, np.dtype(np.uint8))
    at = space.ctypes.data

    def launch(bias=at, residual=at, ld=12, extras=True):
        given = extras_of(kernel.epilogue, Operands({"bias": bias, "residual": residual}, ld))
        code = kernel.entry("launch")(
            kernel.handle, None, 8, 12, 8, 1.0, at, 8, at, 12, 0.0, at, 12, None, None, at, space.nbytes,
            ctypes.byref(given) if extras else None,
        )  # fmt: skip
        assert code == 2
        return kernel.error()

    assert launch(extras=False) == "the epilogue needs its operands, so extras must not be null"
    assert launch(bias=0) == "bias must not be null" and launch(residual=0) == "residual must not be null"
    assert launch(ld=11) == "the leading dimension of residual must be at least 12, not 11"
    assert launch(bias=at + 1) == "bias must start at a multiple of 2 bytes"
