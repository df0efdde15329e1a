"""The sm_80 kernel run on the host: its text against an emulation of the warp instructions and asynchronous copies.

Integers are chosen so that every step is exact; a wrong fragment, bank, barrier or wait then shows at once. The last
test proves that: it breaks the text and expects the emulation to notice.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest

from codegen.emit_ampere import FAMILY, PARTS, UNITS, block_tables
from codegen.fused_text import LARGEST, fused_text, ordered, prefix, types
from tests.codegen.fused_on_host import NUMPY, Opened, build, build_program
from tests.codegen.on_host import aligned
from tests.codegen.schemes import plans
from tests.fuzzing import rare

PLANS = plans()
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")

CASES = [
    ("trivial", "bf16", None, "fp32"),
    ("winograd", "bf16", "fp16", None),
    ("winograd2", "fp16", None, None),
    ("rectangular", "bf16", None, None),
    ("rational", "fp16", "fp16", "fp32"),
]
# m, k, n, gap between rows, elements off alignment, alpha, beta, planes prepared
LAUNCHES = [
    (1, 1, 1, 0, 0, 1, 0, False),
    (131, 70, 259, 3, 0, -2, 1, True),
    (40, 140, 264, 8, 1, 1, 0, False),
    (289, 33, 48, 8, 0, 1, -1, False),
]


def emulated(name, kinds) -> str:
    """The emitted text without the file of instructions that the emulation replaces."""
    parts = [part for part in PARTS if part != "ampere/ptx"]
    found = ordered(PLANS[name], kinds)
    return fused_text(found, kinds, FAMILY, "sm_80", parts, "unknown", UNITS, block_tables(found))


def opened(name, dtype, plane_dtype, c_dtype, folder, change=lambda text: text, **options) -> Opened:
    kinds = types(dtype, plane_dtype, c_dtype, **options)
    library = build(change(emulated(name, kinds)), folder)
    return Opened(library, prefix(PLANS[name], kinds, FAMILY), dtype, kinds.output)


def integers(m, k, n):
    rng = np.random.default_rng([m, k, n])
    return [rng.integers(-1, 2, shape) for shape in ((m, k), (k, n), (m, n))]


@pytest.mark.parametrize(("name", "dtype", "plane_dtype", "c_dtype"), CASES)
def test_launch_is_exact_on_integers(name, dtype, plane_dtype, c_dtype, tmp_path):
    kernel = opened(name, dtype, plane_dtype, c_dtype, tmp_path)
    for i, (m, k, n, gap, offset, alpha, beta, packed) in enumerate(LAUNCHES):
        a, b, c = integers(m, k, n)
        kernel.mode(backwards=i % 2 == 1, late=i % 4 < 2, multiprocessors=1 + i % 3)
        found = kernel.multiply(a, b, c, alpha, beta, gap, offset, packed)
        np.testing.assert_array_equal(found, alpha * (a @ b) + beta * c)


@pytest.mark.parametrize(
    ("name", "dtype", "plane_dtype"),
    [("winograd", "bf16", "fp16"), rare("winograd", "fp16", None), rare("mixed", "bf16", None)],
)
def test_a_guarded_kernel_has_what_is_not_finite_where_a_plain_product_has_it(name, dtype, plane_dtype, tmp_path):
    a, b, c = (x.astype(float) for x in integers(67, 70, 131))
    a[5, 60], a[50, 3], b[8, 100] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        exact = a @ b
    folders = [tmp_path / kind for kind in ("guarded", "free")]
    for folder in folders:
        folder.mkdir()
    guarded, free = (
        opened(name, dtype, plane_dtype, None, folder, guarded=folder.name == "guarded") for folder in folders
    )
    for gap, backwards in ((0, False), (3, True)):
        guarded.mode(backwards=backwards, late=backwards, multiprocessors=2)
        np.testing.assert_array_equal(guarded.multiply(a, b, c, gap=gap), exact)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(guarded.multiply(a, b, c, alpha=-0.5), -0.5 * exact)
    assert np.isfinite(exact).sum() > np.isfinite(free.multiply(a, b, c)).sum()
    # Two launches later nothing is left of that.
    finite = np.nan_to_num(a, posinf=1), np.nan_to_num(b, neginf=1)
    np.testing.assert_array_equal(guarded.multiply(*finite, c), finite[0] @ finite[1])
    with pytest.raises(AssertionError, match="beta must be 0"):
        guarded.multiply(*finite, c, beta=1.0)


@pytest.mark.parametrize(("dtype", "kind"), NUMPY.items())
def test_the_guard_knows_the_largest_number_of_each_type(dtype, kind):
    largest = np.float32(float.fromhex(LARGEST[dtype].rstrip("f")))
    with np.errstate(over="ignore"):
        assert np.isfinite(largest.astype(kind)) and np.isinf(np.nextafter(largest, np.float32(np.inf)).astype(kind))


def test_a_plane_beyond_the_range_of_fp16_is_repaired(tmp_path):
    a, b, c = integers(40, 70, 72)
    large = a * 2.0**15  # two of them are too much for a plane
    guarded = opened("winograd", "bf16", "fp16", None, tmp_path, guarded=True)
    np.testing.assert_array_equal(guarded.multiply(large, b, c), large @ b)


# Each takes one thing away from the text. Whether warps run forwards, copies land late, decides what shows.
BROKEN = {
    "registers of b": ("b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]", "b[j / 2][j % 2 * 2 + 1], b[j / 2][j % 2 * 2]"),
    "matrices of a": ("lane % 16, k / 8 + lane / 16))", "lane / 16 * 8 + lane % 8, k / 8 + lane / 8 % 2))"),
    "transposition of b": ("load_transposed(b[j]", "load_matrices(b[j]"),
    "swizzle of a": ("chunk ^ (row / 2 & 3)", "chunk"),
    "barrier": ("    __syncthreads();\n", ""),
    "wait": ("wait_copies<kStages - 2>", "wait_copies<kStages - 1>"),
    "stage that is overwritten": ("loader.load(stage_after(ring, kStages - 1))", "loader.load(stage_after(ring, 0))"),
    "slot of a pending tile": ("* kSlots + publication.slot)", "* kSlots)"),
    "columns that exist": ("min(max(columns_a_, 0), 8) * 2", "16"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_text_is_noticed(what, tmp_path):
    def change(text: str) -> str:
        assert text.count(BROKEN[what][0]) == 1
        return text.replace(*BROKEN[what])

    kernel = opened("winograd", "bf16", None, None, tmp_path, change)
    a, b, c = integers(140, 204, 140)
    wrong = 0
    for backwards, late in ((False, True), (True, False)):
        kernel.mode(backwards, late, 1)
        try:
            wrong += bool((kernel.multiply(a, b, c) != a @ b).any())
        except AssertionError:
            wrong += 1
    assert wrong


@pytest.mark.parametrize("broken", [False, True])
def test_the_self_test_tells_right_from_wrong(broken, tmp_path):
    text = emulated("winograd", types("bf16", "fp16"))
    # The two sizes that would take an emulation too long.
    text, count = re.subn(r"\s*{(517|1000), \d+, \d+, [^}]*},", "", text)
    always = text.split("const Case cases[] = {", 1)[1].split("};", 1)[0]
    cases = always.count("{")
    assert count == 2 and cases > 6
    if broken:
        text = text.replace("b[j / 2][j % 2 * 2 + 1]);", "b[j / 2][j % 2 * 2]);")
    done = subprocess.run([build_program(text, tmp_path)], capture_output=True, text=True)
    assert done.returncode == int(broken), done.stdout + done.stderr
    assert done.stdout.count("\n") == cases + 1 and done.stdout.endswith("FAIL\n" if broken else "PASS\n")
    assert ("WRONG" in done.stdout) == broken


def test_wrong_arguments_are_refused_in_one_sentence(tmp_path):
    kernel = opened("winograd", "bf16", None, None, tmp_path)
    space = aligned(1 << 20, np.dtype(np.uint8))
    at, nbytes = space.ctypes.data, space.nbytes
    needed = kernel.entry("workspace")(8, 12, 10)

    def launch(m=8, n=12, k=10, a=at, lda=10, ldb=12, ldc=12, planes=None, workspace=at, size=nbytes, handle=True):
        given = kernel.handle if handle else None
        code = kernel.entry("launch")(
            given, None, m, n, k, 1.0, a, lda, at, ldb, 0.0, at, ldc, planes, None, workspace, size
        )
        assert code == 2
        return kernel.error()

    def pack(k=10, lda=10, a=at, planes=at, size=nbytes):
        assert kernel.entry("pack_a")(kernel.handle, None, 8, k, a, lda, planes, size) == 2
        return kernel.error()

    largest = (1 << 30) - 1024
    assert launch(handle=False) == "the handle is null: open one first"
    assert launch(m=0) == "sizes must be positive and addressable, not M=0 N=12 K=10"
    assert launch(k=largest + 1).startswith("sizes must be positive and addressable")
    assert launch(lda=9) == "leading dimensions must be lda >= 10, ldb >= 12, ldc >= 12 (row-major)"
    assert launch(ldb=largest + 1) == f"leading dimensions of A and B must be at most {largest}"
    assert launch(a=None) == "A, B and C must not be null"
    assert launch(planes=at + 16) == "planes must be 256-byte aligned"
    assert launch(workspace=at + 16) == "the workspace must be 256-byte aligned"
    assert launch(workspace=None).startswith("the workspace has 0 bytes")
    # Neither A nor B is aligned here, so all of it is needed.
    assert launch(lda=11, ldb=13, size=needed - 1) == f"the workspace has {needed - 1} bytes, {needed} are needed"
    assert pack(k=0) == "sizes must be positive and addressable, not 8 x 0"
    assert pack(lda=9).startswith("the leading dimension must be at least 10 (row-major)")
    assert pack(planes=None) == "the matrix and its planes must not be null"
    assert pack(planes=at + 8) == "the planes must be 256-byte aligned"
    assert pack(size=16).startswith("the planes have 16 bytes")
    assert kernel.entry("open")(None) == 2 and kernel.error() == "handle must not be null"
    assert kernel.entry("workspace")(0, 1, 1) == kernel.entry("planes_a")(1, 0) == kernel.entry("planes_b")(0, 1) == 0
    kernel.entry("close")(None)


@pytest.mark.parametrize(
    ("name", "dtype", "plane_dtype", "reach"),
    [
        rare("winograd", "bf16", None, 30),
        ("winograd", "bf16", "fp16", 30),
        rare("winograd", "fp16", None, 5),
        ("rectangular", "bf16", None, 30),
        rare("trivial", "bf16", None, 30),
    ],
)
def test_scaled_rows_and_columns_come_out_exactly(name, dtype, plane_dtype, reach, tmp_path):
    kernels = []
    for scaled in (False, True):
        (tmp_path / str(scaled)).mkdir()
        kernels.append(opened(name, dtype, plane_dtype, None, tmp_path / str(scaled), scaled=scaled))
    differs = False
    for i, (m, k, n, gap, packed) in enumerate([(140, 70, 133, 0, False), (131, 40, 72, 3, True)]):
        a, b, _ = integers(m, k, n)
        rng = np.random.default_rng(i)
        rows, columns = (np.exp2(rng.integers(-reach, reach + 1, shape)) for shape in ((m, 1), (1, n)))
        expected = rows * (a @ b) * columns
        zero = np.zeros((m, n))
        plain, found = (kernel.multiply(a * rows, b * columns, zero, 1.0, 0.0, gap, 0, packed) for kernel in kernels)
        np.testing.assert_array_equal(found, expected)
        differs |= bool((plain != expected).any())
        held = kernels[1].multiply(a * rows, b * columns, expected, -1.0, 1.0, gap, 0, packed)
        np.testing.assert_array_equal(held, zero)
    assert differs or name == "trivial" or reach < 30
