"""The kernel for products of few tiles on a real device: each of its widths, and launches that come early."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from codegen.build import build_cuda
from codegen.emit import fused_arch, fused_emitter
from codegen.epilogue import apply
from codegen.extras import Operands, extras_of
from codegen.fused_text import types
from evaluate.launched import launched as kernels_of
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_device import Device, arch, opened, padded, poisoned, to_device
from tests.codegen.fused_on_host import NUMPY
from tests.codegen.schemes import plans
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu

PLAN = plans()["trivial"]
# As it is, with vectors of a tile in FP32, with two in 16 bits and a matrix; every layout.
KINDS = [
    {"dtype": "bf16"},
    {"dtype": "bf16", "layout": "nt", "epilogue": "bias,gelu"},
    {"dtype": "fp16", "layout": "tn", "epilogue": "bias,residual,silu"},
    {"dtype": "fp16", "layout": "tt", "epilogue": "column_scale,column_shift,relu"},
]
# M, N, K of one way each, in the order in which they are looked for: the least depth of each, and edges.
SHAPES = {
    (128, 0): [(512, 4096, 768), (300, 4032, 1000), (300, 4040, 1000)],
    (192, 0): [(512, 6144, 640), (140, 9024, 776)],
    (256, 0): [(512, 8192, 512), (1000, 4032, 584)],
    (192, 192): [(512, 12288, 512), (264, 12608, 520)],
    (256, 192): [(512, 14336, 512), (508, 14400, 840), (512, 14360, 840)],
    (256, 256): [(512, 16384, 512), (1000, 8064, 576)],
}
LEAST = {(128, 0): 12, (192, 0): 10}  # steps; 8 of the others


@kept
def built(options: tuple[tuple[str, str], ...], device: str) -> Path:
    name = fused_arch(device)
    return build_cuda(fused_emitter(name).emit(PLAN, **dict(options)), name, "shared")


def builds(device: str) -> list[Build]:
    return [Build(built, tuple(kind.items()), device) for kind in KINDS] if fused_arch(device) == "sm_90a" else []


def kernel(options: dict[str, str]):
    if fused_arch(arch()) != "sm_90a":
        pytest.skip("few tiles have a kernel of their own for sm_90a alone")
    name = fused_emitter("sm_90a").prefix(PLAN, **options)
    return opened(PLAN, types(**options), built(tuple(options.items()), arch()), name)


def queued(found: Device, stream, shape, a, b, c, space, extras=None, alpha=1.0, gap=0, lda=None) -> None:
    """Queues one launch; a, b and c are addresses of row-major matrices with `gap` elements between rows."""
    m, n, k = shape
    lda = lda or (k if found.kinds.layout[0] == "n" else m)
    ldb = n if found.kinds.layout[1] == "n" else k
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    launch = getattr(found.library, f"{found.name}_launch")
    code = launch(
        found.handle, pointer(stream.ptr), integer(m), integer(n), integer(k), ctypes.c_double(alpha), pointer(a),
        integer(lda + gap), pointer(b), integer(ldb + gap), ctypes.c_double(0.0), pointer(c), integer(n + gap), None,
        None, pointer(space.data.ptr), ctypes.c_size_t(space.nbytes), extras and ctypes.byref(extras),
    )  # fmt: skip
    assert code == 0, found.call("error").decode()


def clusters() -> int:
    import cupy

    return min(cupy.cuda.Device().attributes["MultiProcessorCount"] // 2, 80)


def way_of(m: int, n: int, k: int) -> tuple[int, int] | None:
    """The first way that has a tile or two for each pair of blocks."""
    for way in SHAPES if m > 128 else ():
        if -(-k // 64) >= LEAST.get(way, 8) and -(-m // 256) * -(-n // sum(way)) <= clusters():
            return way
    return None


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("way", SHAPES, ids=str)
@pytest.mark.parametrize("gap", [0, 8])
def test_each_width_is_exact_and_is_what_runs(options, way, gap):
    import cupy

    with kernel(options) as found:
        kinds, epilogue = found.kinds, found.kinds.epilogue
        stream = cupy.cuda.Stream(non_blocking=True)
        for m, n, k in SHAPES[way]:
            if kinds.layout[0] == "t" and m % 64 or kinds.layout[1] == "n" and n % 64:
                continue  # such blocks are copied first
            rng = np.random.default_rng([m, n, k])
            a, b = (rng.integers(-1, 2, size).astype(float) for size in ((m, k), (k, n)))
            stored = [x.T if letter == "t" else x for x, letter in zip((a, b), kinds.layout, strict=True)]
            kind = NUMPY[kinds.output]
            left, right = (to_device(padded(x, gap, kind)) for x in stored)
            result, space = poisoned((n + gap) * m * 2), found.workspace(m, n, k)
            operands = drawn(epilogue, m, n, kind)
            given = {name: to_device(padded(np.atleast_2d(operands[name]), gap, kind)) for name in epilogue.operands}
            extras = extras_of(epilogue, Operands({name: x.data.ptr for name, x in given.items()}, n + gap))

            def launch(_, one=(m, n, k), to=(left, right, result), space=space, extras=extras):
                places = [x.data.ptr for x in to]
                queued(found, cupy.cuda.get_current_stream(), one, *places, space, extras, 0.5, gap)

            cupy.cuda.Device().synchronize()
            with stream:
                launch(0)
                stream.synchronize()
                names = [one["name"] for one in kernels_of(cupy, launch)]
            values = result.get().view(kind).reshape(m, n + gap).astype(float)
            assert np.isnan(values[:, n:]).all(), "the kernel wrote outside C"
            before = 0.5 * (cupy.asarray(a) @ cupy.asarray(b)).get()
            off = np.abs(values[:, :n] - apply(epilogue, before, operands))
            assert (off <= bound(epilogue, before, operands, kinds.output)).all(), (m, n, k)
            if way_of(m, n, k) == way:
                assert names == [""] or len(names) == 1 and f"fewILi{way[0]}ELi{way[1]}E" in names[0], names


@pytest.mark.parametrize("way", SHAPES, ids=str)
def test_a_chain_of_launches_reads_what_the_one_before_has_written(way):
    """Each launch may be brought to the device before the one before has ended, and nothing stands between them.

    They are replayed from a graph, so that the device always has the next one. A product with a permutation is exact
    however often; the result would be another one if a launch read its A too early, which is what the one before
    writes, or wrote before the launch before had read.
    """
    import cupy

    options = KINDS[0]
    m, n, k = SHAPES[way][0]
    with kernel(options) as found:
        rng, kind = np.random.default_rng(0), NUMPY["bf16"]
        # C is M x N and A is M x K, so what comes back as A is C's first columns.
        orders = [rng.permutation(k) for _ in range(3)]
        rights = []
        for order in orders:
            b = np.zeros((k, n))
            b[order, np.arange(k)] = 1
            b[:, k:] = rng.integers(-1, 2, (k, n - k))
            rights.append(to_device(b.astype(kind)).view(np.uint16))
        first = rng.integers(-100, 100, (m, k)).astype(float)
        whole = np.zeros((m, n))
        whole[:, :k] = first
        both = [cupy.asarray(whole.astype(kind).view(np.uint16)), cupy.zeros((m, n), np.uint16)]
        space, stream = found.workspace(m, n, k), cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
        for turn in range(24):
            places = both[turn % 2].data.ptr, rights[turn % 3].data.ptr, both[1 - turn % 2].data.ptr
            queued(found, stream, (m, n, k), *places, space, lda=n)
            first = first[:, orders[turn % 3]]
        with stream:
            stream.end_capture().launch(stream)
            last = cupy.ascontiguousarray(both[0][:, :k])  # by a kernel that waits for the last launch
        stream.synchronize()
        np.testing.assert_array_equal(last.get().view(kind).astype(float), first)


def test_launches_back_to_back_pass_on_what_they_write():
    """No copy between them: C of one is A of the next."""
    import cupy

    m, k = 512, 4096
    with kernel(KINDS[0]) as found:
        assert way_of(m, k, k) == (128, 0) or clusters() < 64
        rng, kind = np.random.default_rng(1), NUMPY["bf16"]
        order = rng.permutation(k)
        b = np.zeros((k, k))
        b[order, np.arange(k)] = 1
        right, first = to_device(b.astype(kind)), rng.integers(-100, 100, (m, k)).astype(float)
        both = [to_device(first.astype(kind)), poisoned(2 * m * k)]
        space, stream = found.workspace(m, k, k), cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        for turn in range(41):
            places = both[turn % 2].data.ptr, right.data.ptr, both[1 - turn % 2].data.ptr
            queued(found, stream, (m, k, k), *places, space)
            first = first[:, order]
        stream.synchronize()
        np.testing.assert_array_equal(both[1].get().view(kind).reshape(m, k).astype(float), first)
