"""The pass that makes planes on a real device: exact, and at the speed of a copy."""

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest

from codegen.build import build_cuda
from codegen.emit_planes import fused_sides
from codegen.schedule import schedule
from tests.codegen.test_cuda_gpu import arch, to_device
from tests.codegen.test_planes_on_host import NUMPY, PLANS, TYPES, Case, Job, shapes, text
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu


NAMES = ["winograd", "winograd2", "rectangular", "trivial"]
SCALED = [("bf16", "fp16"), ("fp64", "fp64")]


def sides_of(name: str, dtype: str, plane_dtype: str):
    return fused_sides(schedule(PLANS[name], dtype != plane_dtype))


@kept
def library(name: str, dtype: str, plane_dtype: str, scaled: bool, device: str) -> Path:
    return build_cuda(text(sides_of(name, dtype, plane_dtype), dtype, plane_dtype, scaled), device)


def builds(device: str) -> list[Build]:
    found = [Build(library, name, *types, False, device) for name in NAMES for types in TYPES]
    return found + [Build(library, "winograd", *types, True, device) for types in SCALED]


def built(name: str, dtype: str, plane_dtype: str, scaled: bool = False):
    path = library(name, dtype, plane_dtype, scaled, arch())
    return sides_of(name, dtype, plane_dtype), ctypes.CDLL(str(path))


class OnDevice:
    """The arrays of a case on the device, brought back when its planes are made."""

    def __init__(self, case: Case, extras: bool) -> None:
        self.case, self.job = case, case.job(extras)
        # cudaMalloc's boundaries, and the same offset behind them as on the host.
        skip = case.source.ctypes.data % 256
        self.source = to_device(np.concatenate([np.zeros(skip, np.uint8), case.source.view(np.uint8).ravel()]))
        self.planes, self.extras = to_device(case.planes), to_device(case.extras)
        self.job.matrix = self.source.data.ptr + skip
        self.job.planes = self.planes.data.ptr
        self.job.extras = self.extras.data.ptr if extras else None
        if case.exponents is not None:
            self.exponents = to_device(case.exponents)
            setattr(self.job, "column_exponents" if case.by_column else "row_exponents", self.exponents.data.ptr)

    def fetch(self) -> None:
        self.case.planes.view(np.uint8)[:] = self.planes.get()
        self.case.extras.view(np.uint8)[:] = self.extras.get()


def check(make, cases, extras: bool = True) -> None:
    import cupy

    found = [OnDevice(case, extras) for case in cases]
    cupy.cuda.Device().synchronize()
    assert make(*(ctypes.byref(case.job) for case in found)) == 0
    cupy.cuda.Device().synchronize()
    for case in found:
        case.fetch()
        case.case.check(extras)


@pytest.mark.parametrize(("dtype", "plane_dtype"), TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_planes_and_extras_are_exact(name, dtype, plane_dtype):
    sides, library = built(name, dtype, plane_dtype)
    for index, (gap, offset), extras in itertools.product(range(3), [(0, 0), (3, 0), (16, 0), (16, 1)], (True, False)):
        cases = [
            Case(side, NUMPY[dtype], NUMPY[plane_dtype], shapes(side, block)[index], block, gap, offset)
            for side, block in zip(sides, ((24, 272), (37, 141)), strict=True)
        ]
        check(library.make, cases, extras)


@pytest.mark.parametrize(("dtype", "plane_dtype"), SCALED)
def test_scaled_planes_are_exact_and_exponents_bring_peaks_to_one(dtype, plane_dtype):
    import cupy

    sides, library = built("winograd", dtype, plane_dtype, scaled=True)
    rng = np.random.default_rng(1)
    for index in range(3):
        cases = []
        for by_column, side in enumerate(sides):
            shape = shapes(side, (24, 272))[index]
            exponents = rng.integers(-3, 4, shape[by_column]).astype(np.int32)
            cases.append(Case(side, NUMPY[dtype], NUMPY[plane_dtype], shape, (24, 272), 8, 0, exponents, by_column))
        check(library.make_scaled, cases)
    values = np.exp2(rng.uniform(-40, 40, (517, 1)) + rng.uniform(-40, 40, (1, 1031))).astype(NUMPY[dtype])
    values[3], values[:, 4], values[5, 6] = 0, 0, np.inf
    source = to_device(values)
    for axis, call in ((1, library.rows_of), (0, library.columns_of)):
        found = cupy.full(values.shape[1 - axis], -77, np.int32)
        sizes = [ctypes.c_int64(x) for x in (values.shape[1], *values.shape)]
        cupy.cuda.Device().synchronize()
        assert call(ctypes.c_void_p(source.data.ptr), *sizes, ctypes.c_void_p(found.data.ptr)) == 0
        cupy.cuda.Device().synchronize()
        peak = values.astype(float).max(axis=axis)
        usual = np.isfinite(peak) & (peak > 0)
        np.testing.assert_array_equal(found.get()[usual], 1 - np.frexp(peak[usual])[1])
        np.testing.assert_array_equal(found.get()[~usual], 0)


def test_planes_beyond_the_range_of_fp16_are_infinite():
    sides, library = built("winograd", "bf16", "fp16")
    case = Case(sides[0], NUMPY["bf16"], NUMPY["fp16"], (16, 32), (8, 16), 0, 0)
    case.values = case.values * 2.0**15
    case.source[:] = case.values
    with np.errstate(over="ignore"):
        expected = case.expected(sides[0].planes).astype(np.float16)
    assert np.isinf(expected).any() and np.isfinite(expected).any()
    found = OnDevice(case, False)
    assert library.make(ctypes.byref(found.job), ctypes.byref(Job())) == 0
    found.fetch()
    np.testing.assert_array_equal(case.planes.reshape(expected.shape).astype(float), expected.astype(float))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "dtype", "plane_dtype", "size"),
    [
        ("winograd", "bf16", "bf16", 8192),
        ("winograd", "bf16", "fp16", 8192),
        ("winograd2", "bf16", "bf16", 16384),
        ("winograd2", "fp32", "fp32", 8192),
        ("winograd2", "fp64", "fp64", 8192),
    ],
)
def test_the_pass_runs_at_the_speed_of_a_copy(name, dtype, plane_dtype, size, record_property):
    import cupy

    sides, library = built(name, dtype, plane_dtype)
    item, plane_item = (np.dtype(NUMPY[kind]).itemsize for kind in (dtype, plane_dtype))
    jobs, arrays, moved = [], [], 0
    for side in sides:
        rows, columns = size // side.rows, size // side.columns
        matrix = to_device(np.random.default_rng(0).standard_normal(1 << 20).astype(NUMPY[dtype]))
        matrix = cupy.tile(matrix, size * size // (1 << 20))
        planes = cupy.empty(len(side.planes) * rows * columns * plane_item, np.uint8)
        jobs.append(
            Job(matrix.data.ptr, size, size, size, rows, columns, planes.data.ptr, None, columns, rows * columns)
        )
        arrays += [matrix, planes]
        moved += matrix.nbytes + planes.nbytes

    half = cupy.empty(moved // 2, np.uint8)
    other = cupy.empty_like(half)
    runs = (
        lambda: library.make(*map(ctypes.byref, jobs)),
        lambda: cupy.cuda.runtime.memcpyAsync(other.data.ptr, half.data.ptr, half.nbytes, 3, 0),
    )
    times: list[list[float]] = [[], []]
    with cupy.cuda.Stream.null:
        for _ in range(16):  # in turn, so that both meet the same clocks; the first warms up
            for run, found in zip(runs, times, strict=True):
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                run()
                end.record()
                end.synchronize()
                found.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    rate, copy = (moved / float(np.median(found[1:])) for found in times)
    record_property("terabytes_per_second", rate / 1e12)
    print(f"{name} {dtype}->{plane_dtype} {size}: {rate / 1e12:.2f} TB/s, copy {copy / 1e12:.2f}")
    assert rate >= 0.9 * copy
