"""Thin kernels on a real device: exact on integers for every size, tile and split, and as accurate as FP32 sums are."""

import subprocess

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codegen.build import build_cuda
from codegen.emit_thin import TILES, Streamed, emit_thin, prefix
from evaluate.kernel import KernelError
from evaluate.thin.kernel import Product, open_thin
from tests.codegen.fused_on_device import arch
from tests.codegen.schemes import plans
from tests.fuzzing import FACTOR
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu
PLAN = plans()["trivial"]
NUMPY = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "fp32": np.dtype(np.float32)}
KINDS = [("bf16", "bf16", "nn"), ("bf16", "bf16", "nt"), ("fp16", "fp32", "nn"), ("fp16", "fp32", "nt")]


@kept
def built(kinds: tuple[str, str, str], kind: str, device: str):
    return build_cuda(emit_thin(PLAN, *kinds), device, kind)


def builds(device: str) -> list[Build]:
    return [Build(built, kinds, kind, device) for kinds in KINDS for kind in ("shared", "program")]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def opened(request):
    kinds = request.param
    with open_thin(built(kinds, "shared", arch()), prefix(PLAN, *kinds)) as kernel:
        yield kernel, kinds


def on_device(values: np.ndarray, gap: int, offset: int):
    """Matrices [g, r, c] as bytes on the device with poison behind each row, `offset` elements off alignment."""
    import cupy

    groups, rows, columns = values.shape
    host = np.full((groups * rows, columns + gap), np.nan, values.dtype)
    host[:, :columns] = values.reshape(groups * rows, columns)
    raw = cupy.full(host.nbytes + offset * values.itemsize, 0xFF, np.uint8)
    raw[offset * values.itemsize :] = cupy.asarray(host.view(np.uint8).ravel())
    return raw, raw.data.ptr + offset * values.itemsize


def multiplied(opened, a, b, c=None, alpha=1.0, beta=0.0, gap=0, offset=0, tile=-1, split=0, offsets=None, early=0):
    """C as float64; rows of all groups where there are offsets."""
    import cupy

    kernel, (dtype, c_dtype, layout) = opened
    (groups, m, k), n = a.shape, b.shape[2]
    stored = np.ascontiguousarray(b.transpose(0, 2, 1)) if layout == "nt" else b
    poison = np.full((groups, m, n), np.nan)
    left, place_a = on_device(a.astype(NUMPY[dtype]), gap, offset)
    right, place_b = on_device(stored.astype(NUMPY[dtype]), gap, offset)
    out, place_c = on_device((c if beta else poison).astype(NUMPY[c_dtype]), gap, offset)
    before = cupy.asnumpy(out)
    ldb = stored.shape[2] + gap
    starts = None if offsets is None else cupy.asarray(offsets, dtype=np.int32)
    count = groups if offsets is None else len(offsets) - 1
    kernel.launch(
        cupy.cuda.get_current_stream().ptr,
        Product(
            *(count, m, n, k, alpha, beta, place_a, k + gap, m * (k + gap)),
            *(place_b, ldb, stored.shape[1] * ldb, place_c, n + gap, m * (n + gap)),
            *(None if starts is None else starts.data.ptr, tile, split, early),
        ),
    )
    after = cupy.asnumpy(out)
    size = NUMPY[c_dtype].itemsize
    rows = [part[offset * size :].view(NUMPY[c_dtype]).reshape(groups * m, n + gap) for part in (before, after)]
    np.testing.assert_array_equal(rows[0][:, n:].view(np.uint8), rows[1][:, n:].view(np.uint8), "written outside C")
    return rows[1][:, :n].astype(float).reshape(groups, m, n)


def can_run(opened, tile, split):
    """Whether the device has clusters of so many blocks of a tile; streamed ones may have narrower ones than others."""
    try:
        multiplied(opened, *integers(1, 1, 8, 8)[:2], tile=tile, split=split)
    except KernelError as error:
        assert split == 16 and "clusters of at most 8" in str(error), error
        return False
    return True


def integers(groups, m, k, n):
    rng = np.random.default_rng([groups, m, k, n])
    return [rng.integers(-1, 2, shape) for shape in ((groups, m, k), (groups, k, n), (groups, m, n))]


def test_every_number_of_rows_tile_and_split_is_exact(opened):
    kernel, _ = opened
    ways = [(tile, 1 << i) for tile in range(len(kernel.tiles)) for i in range(5) if 1 << i <= kernel.most_split]
    ways = [way for way in ways if can_run(opened, *way)]
    for number, (tile, split) in enumerate([(-1, 0), *ways]):
        for m in range(1, 17):
            k, n = (240, 320) if (m + number) % 3 else (8 * m + 72, 16 * number + 8)
            a, b, c = integers(1 + m % 3, m, k, n)
            found = multiplied(opened, a, b, c, 1, m % 2, 8 * (m % 2), 0, tile, split)
            np.testing.assert_array_equal(found, a @ b + m % 2 * c, f"{m} {k} {n} tile {tile} split {split}")


def test_streamed_tiles_are_there(opened):
    """Each is exact where blocks do several tiles of columns, which end in every place of a box."""
    kernel, (_, _, layout) = opened
    shapes = [(3, 5, 136, 4616), (1, 33, 520, 8200), (7, 9, 72, 1000 if layout == "nn" else 1003), (2, 16, 1032, 264)]
    numbers = [i for i, tile in enumerate(TILES[layout]) if isinstance(tile, Streamed)]
    splits = {tile: [1 << i for i in range(5) if can_run(opened, tile, 1 << i)] for tile in numbers}
    assert len(kernel.tiles) == len(TILES[layout])
    for groups, m, k, n in shapes:
        a, b, c = integers(groups, m, k, n)
        exact = (a.astype(np.float32) @ b.astype(np.float32)).astype(float)
        for number, tile in enumerate(numbers):
            for i, split in enumerate(splits[tile]):
                beta = i % 2
                found = multiplied(
                    opened, a, b, c, 1, beta, 8 * (number % 2), tile=tile, split=split, early=(number + i) % 3
                )
                np.testing.assert_array_equal(
                    found, exact + beta * c, f"{groups} {m} {k} {n} tile {tile} split {split}"
                )


@settings(max_examples=150 * FACTOR, deadline=None)
@given(st.data())
def test_any_sizes_alignment_and_groups_are_exact(opened, data):
    draw = data.draw
    groups, m = draw(st.integers(1, 4)), draw(st.integers(1, 20))
    n, k = draw(st.integers(1, 200)), draw(st.integers(1, 250))
    # Of any alignment, and often of whole 16 bytes, without which a tile for any alignment takes over.
    gap, offset = draw(st.one_of(st.integers(0, 9), st.just(8))), draw(st.one_of(st.integers(0, 9), st.just(8)))
    if draw(st.booleans()):
        n, k, gap, offset = n // 8 * 8 + 8, k // 8 * 8 + 8, gap // 8 * 8, offset // 8 * 8
    a, b, c = integers(groups, m, k, n)
    alpha, beta = draw(st.sampled_from([(1, 0), (-2, 1), (1, -1)]))
    tile, split = draw(st.integers(-1, len(opened[0].tiles) - 1)), draw(st.sampled_from([0, 1, 2, 4, 8, 16]))
    assume(can_run(opened, tile, split))
    found = multiplied(opened, a, b, c, alpha, beta, gap, offset, tile, split, early=draw(st.integers(0, 2)))
    np.testing.assert_array_equal(found, alpha * (a @ b) + beta * c)


def test_groups_of_any_number_of_rows(opened):
    counts = [0, 5, 1, 0, 19, 3, 16, 33]
    offsets = np.cumsum([0, *counts])
    rng = np.random.default_rng(1)
    a, b = rng.integers(-1, 2, (1, sum(counts), 136)), rng.integers(-1, 2, (len(counts), 136, 200))
    exact = np.concatenate([a[0, offsets[i] : offsets[i + 1]] @ b[i] for i in range(len(counts))])
    kernel, _ = opened
    for tile in range(-1, len(kernel.tiles)):
        for early, split in enumerate((1, 2, min(4, kernel.most_split))):
            found = multiplied(opened, a, b, offsets=offsets, tile=tile, split=split, early=early)
            np.testing.assert_array_equal(found[0], exact, f"tile {tile} split {split}")


@pytest.mark.parametrize("shape", [(1, 4096, 128), (8, 4096, 14336), (16, 1536, 4096)])
def test_errors_are_those_of_one_rounding(opened, shape):
    m, k, n = shape
    _, (dtype, c_dtype, _) = opened
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(NUMPY[dtype]) for size in ((1, m, k), (1, k, n)))
    exact = a.astype(float) @ b.astype(float)
    found = multiplied(opened, a, b)
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    # Uniformly distributed roundings have a third of the variance of the largest one.
    assert error < {"bf16": 2.0**-8, "fp32": 2.0**-18}[c_dtype]
    np.testing.assert_array_equal(found, multiplied(opened, a, b))  # nothing is added in an order of its own


def test_what_is_not_finite_is_where_a_plain_product_has_it(opened):
    a, b, _ = (x.astype(float) for x in integers(1, 9, 200, 328))
    a[0, 3, 150], b[0, 90, 70], b[0, 199, 8] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        exact = a @ b
    for tile in range(-1, len(opened[0].tiles)):
        for split in (1, min(4, opened[0].most_split)):
            np.testing.assert_array_equal(multiplied(opened, a, b, tile=tile, split=split), exact)


def test_a_graph_repeats_it(opened):
    import cupy

    kernel, (dtype, c_dtype, layout) = opened
    a, b, _ = integers(1, 3, 256, 128)
    stored = np.ascontiguousarray(b.transpose(0, 2, 1)) if layout == "nt" else b
    left, place_a = on_device(a.astype(NUMPY[dtype]), 0, 0)
    right, place_b = on_device(stored.astype(NUMPY[dtype]), 0, 0)
    out = cupy.zeros(3 * 128 * NUMPY[c_dtype].itemsize, np.uint8)
    product = Product(1, 3, 128, 256, 1.0, 0.0, place_a, 256, 0, place_b, stored.shape[2], 0, out.data.ptr, 128, 0)
    for tile in range(-1, len(kernel.tiles)):
        product.tile, product.split, product.early = tile, 0, (tile + 1) % 3
        cupy.cuda.Device().synchronize()  # another stream wrote the operands
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            kernel.launch(stream.ptr, product)
            graph = stream.end_capture()
            for _ in range(3):
                out[...] = 0xFF
                graph.launch(stream)
            stream.synchronize()
        found = cupy.asnumpy(out).view(NUMPY[c_dtype]).reshape(3, 128).astype(float)
        np.testing.assert_array_equal(found, (a @ b)[0], f"tile {tile}")
    assert left.nbytes and right.nbytes  # they live until here


@pytest.mark.parametrize("captured", [False, True])
def test_launches_that_come_early_wait_for_what_the_one_before_writes(opened, captured):
    """A product with a permutation, again and again, from one of two matrices into the other."""
    import cupy

    kernel, (dtype, c_dtype, layout) = opened
    if c_dtype != dtype:
        pytest.skip("C cannot be the next A")
    m, n, steps = 5, 1024, 64
    a = np.random.default_rng(0).integers(-100, 101, (1, m, n))
    shift = np.roll(np.eye(n), 1, axis=1)[None]
    stored = np.ascontiguousarray(shift.transpose(0, 2, 1)) if layout == "nt" else shift
    right, place_b = on_device(stored.astype(NUMPY[dtype]), 0, 0)
    ways = [(tile, *way) for tile in range(-1, len(kernel.tiles)) for way in ((1, 1), (1, 4), (2, 2))]
    for tile, early, split in ways:
        (left, place_a), (out, place_c) = (on_device(x.astype(NUMPY[dtype]), 0, 0) for x in (a, 0 * a))
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            if captured:
                stream.begin_capture()
            for step in range(steps):
                places = (place_a, place_c) if step % 2 == 0 else (place_c, place_a)
                product = Product(1, m, n, n, 1.0, 0.0, places[0], n, 0, place_b, n, 0, places[1], n, 0)
                product.tile, product.split, product.early = tile, min(split, kernel.most_split), early
                kernel.launch(stream.ptr, product)
            if captured:
                stream.end_capture().launch(stream)
            stream.synchronize()
        found = cupy.asnumpy(left).view(NUMPY[dtype]).reshape(m, n).astype(int)
        np.testing.assert_array_equal(found, np.roll(a[0], steps, axis=1), f"tile {tile}, early {early}, split {split}")
    assert right.nbytes and out.nbytes  # they live until here


def test_b_may_be_what_the_kernel_before_writes(opened):
    """With early 1: L2 may be asked for it while it is written, but nothing of it is read then."""
    import cupy

    kernel, (dtype, c_dtype, layout) = opened
    if c_dtype != dtype:
        pytest.skip("C cannot be the next B")
    rows, columns, depth, m, steps = 16, 4096, 64, 3, 24
    rng = np.random.default_rng(0)
    # C of the first product is a B as it is of 16 x 4096 or a transposed one of 4096 x 16.
    n, k = (columns, rows) if layout == "nn" else (rows, columns)
    first = rng.integers(-1, 2, (steps, rows, depth))
    weights, second = rng.integers(-1, 2, (1, depth, columns)), rng.integers(-1, 2, (1, m, k))
    stored = np.ascontiguousarray(weights.transpose(0, 2, 1)) if layout == "nt" else weights
    (left, place_a), (right, place_b), (other, place_d) = (
        on_device(x.astype(NUMPY[dtype]), 0, 0) for x in (first, stored, second)
    )
    middle = (first @ weights).astype(float)
    exact = second @ (middle if layout == "nn" else middle.transpose(0, 2, 1))
    between = cupy.zeros(rows * columns, np.uint16)
    size = NUMPY[dtype].itemsize
    for tile in range(len(kernel.tiles)):
        out = cupy.zeros((steps, m * n), np.uint16)
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for step in range(steps):
                a, c = place_a + step * rows * depth * size, out.data.ptr + step * m * n * size
                of_b = (place_b, stored.shape[2], 0, between.data.ptr, columns, 0)
                for product in (
                    Product(1, rows, columns, depth, 1.0, 0.0, a, depth, 0, *of_b, None, 0, 1, 1),
                    Product(
                        *(1, m, n, k, 1.0, 0.0, place_d, k, 0, between.data.ptr, columns, 0, c, n, 0),
                        *(None, tile, 1, 1),
                    ),
                ):
                    kernel.launch(stream.ptr, product)
            stream.synchronize()
        found = cupy.asnumpy(out).view(NUMPY[dtype]).reshape(steps, m, n).astype(float)
        np.testing.assert_array_equal(found, exact.astype(NUMPY[dtype]).astype(float), f"tile {tile}")
    assert left.nbytes and right.nbytes and other.nbytes  # they live until here


@pytest.mark.parametrize("apart", [0, 72])
def test_groups_of_b_may_lie_anywhere(opened, apart):
    """All on one matrix, or at distances that are no multiple of a row; drivers may refuse a map of the latter."""
    import cupy

    kernel, (dtype, c_dtype, layout) = opened
    groups, m, k, n = 3, 5, 1032, 8192
    a, b, _ = integers(groups, m, k, n)
    b = b if apart else np.repeat(b[:1], groups, axis=0)
    distance = k * n + apart if apart else 0
    stored = np.zeros((groups - 1) * distance + k * n)
    for group in range(groups if apart else 1):
        matrix = b[group].T if layout == "nt" else b[group]
        stored[group * distance : group * distance + k * n] = matrix.ravel()
    left, right = (cupy.asarray(x.astype(NUMPY[dtype]).view(np.uint16)) for x in (a, stored))
    exact = (a.astype(np.float32) @ b.astype(np.float32)).astype(NUMPY[c_dtype]).astype(float)
    for tile in range(-1, len(kernel.tiles)):
        out = cupy.zeros((groups, m, n * NUMPY[c_dtype].itemsize), np.uint8)
        product = Product(
            *(groups, m, n, k, 1.0, 0.0, left.data.ptr, k, m * k, right.data.ptr, n if layout == "nn" else k, distance),
            *(out.data.ptr, n, m * n, None, tile, 0, 1),
        )
        try:
            kernel.launch(cupy.cuda.get_current_stream().ptr, product)
        except KernelError as error:
            assert apart and tile >= 0 and "cuTensorMapEncodeTiled" in str(error), (tile, error)
            continue
        found = cupy.asnumpy(out).view(NUMPY[c_dtype]).astype(float)
        np.testing.assert_array_equal(found, exact, f"tile {tile}")


def test_a_split_that_the_device_has_not_is_refused(opened):
    kernel, _ = opened
    if kernel.most_split == 16:
        pytest.skip("this device has clusters of every size")
    with pytest.raises(KernelError, match="this device has clusters of at most"):
        multiplied(opened, *integers(1, 1, 8, 8)[:2], split=16)


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_the_self_test_passes(kinds):
    done = subprocess.run([built(kinds, "program", arch())], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr
