"""The fused kernel for sm_80 and later on a real device, of any newer architecture, against FP64."""

import functools
import itertools
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import orient
from codegen.build import build_cuda
from codegen.emit_ampere import FAMILY, emit_ampere
from codegen.fused_text import prefix, types
from codegen.plan import Plan, plan
from subcubic.starter import shipped
from tests.codegen.fused_on_device import arch, check, opened, to_device
from tests.codegen.schemes import plans
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu

PLANS = plans()
# Formats of the shipped catalog, best rank 11 to 49, in several orders of the roles; and the plans of the other tests.
FORMATS = [
    *["2x2x3", "4x2x2", "2x3x3", "3x2x3", "4x3x2", "2x4x4", "4x2x4", "3x3x3", "2x5x5", "3x4x4", "5x4x3", "4x4x4"],
]
TYPES = [("bf16", None, None), ("bf16", "fp16", None), ("fp16", None, None), ("bf16", "fp16", "fp32")]
# Each with two of the types, so that any two neighbours have all four; coefficients up to 81 a side leave the range
# of fp16.
KINDS = [
    (name, kinds)
    for number, name in enumerate([*PLANS, *FORMATS])
    for kinds in (TYPES[number % 2], TYPES[2 + number % 2])
    if name != "rational2" or "fp16" not in kinds
]
WHOLE_TYPES = [("fp16", None, "fp32"), ("bf16", "fp16", "fp32")]
WHOLE = [(name, kinds) for name in ("trivial", "winograd", "rectangular", "rational") for kinds in WHOLE_TYPES]
PROGRAMS = list(zip(("trivial", "winograd", "winograd2", "rectangular", "rational"), (*TYPES, TYPES[1]), strict=True))
SHAPES = [(1, 1, 1), (7, 300, 5), (101, 83, 67), (517, 259, 1030)]  # m, k, n


@functools.cache
def shipped_plan(name: str) -> Plan:
    catalog, wanted = Catalog(shipped()), Format(*map(int, name.split("x")))
    rows = catalog.rows(format=wanted, ring=Ring.Z)
    best = min(rows, key=lambda row: row.rank)
    return plan(orient(catalog.get(best.id).scheme, wanted))


def the_plan(name: str) -> Plan:
    return PLANS[name] if name in PLANS else shipped_plan(name)


@kept
def built(name: str, kinds: tuple[str | None, ...], kind: str, device: str) -> Path:
    return build_cuda(emit_ampere(the_plan(name), *kinds), device, kind)


def builds(device: str) -> list[Build]:
    found = [*KINDS, *WHOLE, *((name, ("bf16", "fp16")) for name in ("trivial", "winograd"))]
    found += [("winograd2", ("fp16",)), ("winograd", ("fp16",))]
    found.sort(key=lambda each: -the_plan(each[0]).rank)
    return [
        Build(built, *each, kind, device) for kind, some in (("shared", found), ("program", PROGRAMS)) for each in some
    ]


@contextmanager
def kernel(name: str, *kinds):
    chosen, path = the_plan(name), built(name, kinds, "shared", arch())
    with opened(chosen, types(*kinds), path, prefix(chosen, types(*kinds), FAMILY)) as found:
        yield found


@pytest.mark.parametrize(("name", "kinds"), KINDS, ids=str)
def test_kernel_agrees_with_fp64(name, kinds):
    with kernel(name, *kinds) as found:
        for i, (shape, gap) in enumerate(itertools.product(SHAPES, (0, 3, 8))):
            alpha, beta = ((1, 0), (-0.5, 2))[i % 2]
            check(found, shape, gap, alpha, beta, packed=i % 3 == 1)


@pytest.mark.parametrize(("name", "kinds"), WHOLE, ids=str)
def test_integers_are_exact(name, kinds):
    with kernel(name, *kinds) as found:
        for shape, offset in itertools.product(SHAPES, (0, 1)):
            check(found, shape, 8, -2, 1, offset=offset, integers=True)


@pytest.mark.parametrize("name", ["trivial", "winograd"])
def test_more_tiles_than_ctas(name):
    with kernel(name, "bf16", "fp16") as found:
        check(found, (6000, 520, 6200))


def test_a_captured_graph_replays_on_new_data():
    import cupy

    m, k, n = 256, 192, 320
    rng = np.random.default_rng(0)
    a, b = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16)
    device = [to_device(x) for x in (a, b, np.zeros((m, n), np.float16))]
    stream = cupy.cuda.Stream(non_blocking=True)
    with kernel("winograd2", "fp16") as found:
        workspace = found.workspace(m, n, k)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            found.succeed(
                "launch", stream.ptr, m, n, k, 1.0, device[0].data.ptr, k, device[1].data.ptr, n, 0.0,
                device[2].data.ptr, n, None, None, workspace.data.ptr, workspace.nbytes,
            )  # fmt: skip
            graph = stream.end_capture()
        for _ in range(100):
            a[:], b[:] = rng.integers(-2, 3, a.shape), rng.integers(-2, 3, b.shape)
            device[0][:], device[1][:] = to_device(a), to_device(b)
            device[2].fill(0xFF)
            workspace[4096:] = 0xFF
            cupy.cuda.Device().synchronize()
            graph.launch(stream)
            stream.synchronize()
            result = device[2].get().view(np.float16).reshape(m, n)
            np.testing.assert_array_equal(result, a.astype(float) @ b.astype(float))


@pytest.mark.parametrize(("name", "kinds"), PROGRAMS, ids=str)
def test_the_program_tests_itself(name, kinds):
    program = built(name, kinds, "program", arch())
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr


@pytest.mark.alone
def test_large_sizes_index_beyond_32_bits():
    import cupy

    m, k, n = 65536, 65536, 8
    if cupy.cuda.Device().mem_info[0] < 60 << 30:
        pytest.skip("needs 60 GB of free device memory")
    a, b = cupy.zeros((m, k), np.float16), cupy.zeros((k, n), np.float16)
    rows, columns = cupy.arange(0, m, 997), cupy.arange(n)
    a[rows, k - 1], a[rows, 0], a[m - 1, :] = 1, 2, 1
    b[k - 1, columns], b[0, columns] = 3, 5
    c = cupy.full((m, n), cupy.nan, np.float16)
    stream = cupy.cuda.Stream()
    with kernel("winograd", "fp16") as found:
        space = found.workspace(m, n, k)
        cupy.cuda.Device().synchronize()
        found.succeed(
            "launch", stream.ptr, m, n, k, 1.0, a.data.ptr, k, b.data.ptr, n, 0.0, c.data.ptr, n, None, None,
            space.data.ptr, space.nbytes,
        )  # fmt: skip
        stream.synchronize()
    exact = np.zeros((m, n))
    exact[rows.get()] = 13
    exact[m - 1] = 8
    np.testing.assert_array_equal(c.get(), exact)
