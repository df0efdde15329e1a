"""Streamed tiles of thin kernels on the host, with an emulation of bulk copies and of the barriers that count them."""

import re
import shutil

import numpy as np
import pytest

from codegen.emit_thin import TILES, Streamed
from codegen.epilogue import apply
from codegen.extras import Operands
from evaluate.kernel import KernelError
from evaluate.thin.kernel import Product, Way
from evaluate.thin.ways import handful
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_host import NUMPY
from tests.codegen.thin_on_host import (
    BOTH,
    FEW,
    SAME,
    STREAMED,
    address,
    breaks,
    built,
    grouped,
    integers,
    multiplied,
    replacing,
)
from tests.fuzzing import rare

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")
KERNELS = [("bf16", "bf16", "nn"), ("fp16", "fp32", "nt"), rare("fp16", "fp32", "nn"), rare("bf16", "bf16", "nt")]
# groups, m, k, n, gap between rows, alpha, beta: sizes that end in every place of a box, and more turns than blocks.
SHAPES = [
    (1, 1, 256, 64, 0, 1, 0),
    (1, 3, 200, 200, 8, -1, 1),
    (2, 9, 136, 136, 0, 1, 0),
    (3, 16, 72, 24, 8, 2, 1),
    (1, 37, 520, 72, 0, 1, 0),
    (5, 8, 8, 8, 0, 1, -1),
]


def streamed(layout: str) -> range:
    """Numbers of the streamed tiles among ``BOTH``."""
    return range(len(FEW[layout]), len(BOTH[layout]))


@pytest.mark.parametrize("multiprocessors", [rare(132), 3])
@pytest.mark.parametrize(("dtype", "c_dtype", "layout"), KERNELS)
def test_products_are_exact_on_integers(dtype, c_dtype, layout, multiprocessors, tmp_path):
    kernel = built(tmp_path, dtype, c_dtype, layout, tiles=BOTH[layout], multiprocessors=multiprocessors)
    for tile in streamed(layout):
        for i, (groups, m, k, n, gap, alpha, beta) in enumerate(SHAPES):
            kernel.library.host_mode(i % 2, i // 2 % 2, multiprocessors)
            a, b, c = integers(groups, m, k, n)
            for split in (1, 2, 8) if i % 2 else (1, 4):
                found = multiplied(
                    *(kernel, dtype, c_dtype, layout, a, b, c, alpha, beta, gap, 0, tile, split), early=(i + split) % 3
                )
                np.testing.assert_array_equal(found, alpha * (a @ b) + beta * c, f"{SHAPES[i]}, {tile}, {split}")


def test_columns_of_a_transposed_b_end_anywhere(tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", "nt", tiles=BOTH["nt"])
    for tile in streamed("nt"):
        for n, gap in ((1, 0), (35, 0), (97, 3)):
            a, b, c = integers(1, 5, 72, n)
            # Rows of C are then not aligned; those of A and B are, or a tile for any alignment takes over.
            found = multiplied(kernel, "bf16", "bf16", "nt", a, b, c, gap=gap, tile=tile, split=2)
            np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("layout", [rare("nn"), "nt"])
def test_groups_have_as_many_rows_as_the_offsets_say(layout, tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", layout, tiles=BOTH[layout], multiprocessors=3)
    counts = [0, 5, 1, 0, 19, 3, 0]
    offsets = np.cumsum([0, *counts], dtype=np.int32)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 2, (1, sum(counts), 72)), rng.integers(-1, 2, (len(counts), 72, 88))
    c = rng.integers(-1, 2, (1, sum(counts), 88))
    exact = np.concatenate([a[0, offsets[i] : offsets[i + 1]] @ b[i] for i in range(len(counts))])
    stored = b if layout == "nn" else np.ascontiguousarray(b.transpose(0, 2, 1))
    for tile in streamed(layout):
        for most, split, early in ((8, 1, 0), (16, 2, 2), (16, 1, 1)):
            found = grouped(kernel, a, stored, c, offsets, most, split, tile, early)
            np.testing.assert_array_equal(found[0], exact + c[0])


@pytest.mark.parametrize("layout", ["nn", rare("nt")])
def test_one_operand_may_serve_all_groups(layout, tmp_path):
    kernel = built(tmp_path, "fp16", "fp16", layout, tiles=BOTH[layout])
    a, _, c = integers(3, 4, 72, 40)
    b = integers(1, 4, 72, 40)[1]
    for tile in streamed(layout):
        found = multiplied(kernel, "fp16", "fp16", layout, a, b, c, shared_b=True, tile=tile, split=1)
        np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("layout", [rare("nn"), "nt"])
def test_what_is_not_finite_stays_in_its_rows_and_columns(layout, tmp_path):
    kernel = built(tmp_path, "bf16", "fp32", layout, tiles=BOTH[layout])
    a, b, c = (x.astype(float) for x in integers(1, 5, 200, 72))
    a[0, 3, 150], b[0, 90, 70], b[0, 199, 8] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        exact = a @ b
    for tile in streamed(layout):
        for split in (1, 4):
            found = multiplied(kernel, "bf16", "fp32", layout, a, b, c, tile=tile, split=split)
            np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize(("layout", "epilogue"), [("nn", "bias,gelu"), rare("nt", "column_scale,residual,silu,scale")])
def test_an_epilogue_is_applied_to_the_whole_sum(layout, epilogue, tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", layout, epilogue=epilogue, tiles=STREAMED[layout], multiprocessors=3)
    rng = np.random.default_rng(3)
    groups, m, k, n = 2, 18, 136, 72
    a, b, c = (rng.integers(-2, 3, shape) / 4 for shape in ((groups, m, k), (groups, k, n), (groups, m, n)))
    parts = [drawn(kernel.epilogue, m, n, NUMPY["bf16"], seed=group) for group in range(groups)]
    stored = {
        name: np.concatenate([part[name] for part in parts]).astype(NUMPY["bf16"]) for name in kernel.epilogue.operands
    }
    operands = Operands({name: address(x) for name, x in stored.items()}, n, parts[0].get("scale", 1.0))
    for tile, split in ((0, 1), (1, 2)):
        found = multiplied(
            *(kernel, "bf16", "bf16", layout, a, b, c, 1, 1), tile=tile, split=split, operands=operands,
            stride_vectors=n, further=stored.values(),
        )  # fmt: skip
        for group, part in enumerate(parts):
            sums = a[group] @ b[group] + c[group]
            off = np.abs(found[group] - apply(kernel.epilogue, sums, part))
            assert (off <= bound(kernel.epilogue, sums, part, "bf16")).all(), off.max()


BREAKS = {
    "nn": [
        ("        request(slot);\n", ""),
        ("if (++slot == R::slots) slot = 0, parity ^= 1;", "if (++slot == R::slots) slot = 0;"),
        ("        await(barriers + 8 * slot, parity);\n", ""),
        ("for (int i = 0; i < R::slots; ++i) request(i);", "for (int i = 0; i < R::slots; ++i) request(0);"),
        ("((chunk ^ within) << 4)", "(chunk << 4)"),
        ("if (lane / 4 + 8 * i < rows && 8 * e < left)", "if (8 * e < left)"),
        ("if (lane / 4 + 8 * i < rows && 8 * e < left)", "if (lane / 4 + 8 * i < rows)"),
        ("      __syncthreads();\n      for (int e = threadIdx.x", "      for (int e = threadIdx.x"),
        ("if (again) size > 1 ? cluster_join() : __syncthreads();", ""),
        ("      cluster_arrive();\n      cluster_join();\n", ""),
        ("sum, width - column);", "sum, 4);"),
        ("next.passes = (group_of(task, next.group).count + ROWS - 1) / ROWS;", "next.passes = 1;"),
        ("task.stride_b ? next.group : 0", "0"),
        ("  if (!early) wait_for_before();\n  if (task.offsets)", "  if (task.offsets)"),
        ("add(sum, four_of(place, i))", "add(sum, four_of(place, 0))"),
    ],
    "nt": [
        ("chunk = (2 * step + half) % 8;", "chunk = (2 * step + half) % 4;"),
        ("return step / 4 * box_bytes", "return step / 8 * box_bytes"),
        ("16 * j + lane / 4 + 8 * (e / 2)", "16 * j + lane / 4"),
    ],
}


@pytest.mark.parametrize(("layout", "old", "new"), breaks(BREAKS, 6))
def test_the_emulation_notices_what_is_wrong(layout, old, new, tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", layout, replacing(old, new), tiles=STREAMED[layout], multiprocessors=2)
    wrong = 0
    for tile in range(len(kernel.tiles)):
        for i, (groups, m, k, n, gap, _, _) in enumerate(SHAPES):
            for late in (0, 1):
                kernel.library.host_mode(i % 2, late, 2)
                a, b, c = integers(groups, m, k, n)
                try:
                    found = multiplied(
                        *(kernel, "bf16", "bf16", layout, a, b, c), gap=gap, tile=tile, split=1 + i % 2, early=1 + i % 2
                    )
                    wrong += not np.array_equal(found, a @ b)
                except (AssertionError, KernelError):
                    wrong += 1
    assert wrong


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("handle.clusters ? find_encoder() : nullptr", "nullptr"),  # a driver without an encoder of maps
        rare("major >= 9;", "false;"),
        rare("attributes.ptxVersion < 90", "true"),
        ("tile.shared[p.M > 8] <= handle.shared", "false"),
    ],
)
def test_a_device_without_them_has_the_others(old, new, tmp_path):
    def change(text):
        assert text.count(old) == 1
        return text.replace(old, new)

    kernel = built(tmp_path, "bf16", "bf16", "nn", change, tiles=BOTH["nn"])
    a, b, c = integers(1, 3, 4096, 256)
    rule = kernel.choose(Product(1, 3, 14336, 4096, 1.0, 0.0, 16, 4096, 0, 16, 14336, 0, 16, 14336, 0, None, -1, 0))
    assert rule.tile not in streamed("nn")
    np.testing.assert_array_equal(multiplied(kernel, "bf16", "bf16", "nn", a, b, c), a @ b)
    tile = streamed("nn")[0]
    with pytest.raises(KernelError, match=re.escape(f"tile {tile} is for bulk copies of B, which this device has not")):
        multiplied(kernel, "bf16", "bf16", "nn", a, b, c, tile=tile, split=1)


def test_distances_that_no_map_can_hold_are_left_to_other_tiles(tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", "nn", tiles=BOTH["nn"])
    product = Product(2, 1, 14336, 4096, 1.0, 0.0, 16, 4096, 4096, 16, 14336, 1 << 38, 16, 14336, 14336, None, -1, 0)
    assert kernel.choose(product).tile in streamed("nn")
    product.stride_b = 1 << 39
    assert kernel.choose(product).tile not in streamed("nn")
    product.tile, product.split = streamed("nn")[0], 1
    with pytest.raises(KernelError, match="or not with such distances"):
        kernel.launch(0, product)


# groups, m, n, k: columns and warps of the streamed tile that the rule takes, and the split; or None.
RULE = {
    "nn": {
        (1, 1, 14336, 4096): (112, 8, 1),
        (1, 1, 4096, 4096): (64, 8, 2),
        (64, 16, 1536, 4096): (192, 4, 1),
        (8, 1, 4096, 512): (128, 4, 1),
        (1, 1, 16384, 512): (128, 4, 1),
        (1, 1, 4096, 512): None,
        (1, 1, 512, 2048): None,
        (1, 1, 128, 4096): None,
        (1, 1, 14335, 4096): None,
    },
    "nt": {
        (1, 8, 14336, 4096): (112, 8, 1),
        (1, 1, 4096, 4096): (32, 8, 1),
        (64, 16, 1536, 4096): (128, 8, 1),
        (8, 1, 4096, 512): (128, 8, 1),
        (1, 1, 14335, 4096): (112, 8, 1),
        (1, 1, 4096, 512): None,
        (1, 1, 128, 4096): None,
    },
}


@pytest.mark.parametrize("layout", ["nn", rare("nt")])
def test_the_rule_takes_them_where_a_multiprocessor_reads_much(layout, tmp_path):
    kernel = built(tmp_path, "bf16", "bf16", layout, SAME, tiles=TILES[layout])
    for (groups, m, n, k), wanted in RULE[layout].items():
        ldb, lines = (n, k) if layout == "nn" else (k, n)
        of_b = (16, ldb, lines * ldb)
        product = Product(groups, m, n, k, 1.0, 0.0, 16, k, m * k, *of_b, 16, n, m * n, None, -1, 0)
        way = kernel.choose(product)
        tile = TILES[layout][way.tile]
        found = (tile.columns, tile.warps, way.split) if isinstance(tile, Streamed) else None
        assert found == wanted, (groups, m, n, k)
        # Where it is close, a search sees both kinds.
        tried = handful(way, kernel.square(product), kernel.tiles)
        assert tried[0] == Way(way.tile, way.split)
        if n >= 4096:
            assert {isinstance(TILES[layout][one.tile], Streamed) for one in tried} == {True, False}, (groups, m, n, k)
