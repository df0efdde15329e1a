"""The emitted kernels on a real device against FP64 on the host."""

import ctypes
import itertools
import subprocess
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from catalog.measures import growth
from codegen.build import build_cuda
from codegen.emit import emit
from codegen.plan import Plan
from tests.codegen.schemes import plans

pytestmark = pytest.mark.gpu

PLANS = plans()
NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}
UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24, "fp64": 2.0**-53}
DTYPES = [("fp32", None), ("fp64", None), ("fp16", None), ("bf16", None), ("bf16", "fp32")]
SIZES = [(1, 1, 1), (7, 300, 5), (101, 83, 67), (128, 96, 192), (259, 517, 130)]
I64, P, D = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double
GEMM = ctypes.CFUNCTYPE(ctypes.c_int, P, P, *[I64] * 4, *[P, I64, I64] * 3)


@dataclass
class Kernel:
    """The entry points of one built library with an open handle."""

    plan: Plan
    dtype: str
    library: ctypes.CDLL
    handle: ctypes.c_void_p

    def call(self, name: str, *arguments):
        return getattr(self.library, f"{self.plan.name}_{name}")(*arguments)

    def launch(self, stream, shape, alpha, a, lda, b, ldb, beta, c, ldc, workspace) -> None:
        m, k, n = shape
        pointers = [x.data.ptr for x in (a, b, c, workspace)]
        code = self.call("launch", self.handle, stream.ptr, m, n, k, alpha, pointers[0], lda, pointers[1], ldb, beta,
                         pointers[2], ldc, pointers[3], workspace.nbytes)  # fmt: skip
        assert code == 0, self.call("error").decode()

    def workspace(self, shape):
        import cupy

        m, k, n = shape
        space = cupy.empty(self.call("workspace", m, n, k), np.uint8)
        space.fill(0xFF)
        return space


def arch() -> str:
    import cupy

    return f"sm_{cupy.cuda.Device().compute_capability}"


def load(plan: Plan, dtype: str, product_dtype: str | None = None, product=None) -> Kernel:
    import cupy

    # Brings CuPy's own cuBLAS into the process, so that the library finds it by name.
    cupy.ones((2, 2)).dot(cupy.ones((2, 2)))
    library = ctypes.CDLL(str(build_cuda(emit(plan, "cuda", dtype=dtype, product_dtype=product_dtype), arch())))
    kernel = Kernel(plan, dtype, library, ctypes.c_void_p())
    signatures = {
        "open": ([P, P, P], ctypes.c_int),
        "error": ([], ctypes.c_char_p),
        "workspace": ([I64, I64, I64], ctypes.c_size_t),
        "launch": ([P, P, I64, I64, I64, D, P, I64, P, I64, D, P, I64, P, ctypes.c_size_t], ctypes.c_int),
        "close": ([P], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"{plan.name}_{name}")
        function.argtypes, function.restype = arguments, result
    code = kernel.call("open", ctypes.byref(kernel.handle), ctypes.cast(product, P) if product else None, None)
    assert code == 0, kernel.call("error").decode()
    return kernel


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


def check(kernel: Kernel, shape, gap, alpha, beta, integers=False, unit=None) -> None:
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


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(("dtype", "product_dtype"), DTYPES)
def test_kernel_agrees_with_fp64(name, dtype, product_dtype):
    if name == "rational2" and dtype == "fp16":
        pytest.skip("coefficients up to 81 a side leave the range of fp16")
    if name == "rectangular2" and dtype == "fp64":
        pytest.skip("144 blocks of B are more than a thread holds in fp64")
    kernel = load(PLANS[name], dtype, product_dtype)
    for shape, gap, (alpha, beta) in itertools.product(SIZES, (0, 3, 8), ((1, 0), (-0.5, 2))):
        check(kernel, shape, gap, alpha, beta)
    kernel.call("close", kernel.handle)


@pytest.mark.parametrize("name", [name for name in PLANS if name != "rectangular2"])
def test_integers_are_exact_in_fp64(name):
    kernel = load(PLANS[name], "fp64")
    for shape, gap in itertools.product(SIZES, (0, 3)):
        check(kernel, shape, gap, 3, -2, integers=True)
    kernel.call("close", kernel.handle)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_captured_graph_replays_on_new_data(dtype):
    import cupy

    kernel = load(PLANS["winograd2"], dtype)
    shape = m, k, n = (256, 192, 320)
    kind = NUMPY[dtype]
    rng = np.random.default_rng(0)
    a, b, c = (np.zeros(size, kind) for size in ((m, k), (k, n), (m, n)))
    device = [to_device(x) for x in (a, b, c)]
    workspace = kernel.workspace(shape)
    stream = cupy.cuda.Stream(non_blocking=True)
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
    kernel.call("close", kernel.handle)


def test_the_callers_product_replaces_cublas():
    import cupy

    calls = []

    def array(pointer, count, rows, columns):
        memory = cupy.cuda.UnownedMemory(pointer, 4 * count * rows * columns, None)
        return cupy.ndarray((count, rows, columns), np.float32, cupy.cuda.MemoryPointer(memory, 0))

    @GEMM
    def product(context, stream, count, m, n, k, a, lda, sa, b, ldb, sb, c, ldc, sc):
        calls.append((count, lda == k, ldb == n, ldc == n, sa == m * k, sb == k * n, sc == m * n))
        try:  # an exception cannot cross the C code, so it is kept for the test
            with cupy.cuda.ExternalStream(stream):
                array(c, count, m, n)[...] = cupy.matmul(array(a, count, m, k), array(b, count, k, n))
        except Exception as error:
            calls.append(repr(error))
            return 1
        return 0

    kernel = load(PLANS["rectangular"], "fp32", product=product)
    check(kernel, (101, 83, 67), 3, 2, 1)
    assert calls == [(22, True, True, True, True, True, True)]
    kernel.call("close", kernel.handle)

    refusing = GEMM(lambda *arguments: 7)
    kernel = load(PLANS["rectangular"], "fp32", product=refusing)
    with pytest.raises(AssertionError, match="the caller's product returned 7"):
        check(kernel, (8, 9, 8), 0, 1, 0)
    kernel.call("close", kernel.handle)


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

    kernel = load(PLANS["winograd"], "fp32")
    space = kernel.workspace((8, 10, 12))
    x = cupy.zeros(256, np.float32).data.ptr
    given = {"M": 8, "lda": 10, "C": x, "bytes": space.nbytes, "offset": 0} | change
    code = kernel.call("launch", kernel.handle, 0, given["M"], 12, 10, 1.0, x, given["lda"], x, 12, 0.0, given["C"], 12,
                       space.data.ptr + given["offset"], given["bytes"])  # fmt: skip
    assert code == 2 and message in kernel.call("error").decode()
    kernel.call("close", kernel.handle)


@pytest.mark.parametrize("name", ["winograd", "winograd2", "rectangular", "rational"])
@pytest.mark.parametrize(("dtype", "product_dtype"), DTYPES)
def test_the_program_tests_itself(name, dtype, product_dtype):
    program = build_cuda(emit(PLANS[name], "cuda", dtype=dtype, product_dtype=product_dtype), arch(), "program")
    done = subprocess.run([str(program)], capture_output=True, text=True)
    if done.returncode == 4:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr


def test_large_sizes_index_beyond_32_bits():
    import cupy

    # Two rows of blocks whose second plane starts beyond 2**31 elements; checked on a few columns.
    m, k, n = 65536, 65536, 8
    if cupy.cuda.Device().mem_info[0] < 40 << 30:
        pytest.skip("needs 40 GB of free device memory")
    kernel = load(PLANS["winograd"], "fp16")
    a = cupy.zeros((m, k), np.float16)
    b = cupy.zeros((k, n), np.float16)
    rows, columns = cupy.arange(0, m, 997), cupy.arange(n)
    a[rows, k - 1], a[rows, 0], a[m - 1, :] = 1, 2, 1
    b[k - 1, columns], b[0, columns] = 3, 5
    c = cupy.full((m, n), cupy.nan, np.float16)
    stream = cupy.cuda.Stream()
    space = kernel.workspace((m, k, n))
    cupy.cuda.Device().synchronize()
    kernel.launch(stream, (m, k, n), 1, a, k, b, n, 0, c, n, space)
    stream.synchronize()
    exact = np.zeros((m, n))
    exact[rows.get()] = 13
    exact[m - 1] = 8
    np.testing.assert_array_equal(c.get(), exact)
