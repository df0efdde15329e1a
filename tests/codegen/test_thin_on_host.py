"""Thin kernels run on the host: their text against an emulation of warps, clusters and their shared memory."""

import re
import shutil
from itertools import product

import numpy as np
import pytest

from codegen.epilogue import apply
from codegen.extras import Operands
from evaluate.kernel import KernelError
from evaluate.thin.kernel import Product
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_host import NUMPY
from tests.codegen.thin_on_host import address, breaks, built, grouped, integers, multiplied, replacing
from tests.fuzzing import rare

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")


# groups, m, k, n, gap between rows, elements off alignment, alpha, beta, tile, split
LAUNCHES = [
    (1, 1, 1, 1, 0, 0, 1, 0, -1, 0),
    (1, 1, 256, 64, 0, 0, 1, 0, 0, 1),
    (1, 8, 304, 200, 8, 0, 2, 0, 0, 2),
    (2, 3, 40, 136, 0, 8, 1, 1, 1, 4),
    (1, 9, 136, 72, 8, 0, -1, 0, 1, 1),
    (1, 16, 520, 96, 0, 0, 1, -1, 0, 16),
    (3, 16, 72, 24, 8, 8, 1, 0, -1, 8),
    (1, 5, 77, 131, 3, 1, 1, 0, 0, 2),
    (2, 11, 130, 67, 0, 0, -2, 1, 1, 4),
    (1, 37, 80, 72, 0, 0, 1, 0, 0, 2),
    (1, 33, 19, 21, 1, 3, 1, 1, 0, 1),
    (1, 2, 8, 8, 0, 0, 1, 0, 1, 16),
]
# The narrower pieces of a B as it is: depths that end in every place of a piece, columns in every place of a block.
NARROW = [
    (groups, m, k, n, gap, offset, 1, beta, tile, split)
    for tile in (2, 3)
    for groups, m, k, n, gap, offset, beta, split in (
        (1, 1, 512, 64, 0, 0, 0, 1),
        (2, 8, 456, 40, 8, 8, 1, 2),
        (1, 16, 72, 136, 0, 0, 0, 4),
        (1, 3, 200, 8, 0, 0, 0, 1),
        (1, 25, 264, 72, 8, 0, 1, 1),
        (1, 5, 77, 35, 1, 1, 0, 2),
    )
]
KERNELS = [("bf16", "bf16", "nn"), ("fp16", "fp32", "nn"), ("fp16", "fp16", "nt"), ("bf16", "fp32", "nt")]


@pytest.mark.parametrize(("dtype", "c_dtype", "layout"), KERNELS)
def test_products_are_exact_on_integers(dtype, c_dtype, layout, tmp_path):
    kernel = built(tmp_path, dtype, c_dtype, layout)
    launches = LAUNCHES + (NARROW if layout == "nn" else [])
    for i, (groups, m, k, n, gap, offset, alpha, beta, tile, split) in enumerate(launches):
        kernel.library.host_mode(i % 2, i % 3 == 0, 132)
        a, b, c = integers(groups, m, k, n)
        found = multiplied(kernel, dtype, c_dtype, layout, a, b, c, alpha, beta, gap, offset, tile, split, early=i % 3)
        np.testing.assert_array_equal(found, alpha * (a @ b) + beta * c, f"{launches[i]}")


def test_groups_have_as_many_rows_as_the_offsets_say(tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", "nn")
    counts = [0, 5, 1, 0, 19, 3]
    offsets = np.cumsum([0, *counts], dtype=np.int32)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 2, (1, sum(counts), 72)), rng.integers(-1, 2, (len(counts), 72, 88))
    c = rng.integers(-1, 2, (1, sum(counts), 88))
    exact = np.concatenate([a[0, offsets[i] : offsets[i + 1]] @ b[i] for i in range(len(counts))])
    for most, split in ((8, 1), (16, 4)):
        found = grouped(kernel, a, b, c, offsets, most, split)
        np.testing.assert_array_equal(found[0], exact + c[0])


@pytest.mark.parametrize("layout", ["nn", rare("nt")])
def test_what_is_not_finite_stays_in_its_rows_and_columns(layout, tmp_path):
    kernel = built(tmp_path, "bf16", "fp32", layout)
    a, b, c = (x.astype(float) for x in integers(1, 5, 200, 72))
    a[0, 3, 150], b[0, 90, 70], b[0, 199, 8] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        exact = a @ b
    found = multiplied(kernel, "bf16", "fp32", layout, a, b, c, split=4)
    np.testing.assert_array_equal(found, exact)
    assert np.isfinite(found).sum() == np.isfinite(exact).sum() > 250


@pytest.mark.parametrize("layout", [rare("nn"), "nt"])
def test_one_operand_may_serve_all_groups(layout, tmp_path):
    kernel = built(tmp_path, "fp16", "fp16", layout)
    a, _, c = integers(3, 4, 72, 40)
    b = integers(1, 4, 72, 40)[1]
    found = multiplied(kernel, "fp16", "fp16", layout, a, b, c, shared_b=True)
    np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize(
    ("dtype", "c_dtype", "layout", "epilogue"),
    [
        ("bf16", "bf16", "nn", "bias,gelu"),
        ("fp16", "fp32", "nt", "column_scale,column_shift,residual,silu,scale"),
        ("bf16", "fp32", "nn", "scale,relu,residual"),
        rare("fp16", "fp16", "nt", "residual,gelu_tanh,bias"),
    ],
)
def test_an_epilogue_is_applied_to_the_whole_sum(dtype, c_dtype, layout, epilogue, tmp_path):
    kernel = built(tmp_path, dtype, c_dtype, layout, epilogue=epilogue)
    rng = np.random.default_rng(3)
    for number, (groups, m, k, n, split, beta) in enumerate(((2, 5, 456, 72, 4, 0), (3, 18, 77, 67, 1, 1))):
        a, b, c = (rng.integers(-2, 3, shape) / 4 for shape in ((groups, m, k), (groups, k, n), (groups, m, n)))
        own = number == 0  # vectors of each group, or of all
        parts = [drawn(kernel.epilogue, m, n, NUMPY[c_dtype], seed=group if own else 0) for group in range(groups)]
        stored = {
            name: np.concatenate([part[name] for part in parts]).astype(NUMPY[c_dtype])
            for name in kernel.epilogue.operands
        }
        addresses = {name: address(x) for name, x in stored.items()}
        operands = Operands(addresses, n, parts[0].get("scale", 1.0))
        found = multiplied(
            kernel, dtype, c_dtype, layout, a, b, c, 1, beta, split=split, operands=operands,
            stride_vectors=n if own else 0, further=stored.values(),
        )  # fmt: skip
        residual = [part.get("residual") for part in parts]
        for group in range(groups):
            given = dict(parts[group if own else 0])
            if residual[group] is not None:
                given["residual"] = stored["residual"].astype(float)[group * m : (group + 1) * m]
            sums = a[group] @ b[group] + beta * c[group]
            exact = apply(kernel.epilogue, sums, given)
            off = np.abs(found[group] - exact)
            assert (off <= bound(kernel.epilogue, sums, given, c_dtype)).all(), off.max()


def test_operands_that_are_missing_are_refused(tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", "nn", epilogue="bias,residual")
    a, b, c = integers(1, 2, 8, 8)
    memory = np.zeros(64, NUMPY["bf16"])
    with pytest.raises(ValueError, match="the epilogue bias,residual needs bias, residual; it was given nothing"):
        multiplied(kernel, "bf16", "bf16", "nn", a, b, c)
    for addresses, ld, sentence in (
        ({"bias": 0, "residual": address(memory)}, 8, "bias must not be null"),
        (
            {"bias": address(memory), "residual": address(memory)},
            7,
            "the leading dimension of residual must be at least 8",
        ),
    ):
        with pytest.raises(KernelError, match=sentence):
            multiplied(kernel, "bf16", "bf16", "nn", a, b, c, operands=Operands(addresses, ld))


BREAKS = {
    "nn": [
        ("halves<1>(b[q][j]", "halves<0>(b[q][j]"),
        ("at.k + (WHOLE ? i / few * few : i) < at.depth ? at.columns : 0", "at.columns"),
        ("8 * i < at.rows ? at.depth - at.k - j : 0", "at.depth - at.k - j"),
        ("i / few * few : i", "0 : i"),
        ("% 32 / 4 * lane_columns", "% 32 / 4 * 8"),
        ("at.lda + j,", "at.lda,"),
        ("a[i][q / few][q % few / 2 + 1]", "a[i][0][q % few / 2 + 1]"),
        ("    __syncthreads();\n    const int count_here", "    const int count_here"),
        ("      receive(first / ROWS & 1);\n", ""),
        ("if (size > 1 && first == 0) wait_for_others();", "if (size > 1) wait_for_others();"),
        ("  if (!early) wait_for_before();\n", ""),
        ("  if (early) wait_for_before();\n", ""),
        ("ahead * workers)", "ahead * workers + workers)"),
        ("if (e < count_here && e % S::columns < columns) write(first", "if (e < count_here) write(first"),
        ("(chunks - rank + size - 1) / size", "(chunks + size - 1) / size"),
        ("inbox + rank * each", "inbox + rank % 2 * each"),
        ("size > 1 ? cluster_wait() : __syncthreads()", "__syncthreads()"),
    ],
    "nt": [
        ("b[j][half][0][q + 1], b[j][half][1][q + 1]", "b[j][half][1][q + 1], b[j][half][0][q + 1]"),
        ("8 * j < at.columns ? at.depth - at.k - 32 * half : 0", "at.depth - at.k - 32 * half"),
        ("a[i][half][q + 1]", "a[i][half][q]"),
    ],
}


@pytest.mark.parametrize(("layout", "old", "new"), breaks(BREAKS, 3))
def test_the_emulation_notices_what_is_wrong(layout, old, new, tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", layout, replacing(old, new))
    wrong = 0
    shapes = (5, 456, 200, 4, 0), (40, 456, 72, 2, 1), (13, 200, 40, 1, 1), (3, 77, 21, 2, 0)
    for tile, (m, k, n, split, backwards) in product(range(len(kernel.tiles)), shapes):
        kernel.library.host_mode(backwards, 1 - backwards, 132)
        a, b, c = integers(1, m, k, n)
        try:
            found = multiplied(kernel, "bf16", "bf16", layout, a, b, c, tile=tile, split=split, early=1 + backwards)
            wrong += not np.array_equal(found, a @ b)
        except (AssertionError, KernelError):
            wrong += 1
    assert wrong


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"groups": 0}, "groups is 0; it must be 1..65535"),
        ({"m": 0}, "a size is 0; it must be 1..1073741824"),
        ({"a": None}, "A, B and C must not be null"),
        ({"ldb": 7}, "leading dimensions are 8, 7 and 8; they must be at least 8, 8 and 8"),
        ({"stride_a": -1}, "distances of groups must not be negative"),
        ({"groups": 2, "stride_c": 8}, "groups of C are 8 apart and overlap; 16 is the least"),
        ({"tile": 4}, "tile 4 and split 0 are not there; tile is -1..3, split 0, 1, 2, 4, 8 or 16"),
        ({"early": 3}, "early is 3; it must be 0, 1 or 2"),
        ({"stride_vectors": -1}, "the distance of the vectors of groups must not be negative"),
        ({"split": 3}, "tile -1 and split 3 are not there"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(changed, sentence, kernel_of_bf16):
    memory = np.zeros(64, NUMPY["bf16"]).ctypes.data
    task = Product(1, 2, 8, 8, 1.0, 0.0, memory, 8, 16, memory, 8, 64, memory, 8, 16, None, -1, 0)
    kernel_of_bf16.choose(task)
    for name, value in changed.items():
        setattr(task, name, value)
    for call in (lambda: kernel_of_bf16.launch(0, task), lambda: kernel_of_bf16.choose(task)):
        with pytest.raises(KernelError, match=re.escape(sentence)):
            call()


def test_the_rule_fills_the_device_without_a_cluster_where_it_can(kernel_of_bf16):
    assert kernel_of_bf16.tiles == [64, 128, 32, 32]
    ways = {}
    for m, n, k in ((1, 128, 4096), (1, 4096, 4096), (1, 4096, 512), (1, 16384, 512), (16, 32768, 4096), (1, 128, 64)):
        task = Product(1, m, n, k, 1.0, 0.0, 1, k, 0, 1, n, 0, 1, n, 0, None, -1, 0)
        tile, split, _ = kernel_of_bf16.choose(task)
        ways[m, n, k] = kernel_of_bf16.tiles[tile], split
        assert kernel_of_bf16.choose(task)[:2] == (tile, split)
    assert ways[1, 128, 4096] == (32, 16) and ways[1, 128, 64][1] == 1  # clusters only as far as there is depth for all
    assert ways[1, 4096, 4096] == ways[1, 4096, 512] == (32, 1)  # as many blocks as there are multiprocessors
    assert ways[1, 16384, 512] == ways[16, 32768, 4096] == (128, 1)
    for tile, split in ((1, 0), (-1, 4), (1, 4)):  # what is given is kept
        task = Product(1, 1, 4096, 4096, 1.0, 0.0, 1, 4096, 0, 1, 4096, 0, 1, 4096, 0, None, tile, split)
        found = kernel_of_bf16.choose(task)
        assert tile in (-1, found.tile) and split in (0, found.split)


def test_the_rule_of_a_square_is_narrower_for_fewer_rows(kernel_of_bf16):
    ways = {}
    for m, n, k in ((1, 4096, 4096), (16, 32768, 4096), (10, 128, 64)):
        way = kernel_of_bf16.square(Product(1, m, n, k, 1.0, 0.0, 1, k, 0, 1, n, 0, 1, n, 0, None, -1, 0))
        ways[m] = kernel_of_bf16.tiles[way.tile], way.split
    # 0.7 of 227 KiB hold two squares of 202 x 202 elements of 2 bytes: 13, 202 and 126 columns.
    assert ways == {1: (32, 2), 16: (128, 1), 10: (128, 4)}
    with pytest.raises(KernelError, match="a size is 0"):
        kernel_of_bf16.square(Product(1, 1, 1, 0, 1.0, 0.0, 1, 1, 0, 1, 1, 0, 1, 1, 0, None, -1, 0))


@pytest.fixture(scope="module")
def kernel_of_bf16(tmp_path_factory):
    return built(tmp_path_factory.mktemp("thin"), "bf16", "bf16", "nn")


def test_code_for_an_earlier_architecture_has_no_clusters(tmp_path):
    """The driver makes code for this device of PTX for an earlier one, in which cluster instructions are left out."""
    change = lambda text: f"static const int for_80 = built_for = 80;\n{text}"  # noqa: E731
    assert built(tmp_path, "bf16", "bf16", "nn", change).most_split == 1
