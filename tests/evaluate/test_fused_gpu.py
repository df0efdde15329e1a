"""Fused kernels on a real device: many schemes against FP64, graphs, streams, few free multiprocessors, sanitizer."""

import shutil
import subprocess
import time

import numpy as np
import pytest

from evaluate.bench import bench
from evaluate.cases import Case, Settings
from evaluate.counters import count
from evaluate.cublas import open_cublas
from evaluate.cublaslt import open_cublaslt
from evaluate.device import array_module, require_gpu
from evaluate.fused import ZEROED_BYTES
from evaluate.gpu import draw_buffers
from evaluate.operands import narrow, widen
from evaluate.variants import OPERANDS, Wanted
from tests.evaluate.fused_gpu import NAMES, bits, check, library, limit, opened, product, program, the_plan, variant
from tests.prebuild import Build

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

# Every scheme in both types; planes of another type than the matrices with schemes of all sorts.
CONVERTED = (
    "plain",
    "winograd",
    "winograd2",
    "mixed",
    "rational",
    "3x2x2",
    "2x3x4",
    "4x4x2",
    "3x3x3",
    "3x4x5",
    "4x4x4",
)
KINDS = [(name, dtype, dtype) for name in NAMES for dtype in ("fp16", "bf16")]
KINDS += [(name, "bf16", "fp16") for name in CONVERTED]
TURNED = [("winograd", layout) for layout in ("nt", "tn", "tt")] + [("3x4x3", "nt"), ("plain", "nt"), ("plain", "tt")]
# Planes made by the same launch, of the type of the matrices and of another one, beside one or more products.
BOTH = [("winograd", "bf16", 1), ("winograd", "bf16", 2), ("winograd", "fp16", 2), ("winograd2", "bf16", 4)]
BOTH += [("mixed", "bf16", 2), ("2x2x3", "fp16", 1), ("4x4x2", "bf16", 1), ("3x3x3", "fp16", 2)]
ONLY_A = [("winograd", "bf16", 3), ("winograd2", "bf16", 1), ("4x4x2", "bf16", 4), ("3x3x3", "bf16", 2)]
OVERLAPPED = [(name, planes, {"overlap": least}) for name, planes, least in BOTH]
OVERLAPPED += [(name, planes, {"overlap": least, "constant_b": 1}) for name, planes, least in ONLY_A]
OVERLAPPED += [("winograd", "bf16", {"overlap": 1, "pending_bits": 32})]
# Pending tiles as they are not by default: of 16 bits with planes in FP16, of 32 with others.
OTHERWISE = [("winograd", "fp16", 16), ("3x4x5", "fp16", 16), ("winograd", "bf16", 32), ("winograd2", "bf16", 32)]
OTHERWISE += [("rational", "bf16", 32), ("4x4x2", "bf16", 32)]
# Rows and columns scaled by powers of two, and the layout.
SCALED = [("winograd", "bf16", "nn"), ("winograd", "fp16", "tt"), ("winograd2", "bf16", "nn"), ("4x4x2", "bf16", "nt")]
SCALED += [("plain", "bf16", "tn"), ("3x3x3", "bf16", "nn")]
# What is not finite is computed again: one phase and two, shared tiles or none, either type of planes, a transposed B.
GUARDED = [
    ("winograd", "bf16", "nn", {}),
    ("winograd", "fp16", "nt", {}),
    ("winograd", "bf16", "nn", {"overlap": 2}),
    ("4x4x2", "bf16", "nn", {}),
]
# M, N, K: one element, less than a block each, odd, beyond a tile, whole tiles, long and thin.
SHAPES = [(1, 1, 1), (7, 5, 300), (101, 67, 83), (259, 517, 130), (768, 1024, 512), (3, 2000, 40), (1500, 9, 1030)]
PADS = [(0, 1.0, 0.0), (3, -0.5, 2.0), (8, 2.0, 0.0)]  # gap between rows, alpha, beta
INTEGERS = [((64, 48, 32), 0), ((37, 29, 23), 3), ((530, 770, 61), 8)]
MIXED = [
    (1, 1, 1),
    (64, 64, 64),
    (130, 70, 50),
    (512, 512, 512),
    (1024, 256, 777),
    (2048, 2048, 256),
    (2560, 1280, 640),
]
CHECKED = [("memcheck", 0), ("racecheck", 0), ("racecheck", 2)]  # the sanitizer's tool, overlap


def builds(arch: str) -> list[Build]:
    """What the tests of this file run; those of many products, which take longest, first."""
    found = [(name, variant(dtype, planes)) for name, dtype, planes in KINDS]
    programs = [("winograd", variant("bf16"))]
    if arch == "sm_90":
        found += [(name, variant("bf16", layout=layout)) for name, layout in TURNED]
        found += [(name, variant("bf16", planes, **options)) for name, planes, options in OVERLAPPED]
        found += [(name, variant("bf16", planes, pending_bits=bits)) for name, planes, bits in OTHERWISE]
        found += [(name, variant("bf16", planes, layout, scale=1)) for name, planes, layout in SCALED]
        found += [(name, variant("bf16", planes, layout, guard=1, **more)) for name, planes, layout, more in GUARDED]
        programs += [("winograd", variant("bf16", overlap=2)), ("winograd", variant("bf16", guard=1))]
    found.sort(key=lambda each: -the_plan(each[0]).rank)
    return [Build(library, *each, arch) for each in found] + [Build(program, *each, arch) for each in programs]


@pytest.fixture
def arch():
    return require_gpu().arch


@pytest.fixture
def kernel(arch):
    """Opens a kernel of the file by name and variant."""

    def open_one(name, chosen):
        if arch != "sm_90" and (chosen.layout != "nn" or chosen.options):
            pytest.skip(f"the kernels for {arch} have layout nn only, and make planes before")
        return opened(name, chosen, arch)

    return open_one


def check_all(one, number):
    """All shapes, each with one of the pads: every scheme begins with another one."""
    for place, shape in enumerate(SHAPES, number):
        check(one, shape, *PADS[place % len(PADS)])
    if one.plan.divisor == 1:
        for shape, gap in INTEGERS:
            check(one, shape, gap, 1.0, 1.0, integers=True)
        # Rows of C that end inside 16 bytes, and go on behind them with what must be kept.
        check(one, (37, 29, 23), 3, 1.0, 0.0, integers=True)


@pytest.mark.parametrize(("name", "dtype", "planes"), KINDS)
def test_products_agree_with_fp64_and_small_integers_are_exact(kernel, name, dtype, planes):
    with kernel(name, variant(dtype, planes)) as one:
        check_all(one, NAMES.index(name))


@pytest.mark.parametrize(("name", "planes", "options"), OVERLAPPED)
def test_planes_made_by_the_same_launch_give_the_same(kernel, name, planes, options):
    with kernel(name, variant("bf16", planes, **options)) as one:
        for number in range(len(PADS)):
            check_all(one, number)


@pytest.mark.parametrize(("name", "layout"), TURNED)
def test_transposed_operands_are_read_where_they_lie(kernel, name, layout):
    with kernel(name, variant("bf16", layout=layout)) as one:
        for number in range(len(PADS)):
            check_all(one, number)
        m, k, n = one.plan.format
        for shape in ((2368, 64 * 43, 256 * k), (m * 576, 2176 * n, 256 * k)):  # whole chunks, and whole blocks
            repeat(one, shape, 3)


def repeat(one, shape, times):
    """The same bits from every launch, and the right ones."""
    xp = array_module()
    made, space = product(shape, one.variant.dtype, layout=one.variant.layout), one.workspace(shape)
    first = None
    for _ in range(times):
        made.reset()
        one.launch(made, xp.cuda.get_current_stream(), space)
        first = bits(made.c).copy() if first is None else first
        assert bool((bits(made.c) == first).all()), shape
    assert made.error() <= limit(one.plan, one.variant, shape[2])


def repeated(plan):
    """Shapes (M, N, K) and launches.

    At the first every multiprocessor has several tiles, and each product many steps; at the second and third the blocks
    do not tile C, nor A and B at the second; at the fourth there are few tiles, some of them with an edge, but they are
    so deep that clusters share each of them.
    """
    m, k, n = plan.format
    many = (m * (128 * 18 - 20), n * 256 * 18, k * 1344)
    ragged = [((many[0] - 1, many[1] - 24, k * 192 + 8), 3), ((many[0] - 1, many[1] - 64, k * 192), 3)]
    return [(many, 10), *ragged, ((600 * m, 448 * n, 2240 * k), 20)]


@pytest.mark.parametrize("name", NAMES)
def test_launches_repeat_bit_for_bit(kernel, name):
    """Races show where blocks with several tiles hurry on to the next one."""
    with kernel(name, variant("bf16")) as one:
        for shape, times in [*repeated(one.plan), ((1536, 1280, 1024), 10)]:
            repeat(one, shape, times)
    array_module().get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize(("name", "planes", "options"), OVERLAPPED)
def test_launches_that_make_their_planes_repeat_bit_for_bit(kernel, name, planes, options):
    with kernel(name, variant("bf16", planes, **options)) as one:
        for shape, times in [*repeated(one.plan), ((1536, 1280, 1024), 10)]:
            repeat(one, shape, times)
    array_module().get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize(("name", "planes", "bits"), OTHERWISE)
def test_pending_tiles_of_either_width_are_right_and_repeat(kernel, name, planes, bits):
    with kernel(name, variant("bf16", planes, pending_bits=bits)) as one:
        check_all(one, 0)
        for shape, times in repeated(one.plan):
            repeat(one, shape, times)
    array_module().get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize(("name", "planes", "layout", "more"), GUARDED)
def test_what_is_not_finite_comes_out_as_in_a_plain_product(kernel, name, planes, layout, more):
    xp = array_module()
    with kernel(name, variant("bf16", planes, layout, guard=1, **more)) as one:
        m, k, n = one.plan.format
        for shape in ((101, 67, 83), (1152 * m - 1, 768 * n - 24, 960 * k), (600 * m, 448 * n, 2240 * k)):
            made, space = product(shape, "bf16", layout=layout), one.workspace(shape)
            one.launch(made, xp.cuda.get_current_stream(), space)  # finite: nothing is done
            assert made.error() <= limit(one.plan, one.variant, shape[2])
            kept = made.c.copy()
            wrong = narrow(xp, xp.asarray([np.inf, np.nan, -np.inf], np.float32), "bf16")
            made.a[3, 60], made.a[50, 7] = wrong[0], wrong[1]
            made.b[(5, 66) if layout == "nn" else (66, 5)] = wrong[2]
            a, b = (widen(xp, x, "bf16") for x in (made.a, made.b))
            exact = a @ (b if layout == "nn" else b.T)
            for _ in range(2):
                made.reset()
                one.launch(made, xp.cuda.get_current_stream(), space)
                found = widen(xp, made.c, "bf16")
                assert bool((xp.isnan(found) == xp.isnan(exact)).all())
                assert bool((xp.isposinf(found) == xp.isposinf(exact)).all())
                assert bool((xp.isneginf(found) == xp.isneginf(exact)).all())
                finite = xp.isfinite(exact)
                assert float(finite.mean()) > 0.9
                error = xp.linalg.norm((found - exact)[finite]) / made.scale
                assert float(error) <= limit(one.plan, one.variant, shape[2])
                assert not bool(space[:ZEROED_BYTES].any())
            far = xp.ones(made.c.shape, bool)  # blocks without a row or column in common are as they were
            for count, size, marks, axis in ((m, shape[0], (3, 50), 0), (n, shape[1], (66,), 1)):
                step = -(-size // count)
                step = -(-step // 64) * 64 if count > 1 else step
                for mark in marks:
                    lines = [line for line in range(mark % step, size, step)]
                    far[(lines, slice(None)) if axis == 0 else (slice(None), lines)] = False
            assert bool((bits(made.c)[far] == bits(kept)[far]).all())
    array_module().get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize(("name", "planes", "layout"), SCALED)
def test_scaled_rows_and_columns_are_right_and_small_ones_exact(kernel, name, planes, layout):
    """Powers of two far apart, which no sum of two rows of A could hold in either type."""
    with kernel(name, variant("bf16", planes, layout, scale=1)) as one:
        check_all(one, 0)
        for shape, gap in INTEGERS:
            check(one, shape, gap, 1.0, 0.0, integers=True, reach=30)
        for shape, times in repeated(one.plan):
            repeat(one, shape, times)
    array_module().get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize(
    ("name", "options"), [("plain", {}), ("winograd", {}), ("winograd", {"overlap": 2}), ("winograd", {"scale": 1})]
)
def test_a_graph_replays_a_thousand_times(kernel, name, options):
    xp = array_module()
    shape = (1100, 900, 700)
    stream = xp.cuda.Stream(non_blocking=True)
    with kernel(name, variant("bf16", **options)) as one:
        made, space = product(shape, "bf16"), one.workspace(shape)
        xp.cuda.Device().synchronize()
        with stream:
            stream.begin_capture(xp.cuda.runtime.streamCaptureModeGlobal)
            one.launch(made, stream, space)
            graph = stream.end_capture()
        for replay in range(1000):
            if replay % 100 == 0:  # C must be written again, not only left
                stream.synchronize()
                if replay:
                    assert made.error() <= limit(one.plan, one.variant, shape[2]), replay
                made.reset()
                xp.cuda.Device().synchronize()
            graph.launch(stream)
        stream.synchronize()
        assert made.error() <= limit(one.plan, one.variant, shape[2])
        assert not space[:ZEROED_BYTES].any()


def test_two_streams_with_two_workspaces_do_not_meet(kernel):
    xp = array_module()
    with kernel("plain", variant("bf16")) as plain, kernel("winograd", variant("bf16")) as fused:
        work = []
        for one, shape in ((plain, (2048, 1792, 900)), (fused, (1536, 2048, 1000))):
            made, space = product(shape, "bf16"), one.workspace(shape)
            one.launch(made, xp.cuda.get_current_stream(), space)
            xp.cuda.Device().synchronize()
            work.append((one, made, space, xp.cuda.Stream(non_blocking=True), bits(made.c).copy()))
            made.reset()
        xp.cuda.Device().synchronize()
        for _ in range(300):
            for one, made, space, stream, _ in work:
                one.launch(made, stream, space)
        xp.cuda.Device().synchronize()
        for _, made, space, _, alone in work:
            assert bool((bits(made.c) == alone).all()) and not space[:ZEROED_BYTES].any()


def test_ten_thousand_launches_of_mixed_sizes_end_and_stay_right(kernel):
    xp = array_module()
    rng = np.random.default_rng(0)
    stream = xp.cuda.get_current_stream()
    with kernel("plain", variant("bf16")) as plain, kernel("winograd", variant("bf16", "fp16")) as fused:
        kernels = (plain, fused)
        products = [product(shape, "bf16") for shape in MIXED]
        spaces = [one.workspace(*MIXED) for one in kernels]  # one for all sizes: each launch leaves it as it must be
        for batch in range(10):
            for made in products:
                made.reset()
            # Each size comes last with one of the kernels, and is checked then.
            choices = np.concatenate([rng.integers(len(products), size=1000 - len(products)), np.arange(len(products))])
            for choice in choices:
                which = int(rng.integers(2))
                kernels[which].launch(products[choice], stream, spaces[which])
            stream.synchronize()
            for made in products:
                assert made.error() <= limit(fused.plan, fused.variant, made.shape[2]), (batch, made.shape)
        assert not any(space[:ZEROED_BYTES].any() for space in spaces)


SPIN = """
extern "C" __global__ void spin(volatile int* stop, long long most) {
  extern __shared__ char hold[];
  hold[threadIdx.x] = 0;
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (!*stop && now - begin < most);
}
"""


@pytest.mark.alone
@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("shape", [(2816, 2560, 512), (1152, 1152, 8064)], ids=["many tiles", "shared tiles"])
@pytest.mark.parametrize("name", ["plain", "winograd", "3x3x3"])
def test_launches_end_while_another_kernel_holds_multiprocessors(kernel, name, shape, share):
    """A grid that counts on all of its blocks to be resident at once would wait for ever."""
    xp = array_module()
    from cupy.cuda import Event, Stream, alloc_pinned_memory

    facts = xp.cuda.runtime.getDeviceProperties(0)
    held = int(share * facts["multiProcessorCount"])
    spin = xp.RawKernel(SPIN, "spin")
    spin.max_dynamic_shared_size_bytes = hold = int(facts["sharedMemPerBlockOptin"])
    flag = alloc_pinned_memory(8)
    stop = np.frombuffer(flag, np.int32, 1)
    with kernel(name, variant("bf16")) as one:
        made, space = product(shape, "bf16"), one.workspace(shape)
        other, ours = Stream(non_blocking=True), Stream(non_blocking=True)
        one.launch(made, ours, space)  # loads what is loaded lazily, which may wait for the device
        xp.cuda.Device().synchronize()
        made.reset()
        xp.cuda.Device().synchronize()
        stop[0] = 0
        done, freed = Event(), Event()
        with other:
            spin((held,), (32,), (np.uint64(flag.ptr), np.int64(20_000_000_000)), shared_mem=hold)
            freed.record()
        for _ in range(50):
            one.launch(made, ours, space)
        done.record(ours)
        began = time.monotonic()
        while not done.done and not freed.done and time.monotonic() - began < 15:
            time.sleep(0.001)
        ended, still_held = done.done, not freed.done
        stop[0] = 1
        xp.cuda.Device().synchronize()
        assert ended and still_held, f"{name} waits for multiprocessors that another kernel holds"
        assert made.error() <= limit(one.plan, one.variant, shape[2])


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
def test_both_baselines_compute_the_same(dtype, layout):
    xp = array_module()
    m, n, k = shape = (264, 520, 328)
    buffers = draw_buffers(xp, variant(dtype, layout=layout), shape, "normal", 1, 1)
    a, b = buffers.lefts[0], buffers.rights[0]
    with open_cublas(xp, dtype) as cublas, open_cublaslt(xp, dtype, shape, layout) as lt:
        cublas.gemm(m, n, k, a.data.ptr, b.data.ptr, buffers.outputs[0].data.ptr, layout)
        lt(a.data.ptr, b.data.ptr, buffers.references[0].data.ptr)
    right = widen(xp, b, dtype)
    exact = widen(xp, a, dtype) @ (right.T if layout == "nt" else right)
    for found in (buffers.outputs[0], buffers.references[0]):
        assert float(xp.linalg.norm(widen(xp, found, dtype) - exact) / xp.linalg.norm(exact)) < 0.01


def test_rows_of_all_operands_are_right_and_told_apart():
    found = bench(
        [the_plan("winograd")],
        [(1024, 768, 512)],
        ["bf16"],
        device="gpu",
        wanted=Wanted("fused", OPERANDS, ("input", "fp16")),
        pairs=7,
        load=False,
    )
    assert not found["skipped"], found["skipped"]
    assert [(row["plane_dtype"], row["operands"]) for row in found["rows"]] == [
        (planes, operands) for planes in ("bf16", "fp16") for operands in OPERANDS
    ]
    for row in found["rows"]:
        assert row["correct"] and row["repeatable"] and row["seconds"] > 0 and row["registers"] > 0
        assert row["publications"] >= 4 and row["planes_a"] >= 4 and row["planes_b"] >= 4
    fine = [row["error_fro"] / row["baseline_error_fro"] for row in found["rows"]]
    assert max(fine[3:]) < 1.1 < min(fine[:3])  # planes of fp16 keep what bf16 would round


@pytest.mark.alone
def test_counters_count_one_launch():
    shape = (2048, 2048, 2048)
    case = Case(the_plan("winograd"), shape, variant("bf16"), Settings())
    found = count(case, "ours")
    if "reason" in found:
        pytest.skip(found["reason"])
    assert len(found["kernels"]) >= 2  # planes, products
    assert found["dram_write_bytes"] > 0 and 0 < found["tensor_busy"] <= 1 and 500 < found["clock_mhz"] < 2500
    assert 0 < found["l2_hit_rate"] <= 1 and found["kernel_seconds"] < 1e-2


@pytest.mark.parametrize(("tool", "overlap"), CHECKED)
def test_the_sanitizer_finds_nothing(arch, tool, overlap):
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not sanitizer:
        pytest.skip("compute-sanitizer is not installed")
    if overlap and arch != "sm_90":
        pytest.skip(f"the kernels for {arch} make planes before")
    built = program("winograd", variant("bf16", overlap=overlap), arch)
    done = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", str(built)], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
