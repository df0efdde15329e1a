"""Kernels with epilogues on a real device, each path of them, against the steps in FP64 on sums that are exact."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from codegen.build import build_cuda
from codegen.emit import emit, fused_arch, fused_emitter
from codegen.epilogue import apply
from codegen.extras import Operands, extras_of
from codegen.fused_text import types
from tests.codegen.epilogues import bound, drawn
from tests.codegen.fused_on_device import arch, opened, padded, poisoned, to_device
from tests.codegen.fused_on_host import NUMPY
from tests.codegen.schemes import plans
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu

PLANS = plans()
EVERYTHING = "column_scale,column_shift,gelu_tanh,residual,scale,bias,silu,gelu,relu"
# The kernel for the device, or that for sm_80; a plan, options. Tiles that are stored in bulk and others, pending tiles
# of both sizes or none, two phases, planes of another type, scaled rows, a transposed B.
KINDS = [
    ("own", "trivial", {"dtype": "bf16", "epilogue": "bias,gelu"}),
    ("own", "winograd", {"dtype": "bf16", "epilogue": "bias,residual,silu"}),
    ("own", "strassen", {"dtype": "fp16", "epilogue": EVERYTHING}),
    ("own", "winograd2", {"dtype": "bf16", "epilogue": "column_scale,column_shift,relu"}),
    ("own", "winograd", {"dtype": "bf16", "c_dtype": "fp32", "epilogue": "residual,scale,gelu"}),
    ("sm_80", "winograd", {"dtype": "fp16", "epilogue": EVERYTHING}),
]
HOPPER = [
    ("own", "winograd", {"dtype": "bf16", "overlap": 2, "epilogue": "bias,residual,gelu"}),
    ("own", "winograd", {"dtype": "bf16", "plane_dtype": "fp16", "layout": "nt", "epilogue": "residual,gelu_tanh"}),
    ("own", "winograd", {"dtype": "bf16", "scale": True, "epilogue": "bias,residual,relu"}),
]
# Whole blocks; pending tiles of 16 and of 32 bits; several publications after a product.
MANY = [KINDS[0][1:], KINDS[1][1:], KINDS[2][1:], KINDS[3][1:]]
GUARDED = [("own", {"dtype": "bf16", "guard": True, "epilogue": "bias,gelu"})]
GUARDED += [("sm_80", {"dtype": "bf16", "guard": True, "epilogue": "bias,residual,silu"})]
PROGRAMS = [("own", {"dtype": "bf16", "epilogue": "bias,gelu"}), ("own", {"dtype": "fp16", "epilogue": EVERYTHING})]
PROGRAMS += [("sm_80", {"dtype": "bf16", "epilogue": EVERYTHING})]
LIBRARIES = [("fp32", EVERYTHING), ("bf16", "bias,gelu"), ("fp64", "bias,residual,silu")]
# M, N, K, the gap between rows, and by how many elements operands miss an alignment. Of the last three two have more
# tiles than a device has blocks; tiles of one of them, and what remains of the other, are shared over the depth.
SHAPES = [(1, 1, 1, 0, 0), (7, 5, 300, 3, 0), (259, 517, 130, 8, 1), (768, 1024, 512, 0, 0), (1000, 520, 320, 8, 2)]
SHAPES += [(256, 192, 64, 0, 1), (512, 512, 4096, 0, 2), (4096, 6144, 256, 8, 0), (4352, 4096, 4096, 0, 0)]
FACTORS = [(1.0, 0.0), (-0.5, 0.0), (0.25, 1.0)]  # alpha, beta


def _arch(which: str, device: str) -> str:
    return fused_arch(device) if which == "own" else device


def _emitter(which: str, device: str):
    return fused_emitter(_arch(which, device) if which == "own" else "sm_80")


@kept
def built(which: str, name: str, options: tuple[tuple[str, object], ...], kind: str, device: str) -> Path:
    text = _emitter(which, device).emit(PLANS[name], **dict(options))
    return build_cuda(text, _arch(which, device), kind)


@kept
def library_program(dtype: str, epilogue: str, device: str) -> Path:
    return build_cuda(emit(PLANS["winograd"], "cuda", dtype=dtype, epilogue=epilogue), device, "program")


def builds(device: str) -> list[Build]:
    kinds = KINDS + (HOPPER if device == "sm_90" else [])
    found = [(which, name, tuple(options.items()), "shared", device) for which, name, options in kinds]
    found += [(which, "winograd", tuple(options.items()), "shared", device) for which, options in GUARDED]
    found += [(which, "winograd", tuple(options.items()), "program", device) for which, options in PROGRAMS]
    return [Build(built, *each) for each in found] + [Build(library_program, *each, device) for each in LIBRARIES]


def kernel(which: str, name: str, options: dict):
    names = {"scale": "scaled", "guard": "guarded"}
    kinds = types(**{names.get(option, option): value for option, value in options.items()})
    path = built(which, name, tuple(options.items()), "shared", arch())
    return opened(PLANS[name], kinds, path, _emitter(which, arch()).prefix(PLANS[name], **options))


def launched(found, a, b, c, operands, gap=0, alpha=1.0, beta=0.0, offset=0) -> np.ndarray:
    """C [m, n] as float64 of one launch; rows are padded by NaN, operands `offset` elements behind an alignment."""
    import cupy

    kinds, epilogue = found.kinds, found.kinds.epilogue
    (m, k), n = a.shape, b.shape[1]
    stored = [x.T if letter == "t" else x for x, letter in zip((a, b), kinds.layout, strict=True)]
    left, right = (to_device(padded(x, gap, NUMPY[kinds.input])) for x in stored)
    kind = NUMPY[kinds.output]
    result = to_device(padded(c if beta else np.full((m, n), np.nan), gap, kind))
    given = {
        name: to_device(padded(np.atleast_2d(operands[name]), gap, kind), offset * kind.itemsize)
        for name in epilogue.operands
    }
    addresses = {name: array.data.ptr for name, array in given.items()}
    extras = extras_of(epilogue, Operands(addresses, n + gap, operands.get("scale", 1.0)))
    space = found.workspace(m, n, k)
    launch = getattr(found.library, f"{found.name}_launch")
    pointer, integer, real, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_size_t
    matrix = [pointer, integer]
    launch.argtypes = [pointer, pointer, *[integer] * 3, real, *matrix, *matrix, real, *matrix, *[pointer] * 3, size]
    launch.argtypes = [*launch.argtypes, pointer]
    cupy.cuda.Device().synchronize()
    code = launch(
        found.handle, None, m, n, k, alpha, left.data.ptr, stored[0].shape[1] + gap, right.data.ptr,
        stored[1].shape[1] + gap, beta, result.data.ptr, n + gap, None, None, space.data.ptr, space.nbytes,
        extras and ctypes.byref(extras),
    )  # fmt: skip
    assert code == 0, found.call("error").decode()
    cupy.cuda.Device().synchronize()
    assert not space[:4096].any(), "the counters are not zero after a launch"
    values = result.get().view(kind).reshape(m, n + gap).astype(float)
    assert np.isnan(values[:, n:]).all(), "the kernel wrote outside C"
    return values[:, :n]


def integers(m, n, k):
    rng = np.random.default_rng([m, n, k])
    return [rng.integers(-1, 2, shape).astype(float) for shape in ((m, k), (k, n), (m, n))]


def product(a, b) -> np.ndarray:
    import cupy

    return (cupy.asarray(a) @ cupy.asarray(b)).get()


@pytest.mark.parametrize(("which", "name", "options"), [*KINDS, *HOPPER], ids=str)
def test_steps_are_applied_once_to_sums_that_are_exact(which, name, options):
    if (which, name, options) in HOPPER and fused_arch(arch()) != "sm_90a":
        pytest.skip("the kernel for sm_90a alone has these options")
    with kernel(which, name, options) as found:
        epilogue, output = found.kinds.epilogue, found.kinds.output
        for m, n, k, gap, offset in SHAPES:
            a, b, c = integers(m, n, k)
            operands = drawn(epilogue, m, n, NUMPY[output])
            exact = product(a, b)
            for alpha, beta in FACTORS[: 1 if m * n > 1 << 22 else 3]:
                before = alpha * exact + beta * c
                got = launched(found, a, b, c, operands, gap, alpha, beta, offset)
                off = np.abs(got - apply(epilogue, before, operands))
                assert (off <= bound(epilogue, before, operands, output)).all(), (m, n, k, gap, alpha, beta)


@pytest.mark.parametrize(("name", "options"), MANY, ids=str)
@pytest.mark.parametrize("k", [64, 640, 4096])
def test_every_launch_with_several_tiles_a_block_is_alike(name, options, k):
    """Of a depth so small that those who multiply wait for those who finish, of one about equal, and of a large one.

    A block of C that was read too early, or whose place was written too early, would differ now and then.
    """
    m, n = (8192 + 256, 4096) if k < 4096 else (4096, 4096 + 64)
    with kernel("own", name, options) as found:
        epilogue, output = found.kinds.epilogue, found.kinds.output
        a, b, _ = integers(m, n, k)
        operands = drawn(epilogue, m, n, NUMPY[output])
        before = product(a, b)
        first = launched(found, a, b, None, operands)
        assert (np.abs(first - apply(epilogue, before, operands)) <= bound(epilogue, before, operands, output)).all()
        for _ in range(6):
            np.testing.assert_array_equal(launched(found, a, b, None, operands), first)


@pytest.mark.parametrize(("which", "options"), GUARDED, ids=str)
def test_what_is_not_finite_goes_through_the_steps_of_a_plain_product(which, options):
    with kernel(which, "winograd", options) as found:
        epilogue = found.kinds.epilogue
        for m, n, k, gap in ((67, 131, 70, 3), (768, 1024, 512, 0)):
            a, b, c = integers(m, n, k)
            a[5, k - 3], a[50, 3], b[8, 100] = np.inf, np.nan, -np.inf
            operands = drawn(epilogue, m, n, NUMPY["bf16"])
            operands["bias"][7] = np.inf
            with np.errstate(invalid="ignore"):
                before = product(a, b)
                exact, got = apply(epilogue, before, operands), launched(found, a, b, c, operands, gap)
                fine = np.isfinite(exact)
                np.testing.assert_array_equal(got[~fine], exact[~fine])
                limit = bound(epilogue, before, operands, "bf16")
                limit[~np.isfinite(limit)] = 0
                assert (np.abs(got - exact)[fine] <= limit[fine]).all()


def test_a_captured_graph_reads_operands_anew():
    import cupy

    with kernel(*KINDS[0]) as found:
        m, n, k = 512, 768, 256
        a, b, _ = integers(m, n, k)
        left, right = (to_device(x.astype(NUMPY["bf16"])) for x in (a, b))
        bias, result = to_device(np.zeros(n, NUMPY["bf16"])), poisoned(2 * m * n)
        space, stream = found.workspace(m, n, k), cupy.cuda.Stream(non_blocking=True)
        extras = extras_of(found.kinds.epilogue, Operands({"bias": bias.data.ptr}))
        launch = getattr(found.library, f"{found.name}_launch")
        launch.argtypes = None
        integer, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            code = launch(
                found.handle, pointer(stream.ptr), integer(m), integer(n), integer(k), real(1.0),
                pointer(left.data.ptr), integer(k), pointer(right.data.ptr), integer(n), real(0.0),
                pointer(result.data.ptr), integer(n), None, None, pointer(space.data.ptr),
                ctypes.c_size_t(space.nbytes), ctypes.byref(extras),
            )  # fmt: skip
            graph = stream.end_capture()
        assert code == 0, found.call("error").decode()
        before = product(a, b)
        for seed in range(3):
            operands = drawn(found.kinds.epilogue, m, n, NUMPY["bf16"], seed)
            bias[:] = to_device(operands["bias"].astype(NUMPY["bf16"]))
            cupy.cuda.Device().synchronize()
            graph.launch(stream)
            stream.synchronize()
            got = result.get().view(NUMPY["bf16"]).reshape(m, n).astype(float)
            off = np.abs(got - apply(found.kinds.epilogue, before, operands))
            assert (off <= bound(found.kinds.epilogue, before, operands, "bf16")).all()


@pytest.mark.parametrize(("which", "options"), PROGRAMS, ids=str)
def test_the_program_tests_itself(which, options):
    program = built(which, "winograd", tuple(options.items()), "program", arch())
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize(("dtype", "epilogue"), LIBRARIES)
def test_the_program_of_the_library_tests_itself(dtype, epilogue):
    done = subprocess.run([str(library_program(dtype, epilogue, arch()))], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr
