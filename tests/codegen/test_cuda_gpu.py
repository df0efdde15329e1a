"""The emitted kernels on a real device against FP64 on the host."""

import ctypes
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from catalog.measures import growth
from codegen.build import build_cuda
from codegen.emit import emit
from codegen.emit_cuda import prefix
from codegen.plan import Plan
from evaluate import cublas
from evaluate.kernel import Kernel, KernelError, open_kernel
from tests.codegen.schemes import plans
from tests.prebuild import Build, kept

pytestmark = pytest.mark.gpu

PLANS = plans()
NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}
UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24, "fp64": 2.0**-53}
DTYPES = [("fp32", None), ("fp64", None), ("fp16", None), ("bf16", None), ("bf16", "fp32")]
# 144 blocks of B are more than a thread holds in fp64; coefficients up to 81 a side leave the range of fp16.
TOO_MUCH = {("rational2", "fp16"), ("rectangular2", "fp64")}
KINDS = [(name, *types) for name in PLANS for types in DTYPES if (name, types[0]) not in TOO_MUCH]
PROGRAMS = [("winograd", "fp32", None), ("winograd", "bf16", "fp32"), ("winograd2", "fp16", None)]
PROGRAMS += [("rectangular", "bf16", None), ("rational", "fp64", None)]
SIZES = [(1, 1, 1), (7, 300, 5), (101, 83, 67), (128, 96, 192), (259, 517, 130)]
I64, P = ctypes.c_int64, ctypes.c_void_p
GEMM = ctypes.CFUNCTYPE(ctypes.c_int, P, P, *[I64] * 4, *[P, I64, I64] * 3)


@dataclass
class Opened:
    """One built library with an open handle, and what it was built from."""

    plan: Plan
    dtype: str
    kernel: Kernel

    def call(self, name: str, *arguments):
        return getattr(self.kernel.library, f"{self.kernel.name}_{name}")(*arguments)

    def launch(self, stream, shape, alpha, a, lda, b, ldb, beta, c, ldc, workspace) -> None:
        m, k, n = shape
        pointers = [x.data.ptr for x in (a, b, c, workspace)]
        self.kernel.launch(
            stream.ptr, (m, n, k), *pointers, workspace.nbytes, alpha=alpha, beta=beta, leading=(lda, ldb, ldc)
        )

    def workspace(self, shape):
        import cupy

        m, k, n = shape
        space = cupy.empty(self.kernel.workspace_bytes(m, n, k), np.uint8)
        space.fill(0xFF)
        return space


def arch() -> str:
    import cupy

    return f"sm_{cupy.cuda.Device().compute_capability}"


@kept
def built(name: str, dtype: str, product_dtype: str | None, kind: str, device: str) -> Path:
    return build_cuda(emit(PLANS[name], "cuda", dtype=dtype, product_dtype=product_dtype), device, kind)


def builds(device: str) -> list[Build]:
    return [
        Build(built, *each, kind, device) for kind, some in (("shared", KINDS), ("program", PROGRAMS)) for each in some
    ]


@contextmanager
def opened(name: str, dtype: str, product_dtype: str | None = None) -> Iterator[Opened]:
    cublas.load()  # tells the emitted library where it is
    path = built(name, dtype, product_dtype, "shared", arch())
    with open_kernel(path, prefix(PLANS[name], dtype, product_dtype)) as kernel:
        yield Opened(PLANS[name], dtype, kernel)


@contextmanager
def opened_with(product, name: str) -> Iterator[Opened]:
    """A kernel for fp32 whose products are done by the caller's function."""
    with opened(name, "fp32") as found:
        handle = ctypes.c_void_p()
        assert found.call("open", ctypes.byref(handle), ctypes.cast(product, P), None) == 0
        try:
            yield replace(found, kernel=replace(found.kernel, handle=handle))
        finally:
            found.call("close", handle)


def to_device(array: np.ndarray):
    """The bytes of a host array on the device, whatever its type."""
    import cupy

    return cupy.asarray(np.ascontiguousarray(array).view(np.uint8).ravel())


def to_host(array, like: np.ndarray) -> np.ndarray:
    return array.get().view(like.dtype).reshape(like.shape)


def padded(values: np.ndarray, gap: int, dtype) -> np.ndarray:
    storage = np.full((values.shape[0], values.shape[1] + gap), np.nan, dtype)
    storage[:, : values.shape[1]] = values.astype(dtype)
    return storage


def check(kernel: Opened, shape, gap, alpha, beta, integers=False, unit=None) -> None:
    import cupy

    m, k, n = shape
    rng = np.random.default_rng([m, k, n])
    kind = NUMPY[kernel.dtype]

    def draw(*size):
        return rng.integers(-2, 3, size).astype(float) if integers else rng.standard_normal(size)

    a, b = padded(draw(m, k), gap, kind), padded(draw(k, n), gap, kind)
    c = padded(draw(m, n) if beta else np.full((m, n), np.nan), gap, kind)
    exact = alpha * (a[:, :k].astype(float) @ b[:, :n].astype(float))
    if beta:
        exact += beta * c[:, :n].astype(float)
    device = [to_device(x) for x in (a, b, c)]
    stream = cupy.cuda.Stream(non_blocking=True)
    workspace = kernel.workspace(shape)
    cupy.cuda.Device().synchronize()
    kernel.launch(stream, shape, alpha, device[0], k + gap, device[1], n + gap, beta, device[2], n + gap, workspace)
    stream.synchronize()
    result = to_host(device[2], c).astype(float)
    assert np.isnan(result[:, n:]).all(), "the kernel wrote outside C"
    if integers:
        np.testing.assert_array_equal(result[:, :n], exact)
        return
    unit = max(unit or 0, UNIT[kernel.dtype])
    accumulation = UNIT["fp64" if kernel.dtype == "fp64" else "fp32"]
    tolerance = (8 * unit + 4 * accumulation * (8 + k**0.5)) * max(
        1.0, growth(kernel.plan.scheme) / kernel.plan.format.volume
    )
    scale = np.linalg.norm(a[:, :k].astype(float)) * np.linalg.norm(b[:, :n].astype(float)) / k**0.5
    scale = abs(alpha) * scale + (np.linalg.norm(exact) if beta else 0)
    assert np.linalg.norm(result[:, :n] - exact) <= tolerance * scale


@pytest.mark.parametrize(("name", "dtype", "product_dtype"), KINDS)
def test_kernel_agrees_with_fp64(name, dtype, product_dtype):
    with opened(name, dtype, product_dtype) as kernel:
        for shape, gap, (alpha, beta) in itertools.product(SIZES, (0, 3, 8), ((1, 0), (-0.5, 2))):
            check(kernel, shape, gap, alpha, beta)


@pytest.mark.parametrize("name", [name for name in PLANS if name != "rectangular2"])
def test_integers_are_exact_in_fp64(name):
    with opened(name, "fp64") as kernel:
        for shape, gap in itertools.product(SIZES, (0, 3)):
            check(kernel, shape, gap, 3, -2, integers=True)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_captured_graph_replays_on_new_data(dtype):
    import cupy

    shape = m, k, n = (256, 192, 320)
    kind = NUMPY[dtype]
    rng = np.random.default_rng(0)
    a, b, c = (np.zeros(size, kind) for size in ((m, k), (k, n), (m, n)))
    device = [to_device(x) for x in (a, b, c)]
    stream = cupy.cuda.Stream(non_blocking=True)
    with opened("winograd2", dtype) as kernel:
        workspace = kernel.workspace(shape)
        cupy.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            kernel.launch(stream, shape, 1, device[0], k, device[1], n, 0, device[2], n, workspace)
            graph = stream.end_capture()
        for _ in range(3):
            a[:], b[:] = rng.integers(-2, 3, a.shape), rng.integers(-2, 3, b.shape)
            device[0][:], device[1][:] = to_device(a), to_device(b)
            device[2].fill(0xFF)
            workspace.fill(0xFF)
            cupy.cuda.Device().synchronize()
            graph.launch(stream)
            stream.synchronize()
            exact = a.astype(float) @ b.astype(float)
            error = np.linalg.norm(to_host(device[2], c).astype(float) - exact) / np.linalg.norm(exact)
            assert error <= 40 * UNIT[dtype]


# Runs in a process of its own, where nothing has multiplied before the capture. Zeros and a few ones, so that the
# result is exact and seen at once to be there.
FIRST_PRODUCT_IN_CAPTURE = """
import sys
from pathlib import Path
import cupy
from evaluate import cublas
from evaluate.kernel import open_kernel

path, name, kind, m, k, n = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
cublas.load()
a, b = cupy.zeros((m, k), kind), cupy.zeros((k, n), kind)
c = cupy.full((m, n), cupy.nan, kind)
a[m - 1, k - 1], b[k - 1, n - 1], a[0, 0], b[0, 0] = 2, 3, 1, 1
with open_kernel(Path(path), name) as kernel:
    size = kernel.workspace_bytes(m, n, k)
    space = cupy.empty(size, "uint8")
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)  # the strictest: no call may allocate or wait
        kernel.launch(stream.ptr, (m, n, k), a.data.ptr, b.data.ptr, c.data.ptr, space.data.ptr, size)
        graph = stream.end_capture()
    for _ in range(2):
        c.fill(cupy.nan)
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        found = c.get()
        assert found[0, 0] == 1 and found[m - 1, n - 1] == 6 and found.sum(dtype="float64") == 7
print("PASS")
"""


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "fp64"])
@pytest.mark.parametrize("shape", [(96, 64, 80), (8192, 64, 8192)], ids=["batched", "single"])
def test_the_first_product_of_a_process_may_be_captured(dtype, shape):
    the_plan = PLANS["winograd"]
    path = built("winograd", dtype, None, "shared", arch())
    kind = np.dtype(NUMPY[dtype]).name
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PRODUCT_IN_CAPTURE, str(path), prefix(the_plan, dtype), kind, *map(str, shape)],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))},
    )
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stderr


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "fp64"])
@pytest.mark.parametrize("gap", [0, 16, 3])
def test_large_products_read_plain_blocks_where_they_lie(dtype, gap):
    with opened("winograd", dtype) as kernel:
        check(kernel, (8192, 32, 8192), gap, 1, 0)


def test_the_callers_product_replaces_cublas():
    from cupy.cuda import runtime

    calls = []

    def fetched(pointer, shape):
        array = np.empty(shape, np.float32)
        runtime.memcpy(array.ctypes.data, pointer, array.nbytes, runtime.memcpyDeviceToHost)
        return array

    @GEMM
    def product(context, stream, count, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc):
        calls.append((count, lda == k, ldb == n, ldc == n, sa == m * k, sb == k * n, sc == m * n))
        try:  # an exception cannot cross the C code, so it is kept for the test
            runtime.streamSynchronize(stream or 0)
            result = np.matmul(fetched(a, (count, m, k)), fetched(b, (count, k, n)))
            runtime.memcpy(c, result.ctypes.data, result.nbytes, runtime.memcpyHostToDevice)
            runtime.deviceSynchronize()  # the copy runs on another stream than the kernel that reads it
        except Exception as error:
            calls.append(repr(error))
            return 1
        return 0

    failure: Exception | None = None
    with opened_with(product, "rectangular") as kernel:
        try:
            check(kernel, (101, 83, 67), 3, 2, 1)
        except (AssertionError, KernelError) as error:
            failure = error
    # First what the callback saw, since that explains the failure.
    assert calls == [(22, True, True, True, True, True, True)]
    if failure:
        raise failure


def test_a_refusal_of_the_callers_product_is_reported():
    refusing = GEMM(lambda *arguments: 7)
    with opened_with(refusing, "rectangular") as kernel:
        with pytest.raises(KernelError, match="the caller's product returned 7"):
            check(kernel, (8, 9, 8), 0, 1, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lda": 9}, "lda >= 10"),
        ({"M": 0}, "sizes must be positive"),
        ({"bytes": 1000}, "the workspace has 1000 bytes"),
        ({"C": None}, "must not be null"),
        ({"offset": 16}, "256-byte aligned"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_queued(change, message):
    import cupy

    with opened("winograd", "fp32") as kernel:
        space = kernel.workspace((8, 10, 12))
        x = cupy.zeros(256, np.float32).data.ptr
        given = {"M": 8, "lda": 10, "C": x, "bytes": space.nbytes, "offset": 0} | change
        sizes, place = (given["M"], 12, 10), space.data.ptr + given["offset"]
        with pytest.raises(KernelError, match=message):
            kernel.kernel.launch(0, sizes, x, x, given["C"], place, given["bytes"], leading=(given["lda"], 12, 12))


@pytest.mark.parametrize(("name", "dtype", "product_dtype"), PROGRAMS)
def test_the_program_tests_itself(name, dtype, product_dtype):
    program = built(name, dtype, product_dtype, "program", arch())
    done = subprocess.run([str(program)], capture_output=True, text=True)
    if done.returncode == 4:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr


@pytest.mark.alone
def test_large_sizes_index_beyond_32_bits():
    import cupy

    # Two rows of blocks whose second plane starts beyond 2**31 elements; checked on a few columns.
    m, k, n = 65536, 65536, 8
    if cupy.cuda.Device().mem_info[0] < 40 << 30:
        pytest.skip("needs 40 GB of free device memory")
    a = cupy.zeros((m, k), np.float16)
    b = cupy.zeros((k, n), np.float16)
    rows, columns = cupy.arange(0, m, 997), cupy.arange(n)
    a[rows, k - 1], a[rows, 0], a[m - 1, :] = 1, 2, 1
    b[k - 1, columns], b[0, columns] = 3, 5
    c = cupy.full((m, n), cupy.nan, np.float16)
    stream = cupy.cuda.Stream()
    with opened("winograd", "fp16") as kernel:
        space = kernel.workspace((m, k, n))
        cupy.cuda.Device().synchronize()
        kernel.launch(stream, (m, k, n), 1, a, k, b, n, 0, c, n, space)
        stream.synchronize()
    exact = np.zeros((m, n))
    exact[rows.get()] = 13
    exact[m - 1] = 8
    np.testing.assert_array_equal(c.get(), exact)
