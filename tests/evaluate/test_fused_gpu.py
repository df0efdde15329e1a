"""Fused kernels on a real device: many schemes against FP64, graphs, streams, few free multiprocessors, sanitizer."""

import itertools
import shutil
import subprocess
import time

import numpy as np
import pytest

from codegen.build import build_cuda
from evaluate.bench import bench
from evaluate.cases import Case, Settings
from evaluate.counters import count
from evaluate.cublas import open_cublas
from evaluate.cublaslt import open_cublaslt
from evaluate.device import array_module, require_gpu
from evaluate.fused import ZEROED_BYTES, fused_arch, fused_text
from evaluate.gpu import draw_buffers
from evaluate.operands import widen
from evaluate.variants import OPERANDS, Wanted
from tests.evaluate.fused_gpu import (
    PLANES,
    STORED,
    bits,
    build_all,
    check,
    limit,
    opened,
    plans,
    product,
    variant,
)

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

NAMES = ("plain", "no planes", "strassen", "winograd", "winograd2", "mixed", "rectangular", "rational", *STORED)
TYPES = [(dtype, planes) for dtype, kinds in PLANES.items() for planes in kinds]
TURNED = [("winograd", layout) for layout in ("nt", "tn", "tt")] + [("3x4x3", "nt"), ("plain", "nt"), ("plain", "tt")]
# M, N, K: one element, less than a block each, odd, beyond a tile, whole tiles, long and thin.
SHAPES = [(1, 1, 1), (7, 5, 300), (101, 67, 83), (259, 517, 130), (768, 1024, 512), (3, 2000, 40), (1500, 9, 1030)]
PADS = [(0, 1.0, 0.0), (3, -0.5, 2.0), (8, 2.0, 0.0)]  # gap between rows, alpha, beta
MIXED = [
    (1, 1, 1),
    (64, 64, 64),
    (130, 70, 50),
    (512, 512, 512),
    (1024, 256, 777),
    (2048, 2048, 256),
    (2560, 1280, 640),
]


@pytest.fixture(scope="module")
def made():
    """All plans and all libraries of this file, built at once."""
    found = plans()
    assert set(NAMES) == set(found) and len(found) >= 20
    keys = [(name, variant(dtype, planes)) for name in found for dtype, planes in TYPES]
    if require_gpu().arch == "sm_90":
        keys += [(name, variant("bf16", layout=layout)) for name, layout in TURNED]
    return found, build_all(keys, found, require_gpu().arch)


@pytest.fixture
def kernel(made):
    """Opens a kernel of the file by name and variant."""
    found, libraries = made

    def open_one(name, chosen):
        if (name, chosen) not in libraries:
            pytest.skip(f"{require_gpu().arch} has layout nn only")
        return opened(libraries[name, chosen], found[name], chosen)

    return open_one


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "planes"), TYPES)
def test_products_agree_with_fp64(kernel, name, dtype, planes):
    with kernel(name, variant(dtype, planes)) as one:
        for shape, (gap, alpha, beta) in itertools.product(SHAPES, PADS):
            check(one, shape, gap, alpha, beta)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rational"])
@pytest.mark.parametrize(("dtype", "planes"), TYPES)
def test_small_integers_are_exact(kernel, name, dtype, planes):
    with kernel(name, variant(dtype, planes)) as one:
        for shape, gap in (((64, 48, 32), 0), ((37, 29, 23), 3), ((530, 770, 61), 8)):
            check(one, shape, gap, 1.0, 1.0, integers=True)


@pytest.mark.parametrize(("name", "layout"), TURNED)
def test_transposed_operands_are_read_where_they_lie(kernel, name, layout):
    with kernel(name, variant("bf16", layout=layout)) as one:
        for shape, (gap, alpha, beta) in itertools.product(SHAPES, PADS):
            check(one, shape, gap, alpha, beta)
        check(one, (37, 29, 23), 3, 1.0, 1.0, integers=True)


@pytest.mark.parametrize("name", ["plain", "winograd", "4x4x2", "winograd2"])
def test_launches_repeat_bit_for_bit(kernel, name):
    xp = array_module()
    with kernel(name, variant("bf16")) as one:
        for shape in ((1536, 1280, 1024), (2900, 1700, 300)):
            made, space = product(shape, "bf16"), one.workspace(shape)
            first = None
            for _ in range(20):
                made.reset()
                one.launch(made, xp.cuda.get_current_stream(), space)
                first = bits(made.c).copy() if first is None else first
                assert bool((bits(made.c) == first).all())
            assert made.error() <= limit(one.plan, one.variant, shape[2])


@pytest.mark.parametrize("name", ["plain", "winograd"])
def test_a_graph_replays_a_thousand_times(kernel, name):
    xp = array_module()
    shape = (1100, 900, 700)
    stream = xp.cuda.Stream(non_blocking=True)
    with kernel(name, variant("bf16")) as one:
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


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("name", ["plain", "winograd", "3x3x3"])
def test_launches_end_while_another_kernel_holds_multiprocessors(kernel, name, share):
    """A grid that counts on all of its blocks to be resident at once would wait for ever."""
    xp = array_module()
    from cupy.cuda import Event, Stream, alloc_pinned_memory

    facts = xp.cuda.runtime.getDeviceProperties(0)
    held = int(share * facts["multiProcessorCount"])
    shape = (2816, 2560, 512)
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


def test_rows_of_all_operands_are_right_and_told_apart(made):
    found = bench(
        [made[0]["winograd"]],
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


def test_counters_count_one_launch(made):
    shape = (2048, 2048, 2048)
    case = Case(made[0]["winograd"], shape, variant("bf16"), Settings())
    found = count(case, "ours")
    if "reason" in found:
        pytest.skip(found["reason"])
    assert len(found["kernels"]) >= 2  # planes, products
    assert found["dram_write_bytes"] > 0 and 0 < found["tensor_busy"] <= 1 and 500 < found["clock_mhz"] < 2500
    assert 0 < found["l2_hit_rate"] <= 1 and found["kernel_seconds"] < 1e-2


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("name", ["plain", "winograd"])
def test_the_sanitizer_finds_nothing(made, name, tool):
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not sanitizer:
        pytest.skip("compute-sanitizer is not installed")
    arch = require_gpu().arch
    text = fused_text(made[0][name], variant("bf16"), arch)
    if "int main(" not in text:
        pytest.skip(f"the text for {arch} has no self-test")
    program = build_cuda(text, fused_arch(arch), "program")
    done = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", str(program)], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
