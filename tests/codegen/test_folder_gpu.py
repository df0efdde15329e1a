"""Exported folders on a real device: make, and the loaders of CuPy and PyTorch against FP64."""

import importlib.util
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from codegen.emit import fused_arch
from codegen.folder import folder
from tests.codegen.schemes import plans

pytestmark = pytest.mark.gpu

PLAN = plans()["winograd"]
SHAPES = [(256, 256, 256), (520, 392, 136), (1, 8, 8), (1000, 1000, 1000)]
UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8}


@pytest.fixture(scope="module")
def arch():
    import cupy

    return fused_arch(f"sm_{cupy.cuda.Device().compute_capability}")


@pytest.fixture
def written(tmp_path, arch):
    def write(constant_b=True, **options):
        for name, text in folder(PLAN, arch, options, constant_b).items():
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def loaded(place, module):
    spec = importlib.util.spec_from_file_location(f"{place.name}_{module}", place / f"{module}.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def operands(shape, dtype, layout="nn"):
    m, k, n = shape
    rng = np.random.default_rng(3)
    kind = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    a, b = (rng.standard_normal(size).astype(kind) for size in ((m, k), (k, n)))
    return (*(x if side == "n" else np.asfortranarray(x) for x, side in zip((a, b), layout, strict=True)), a, b)


def agrees(result, a, b, dtype):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(np.asarray(result, np.float64) - exact) / np.linalg.norm(exact)
    assert error < 8 * UNIT[dtype], error


def test_make_tests_the_kernel(written, monkeypatch):
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that runs the tests
        monkeypatch.delenv(name, raising=False)
    place = written(dtype="bf16", plane_dtype="fp16")
    done = subprocess.run(["make"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stdout + done.stderr


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_cupy_multiplies(written, arch, layout):
    import cupy

    if arch != "sm_90a" and layout != "nn":
        pytest.skip(f"the kernels for {arch} have one layout")
    options = {"layout": layout} if arch == "sm_90a" else {}
    kernel = loaded(written(dtype="fp16", c_dtype="fp32", **options), "cupy_module")
    for shape in SHAPES:
        left, right, a, b = operands(shape, "fp16", layout)
        left, right = cupy.asarray(left, order="A"), cupy.asarray(right, order="A")
        out = cupy.full((a.shape[0], b.shape[1]), cupy.nan, cupy.float32)
        assert kernel.matmul(left, right, out) is out
        agrees(out.get(), a, b, "fp16")
        agrees(kernel.matmul(left, kernel.pack(right)).get(), a, b, "fp16")


def test_cupy_multiplies_bf16_on_two_streams_and_in_a_graph(written):
    import cupy

    kernel = loaded(written(dtype="bf16", plane_dtype="fp16"), "cupy_module")
    left, right, a, b = operands((520, 392, 136), "bf16")
    left, right = cupy.asarray(left), cupy.asarray(right)
    cupy.cuda.Device().synchronize()
    results = []
    for _ in range(2):
        with cupy.cuda.Stream(non_blocking=True):
            results.append([kernel.matmul(left, right) for _ in range(20)][-1])
    cupy.cuda.Device().synchronize()
    for result in results:
        agrees(result.get(), a, b, "bf16")
    stream = cupy.cuda.Stream(non_blocking=True)
    out = cupy.zeros((520, 136), ml_dtypes.bfloat16)
    with stream:
        stream.begin_capture()
        kernel.matmul(left, right, out)
        graph = stream.end_capture()
        for _ in range(50):
            graph.launch(stream)
    stream.synchronize()
    agrees(out.get(), a, b, "bf16")


def test_torch_multiplies(written):
    torch = pytest.importorskip("torch")
    kernel = loaded(written(dtype="bf16", plane_dtype="fp16"), "torch_ext")
    for shape in SHAPES:
        _, _, a, b = operands(shape, "bf16")
        left, right = (torch.from_numpy(x.astype(np.float32)).to("cuda", torch.bfloat16) for x in (a, b))
        packed = kernel.pack(right)
        for result in (kernel.matmul(left, right), kernel.matmul(left, packed)):
            assert result.dtype is torch.bfloat16
            agrees(result.float().cpu().numpy(), a, b, "bf16")
        out = torch.full((shape[0], shape[2]), float("nan"), dtype=torch.bfloat16, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel.matmul(left, packed, out)
        for _ in range(50):
            graph.replay()
        torch.cuda.synchronize()
        agrees(out.float().cpu().numpy(), a, b, "bf16")


def test_torch_refuses_what_it_cannot_take(written):
    torch = pytest.importorskip("torch")
    kernel = loaded(written(dtype="bf16", constant_b=False), "torch_ext")
    a = torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda")
    for wrong, message in (
        (a.float(), "must be torch.bfloat16"),
        (a.cpu(), "on a CUDA device"),
        (a.t(), "contiguous rows"),
        (a.clone().requires_grad_(), "no_grad"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel.matmul(a, wrong)
