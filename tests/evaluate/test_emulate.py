"""Emulated FP16/BF16 errors against direct formulas and against figures known from theory and other simulations."""

import re

import ml_dtypes
import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format
from codegen.emit import emit
from codegen.plan import plan
from evaluate.accuracy import errors
from evaluate.emulate import emulate, emulate_baseline, rounded
from evaluate.operands import draw, narrow, widen
from tests.codegen.schemes import plans


def test_one_strassen_level_agrees_with_the_formulas_written_out():
    rng = np.random.default_rng(3)
    a, b = (widen(np, draw(np, rng, (64, 64), "bf16"), "bf16", "float32") for _ in range(2))

    def r(x):
        return x.astype(ml_dtypes.bfloat16).astype(np.float32)

    a11, a12, a21, a22 = a[:32, :32], a[:32, 32:], a[32:, :32], a[32:, 32:]
    b11, b12, b21, b22 = b[:32, :32], b[:32, 32:], b[32:, :32], b[32:, 32:]
    p1, p2 = r(r(a11 + a22) @ r(b11 + b22)), r(r(a21 + a22) @ b11)
    p3, p4 = r(a11 @ r(b12 - b22)), r(a22 @ r(b21 - b11))
    p5, p6, p7 = r(r(a11 + a12) @ b22), r(r(a21 - a11) @ r(b11 + b12)), r(r(a12 - a22) @ r(b21 + b22))
    whole = np.block([[p1 + p4 - p5 + p7, p3 + p5], [p2 + p4, p1 - p2 + p3 + p6]])
    np.testing.assert_array_equal(emulate(plan(strassen()), a, b, "bf16"), r(whole))


def factors_of(text, side, blocks, copied, r):
    """The factors of all products that an emitted CUDA text computes from a grid of fp32 blocks.

    Plain blocks are read where they lie or, if ``copied``, every product has a plane of its own; ``r`` rounds planes.
    """
    body = text.split(f"struct Map{side} {{\n", 1)[1].split("\n};", 1)[0]
    functions = dict(re.findall(r" void (\w+)\([^)]*\) \{\n(.*?)\n? {2}\}", body, re.S))
    assert set(functions) == {"load", "load_extras", "combine", "combine_extras"}

    class Loaded(dict):
        """Blocks by their number; there are only those that the text has loaded."""

        @property
        def raw(self):
            return self

    x, planes = Loaded(), {}

    def put(slot, value):
        assert slot not in planes, "a plane is written once"
        planes[slot] = r(value)

    scope = {"Accumulator": np.float32, "x": x, "get": lambda i, j: blocks[i][j], "put": put}
    for name in ("load", "combine", *(("load_extras", "combine_extras") if copied else ())):
        for line in functions[name].splitlines():
            exec(re.sub(r"sum<(.*)>\(x\)", in_python, line.strip().rstrip(";")), scope)
    table = text.split(f"constexpr short kFactors{side}[kRank] = {{", 1)[1].split("}", 1)[0]
    entries = [int(entry) for entry in table.split(",")]
    if copied:
        return [planes[product] for product in range(len(entries))]
    flat = sum(blocks, [])
    return [planes[entry] if entry >= 0 else flat[-1 - entry] for entry in entries]


def outputs_of(text, products, m, n):
    """The blocks of C that an emitted CUDA text adds up from the products."""
    body = text.split("struct MapC {\n", 1)[1].split("\n};", 1)[0].split("Block& y) {\n", 1)[1].rsplit("}", 1)[0]
    left = iter(products)
    scope = {"Accumulator": np.float32, "y": [None] * (m * n), "next": lambda: next(left)}
    for line in body.splitlines():
        exec(line.strip().removeprefix("const auto ").rstrip(";"), scope)
    assert next(left, None) is None, "every product is read"
    return np.block([[scope["y"][i * n + j] for j in range(n)] for i in range(m)])


def in_python(found):
    """``sum<Plus<0>, Minus<2>, Times<3, 1>>(x)`` as Python, added in the same order."""
    text = ""
    for kind, factor, block in re.findall(r"(Plus|Minus|Times)<(?:(-?\d+), )?(\d+)>", found[1]):
        c = int(factor or (1 if kind == "Plus" else -1))
        term = f"x[{block}]" if abs(c) == 1 else f"Accumulator({abs(c)}) * x[{block}]"
        text += f" {'-' if c < 0 else '+'} {term}" if text else ("-" if c < 0 else "") + term
    return text


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("name", ["winograd", "winograd2", "rectangular", "classical", "trivial"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_sums_are_those_of_the_emitted_cuda_bit_for_bit(name, dtype, copied):
    made = plans()[name]
    m, k, n = made.format
    rng = np.random.default_rng(6)
    a = [[widen(np, draw(np, rng, (8, 8), dtype), dtype, "float32") for _ in range(k)] for _ in range(m)]
    b = [[widen(np, draw(np, rng, (8, 8), dtype), dtype, "float32") for _ in range(n)] for _ in range(k)]
    text = emit(made, "cuda", dtype=dtype)

    def r(x):
        return rounded(x, dtype)

    left, right = (factors_of(text, side, blocks, copied, r) for side, blocks in (("A", a), ("B", b)))
    expected = outputs_of(text, [r(x @ y) for x, y in zip(left, right, strict=True)], m, n)
    np.testing.assert_array_equal(emulate(made, np.block(a), np.block(b), dtype), rounded(expected, dtype))


def test_the_trivial_scheme_is_the_plain_product():
    rng = np.random.default_rng(4)
    a, b = (widen(np, draw(np, rng, (33, 33), "fp16"), "fp16", "float32") for _ in range(2))
    trivial = plan(classical(Format(1, 1, 1)))
    np.testing.assert_array_equal(emulate(trivial, a, b, "fp16"), emulate_baseline(a, b, "fp16"))


# Factors over a plain GEMM in relative Frobenius error, normal data; they hardly depend on n. Strassen by hand:
# rounding planes adds 7 to the squared factor, and storing products adds 4, the mean over C of the summed variances of
# its products over that of C; so sqrt(1 + 7) = 2.83 and sqrt(1 + 7 + 4) = 3.46.
@pytest.mark.parametrize(
    ("scheme", "levels", "planes", "products", "factor"),
    [
        (strassen(), 1, "bf16", "fp32", 2.83),
        (winograd(), 1, "bf16", "fp32", 3.74),
        (strassen(), 1, "bf16", "bf16", 3.46),
        (strassen(), 2, "bf16", "fp32", 5.80),
        (strassen(), 1, "fp16", "fp32", 1.01),
        (winograd(), 1, "fp16", "fp32", 1.03),
    ],
)
def test_errors_grow_by_the_known_factors(scheme, levels, planes, products, factor):
    n = 384
    rng = np.random.default_rng(5)
    a, b = draw(np, rng, (n, n), "bf16"), draw(np, rng, (n, n), "bf16")
    wide = [widen(np, x, "bf16", "float32") for x in (a, b)]
    ours = emulate(plan(scheme, levels), *wide, "bf16", plane_dtype=planes, product_dtype=products)
    outputs = [narrow(np, x, "bf16") for x in (ours, emulate_baseline(*wide, "bf16"))]
    mine, plain = errors(np, outputs, a, b, "bf16")
    assert mine.fro / plain.fro == pytest.approx(factor, rel=0.05)


def test_bad_calls_are_refused():
    a, b = np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(ValueError, match="A has 3 columns but B has 4 rows"):
        emulate(plan(strassen()), a, b, "fp16")
    with pytest.raises(ValueError, match="unknown plane dtype"):
        emulate(plan(strassen()), a, b[:3], "fp16", plane_dtype="fp8")
