"""The dispatch on a device: types and layouts against FP64, streams, graphs, threads, PyTorch, JAX, a real trial."""

import threading

import numpy as np
import pytest

from evaluate.device import array_module, require_gpu
from evaluate.dispatch import Dispatcher
from evaluate.timing import Comparison
from evaluate.verdicts import Verdicts
from subcubic.library import plan_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

SHAPE = (513, 384, 640)  # M, N, K
LIMITS = {"fp16": 2e-2, "bf16": 1e-1, "fp32": 1e-5, "fp64": 1e-13}
PATHS = {"fp16": "fused", "bf16": "fused", "fp32": "cuda", "fp64": "cuda"}


def rows(device, paths):
    facts = {"reference": "winograd", "levels": 1, "ratio": 1.1, "error_fro": 1.0, "baseline_error_fro": 1.0}
    shapes = [SHAPE, (3 * SHAPE[0], *SHAPE[1:])]
    return [
        {**facts, **dict(zip("MNK", shape, strict=True))}
        | {"dtype": dtype, "plane_dtype": dtype, "path": path, "operands": operands}
        for shape in shapes
        for dtype, path in PATHS.items()
        for operands in ("variable", "b_constant")
        if path == "fused" or operands == "variable"
    ]


@pytest.fixture
def dispatcher(tmp_path, monkeypatch):
    """One that takes every candidate whose result is right, however long it takes at these sizes."""

    def compare(measure, ours, plain, **_):
        ours(), plain()
        return Comparison(1.0, 1.2, 1.2, 1.19, 1.21, 0.0, 0.0, 11)

    monkeypatch.setattr("evaluate.buckets.SMALLEST_SIDE", 1)
    monkeypatch.setattr("evaluate.buckets.SMALLEST_VOLUME", 1)
    monkeypatch.setattr("evaluate.trial.compare", compare)
    return Dispatcher(plan_of, rows, Verdicts(tmp_path))


def kind(dtype):
    if dtype == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"fp16": "float16", "fp32": "float32", "fp64": "float64"}[dtype])


def drawn(dtype, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(kind(dtype))


def check(found, a, b, dtype):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(found.astype(np.float64) - exact) / np.linalg.norm(exact)
    assert error < LIMITS[dtype]


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_cupy_in_every_type_and_layout(dispatcher, dtype, layout):
    xp = array_module()
    m, n, k = SHAPE
    a, b = drawn(dtype, m, k), drawn(dtype, k, n, seed=1)
    left, right = (
        xp.asarray(x) if letter == "n" else xp.asarray(np.ascontiguousarray(x.T)).T
        for letter, x in zip(layout, (a, b), strict=True)
    )
    found, told = dispatcher.matmul(left, right, explain=True)
    assert told.choice.startswith(f"winograd, path {PATHS[dtype]}"), told
    assert isinstance(found, xp.ndarray) and found.dtype == kind(dtype)
    check(xp.asnumpy(found), a, b, dtype)
    if PATHS[dtype] == "fused" and require_gpu().arch == "sm_90":
        assert told.copied == () and told.layout == layout
    out = xp.zeros((m, 2 * n), kind(dtype))[:, :n]
    assert dispatcher.matmul(left, right, out) is out
    check(xp.asnumpy(out), a, b, dtype)
    packed = dispatcher.pack(right, rows=m)
    assert (packed.planes is not None) == (PATHS[dtype] == "fused")
    check(xp.asnumpy(dispatcher.matmul(left, packed)), a, b, dtype)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_with_a_guard_infinities_and_nans_come_out_as_those_of_the_vendor(dispatcher, dtype):
    xp = array_module()
    m, n, k = SHAPE
    a, b = drawn(dtype, m, k), drawn(dtype, k, n, seed=1)
    finite = xp.asarray(a), xp.asarray(b)
    for operand in (finite[1], dispatcher.pack(finite[1], rows=m)):  # a trial takes finite operands
        check(xp.asnumpy(dispatcher.matmul(finite[0], operand, guard=True)), a, b, dtype)
    a[7, 300], a[400, 5], b[9, 200] = np.inf, np.nan, -np.inf
    left, right = xp.asarray(a), xp.asarray(b)
    expected = xp.asnumpy(xp.matmul(left, right)).astype(float)
    for operand in (right, dispatcher.pack(right, rows=m)):
        found, told = dispatcher.matmul(left, operand, guard=True, explain=True)
        assert "guard=1" in told.choice, told
        seen = xp.asnumpy(found).astype(float)
        for kind_of in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(kind_of(seen), kind_of(expected))
    dispatcher.matmul(*finite)  # without a guard too, or the trial would refuse it for what it spoils
    free = xp.asnumpy(dispatcher.matmul(left, right)).astype(float)
    assert (~np.isfinite(free)).sum() > (~np.isfinite(expected)).sum()


def test_small_rows_keep_their_accuracy_where_a_sample_shows_them(dispatcher):
    xp = array_module()
    m, n, k = SHAPE
    a, b = drawn("fp16", m, k), drawn("fp16", k, n, seed=1)
    small = np.arange(m) >= m // 2  # of other blocks than the large ones
    a[small] /= np.float16(2**9)
    left, right = xp.asarray(a), xp.asarray(b)
    exact = a.astype(float) @ b.astype(float)

    def error(scale):
        found, told = dispatcher.matmul(left, right, scale=scale, explain=True)
        assert ("scale=1" in told.choice) == bool(scale), told
        return np.linalg.norm((xp.asnumpy(found).astype(float) - exact)[small]) / np.linalg.norm(exact[small])

    assert error("auto") < LIMITS["fp16"] and 20 * error("auto") < error(False)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_stacks_streams_and_threads(dispatcher, dtype):
    xp = array_module()
    m, n, k = SHAPE
    a, b = drawn(dtype, 3, m, k), drawn(dtype, k, n, seed=1)
    left, right = xp.asarray(a), xp.asarray(b)
    check(xp.asnumpy(dispatcher.matmul(left, right)), a, b, dtype)
    check(xp.asnumpy(dispatcher.matmul(left, xp.asarray(np.stack([b] * 3)))), a, b, dtype)
    failed = []

    def work():
        try:
            stream = xp.cuda.Stream(non_blocking=True)
            with xp.cuda.Device(0), stream:
                for _ in range(10):
                    found = dispatcher.matmul(left[0], right)
                stream.synchronize()
                check(xp.asnumpy(found), a[0], b, dtype)
        except Exception as error:
            failed.append(error)

    dispatcher.matmul(left[0], right)
    xp.cuda.Device().synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_graph_is_captured_after_a_first_call(dispatcher):
    xp = array_module()
    m, n, k = SHAPE
    a, b = drawn("bf16", m, k), drawn("bf16", k, n, seed=1)
    left, right = xp.asarray(a), xp.asarray(b)
    out = xp.zeros((m, n), kind("bf16"))
    dispatcher.matmul(left, right, out)
    stream = xp.cuda.Stream(non_blocking=True)
    xp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        dispatcher.matmul(left, right, out)
        graph = stream.end_capture()
        out[...] = 0
        graph.launch(stream)
        stream.synchronize()
    check(xp.asnumpy(out), a, b, "bf16")


@pytest.mark.parametrize("dtype", LIMITS)
def test_torch_tensors_on_their_current_stream(dispatcher, dtype):
    torch = pytest.importorskip("torch")
    m, n, k = SHAPE
    names = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
    a = torch.randn(3, m, k, device="cuda").to(names[dtype])
    layer = torch.nn.Linear(k, n, bias=False, device="cuda", dtype=names[dtype])
    with pytest.raises(ValueError, match="no_grad"):
        dispatcher.matmul(a, layer.weight.T)
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        for right in (layer.weight.T, dispatcher.pack(layer.weight.T, rows=3 * m)):
            found, told = dispatcher.matmul(a, right, explain=True)
            torch.cuda.current_stream().synchronize()
            assert told.choice.startswith("winograd") and found.dtype == names[dtype] and found.shape == (3, m, n)
            check(found.double().cpu().numpy(), a.double().cpu().numpy(), layer.weight.T.double().cpu().numpy(), dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_jax_arrays_stay_jax_arrays(dispatcher, dtype):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    m, n, k = SHAPE
    a, b = drawn(dtype, m, k), drawn(dtype, k, n, seed=1)
    found, told = dispatcher.matmul(jax.numpy.asarray(a), jax.numpy.asarray(b), explain=True)
    assert isinstance(found, jax.Array) and told.choice.startswith("winograd"), told
    check(np.asarray(found), a, b, dtype)


@pytest.mark.alone
def test_what_runs_has_won_a_real_trial(tmp_path):
    from subcubic.library import rows_of

    xp = array_module()
    dispatcher = Dispatcher(plan_of, rows_of, Verdicts(tmp_path))
    a, b = (xp.random.standard_normal((8192, 8192), dtype=xp.float32) for _ in range(2))
    found, told = dispatcher.matmul(a, b, explain=True)
    again, second = dispatcher.matmul(a, b, explain=True)
    assert second is told and bool((found == again).all())
    if told.measured_ratio is None:
        assert told.choice == "cupy.matmul" and told.why
    else:
        assert told.ratio_low > 1 and told.repaid_after >= 1 and told.workspace_bytes > 0
    plain = xp.matmul(a, b)
    assert float(xp.linalg.norm(found - plain) / xp.linalg.norm(plain)) < 1e-4
