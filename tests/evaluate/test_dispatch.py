"""The dispatch on the host: NumPy by BLAS or the emitted C, JAX and lists, errors, the cost of a look-up."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate.cpu import cpu_name
from evaluate.dispatch import Dispatcher
from evaluate.error_factor import error_factor
from evaluate.timing import Comparison
from evaluate.verdicts import Verdicts


def winograd_plan(reference, levels, orbit):
    if reference != "winograd":
        raise LookupError(reference)
    return plan(winograd(), levels)


@pytest.fixture
def dispatcher(tmp_path):
    return Dispatcher(winograd_plan, lambda device, paths: [], Verdicts(tmp_path))


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host where the emitted C is said to be worth a trial and wins it by 1.1."""
    seen = []

    def compare(measure, ours, plain, **_):
        seen.append((ours(), plain()))
        return Comparison(1.0, 1.1, 1.1, 1.09, 1.11, 0.0, 0.0, 11)

    def rows(device, paths):
        assert (device, paths) == (cpu_name(), ("c",))
        facts = {"reference": "winograd", "levels": 1, "path": "c", "operands": "variable", "M": 70, "N": 90, "K": 80}
        return [{**facts, "dtype": dtype, "plane_dtype": dtype, "ratio": 1.1} for dtype in ("fp32", "fp64")]

    monkeypatch.setattr("evaluate.buckets.SMALLEST_SIDE", 1)
    monkeypatch.setattr("evaluate.buckets.SMALLEST_VOLUME", 1)
    monkeypatch.setattr("evaluate.trial.compare", compare)
    found = Dispatcher(winograd_plan, rows, Verdicts(tmp_path))
    found.seen = seen
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("lead", [((), ()), ((3,), ()), ((2, 3), ()), ((3,), (3,)), ((2, 1), (3,)), ((), (3,))])
def test_numpy_gets_what_its_own_product_gives(dispatcher, dtype, lead):
    rng = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    a, b = (rng.standard_normal((*more, 6, 6)).astype(kind) for more in lead)
    found, told = dispatcher.matmul(a, b, explain=True)
    expected = np.matmul(a, b).astype(kind)
    assert type(found) is np.ndarray and found.dtype == kind
    assert np.array_equal(found.astype(float), expected.astype(float))
    assert told.choice == "numpy.matmul" and "too small" in told.why and told.error_factor == 1.0
    out = np.empty_like(expected)
    assert dispatcher.matmul(a, b, out) is out and np.array_equal(out.astype(float), expected.astype(float))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_emitted_c_runs_where_it_pays(host, dtype):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((70, 80)).astype(dtype), rng.standard_normal((80, 90)).astype(dtype)
    found, told = host.matmul(a, b, explain=True)
    assert told.choice == f"winograd, path c, {'fp' + dtype[5:]} planes, variable"
    assert 1 < told.error_factor < 3 and told.workspace_bytes > 0 and told.device == cpu_name()
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-3 if dtype == "float32" else 1e-12)
    for left, right in ((a[::-1], b), (np.asfortranarray(a), b.copy("F")), (np.repeat(a, 2, 1)[:, ::2], b)):
        np.testing.assert_allclose(host.matmul(left, right), left @ right, rtol=0, atol=1e-3)
    wide = np.zeros((70, 180), dtype)
    host.matmul(a, b, wide[:, ::2])
    assert np.array_equal(wide[:, ::2], found) and not wide[:, 1::2].any()
    records = np.zeros(70, [("x", dtype, (90,)), ("t", "u2")])  # rows that do not begin at whole elements
    host.matmul(a, b, records["x"])
    assert np.array_equal(records["x"], found) and not records["t"].any()
    operand = np.zeros(70, [("x", dtype, (80,)), ("t", "u2")])
    operand["x"] = a
    assert np.array_equal(host.matmul(operand["x"], b), found)
    stack = np.stack([a, a[::-1]])
    assert np.array_equal(host.matmul(stack, np.stack([b, b]))[0], found)
    square = rng.standard_normal((80, 80)).astype(dtype)
    wanted = square @ square
    np.testing.assert_allclose(host.matmul(square, square, square), wanted, rtol=0, atol=1e-3)


def test_a_guard_that_no_kernel_has_leaves_the_product_to_the_vendor(host):
    a, b = np.ones((70, 80)), np.ones((80, 90))
    _, told = host.matmul(a, b, guard=True, explain=True)
    assert told.choice == "numpy.matmul" and "no kernel for these types has a guard" in told.why and not host.seen


def test_packing_on_the_host_keeps_the_matrix(host):
    a, b = np.ones((70, 80)), np.ones((80, 90))
    packed = host.pack(b)
    assert packed.matrix is b and packed.planes is None and packed.shape == (80, 90) and packed.dtype == "fp64"
    assert "no scheme" in repr(packed)
    assert (host.matmul(a, packed) == 80).all()


def test_types_of_16_bits_are_never_emulated(host):
    a = np.ones((70, 70), np.float16)
    found, told = host.matmul(a, a, explain=True)
    assert (found == 70).all() and told.choice == "numpy.matmul" and "no kernels for fp16" in told.why


def test_jax_arrays_stay_jax_arrays(dispatcher):
    import jax
    import jax.numpy as jnp

    a = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    found, told = dispatcher.matmul(a, a.T, explain=True)
    assert isinstance(found, jax.Array) and (found == a @ a.T).all() and told.choice == "jax.numpy.matmul"
    half = a.astype(jnp.bfloat16)
    assert dispatcher.matmul(half, half.T).dtype == jnp.bfloat16
    assert (dispatcher.matmul(a, dispatcher.pack(a.T)) == found).all()
    for traced in (jax.jit(dispatcher.matmul), jax.grad(lambda x, y: dispatcher.matmul(x, y).sum())):
        with pytest.raises(ValueError, match="outside jit, grad and vmap"):
            traced(a, a.T)
    with pytest.raises(ValueError, match="cannot be written"):
        dispatcher.matmul(a, a.T, found)


def test_large_products_of_jax_on_the_host_are_left_to_jax(host):
    import jax.numpy as jnp

    told = host.matmul(jnp.ones((70, 80)), jnp.ones((80, 90)), explain=True)[1]
    assert told.choice == "jax.numpy.matmul" and "no kernels" in told.why


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "says"),
    [
        ([[1.0]], np.ones((1, 1)), {}, TypeError, "must be arrays of NumPy, CuPy, PyTorch or JAX, not list"),
        (np.ones((1, 1)), [[1.0]], {}, TypeError, "not list"),
        (np.ones(3), np.ones((3, 3)), {}, ValueError, "a [.., M, K] and b [.., K, N] are needed, not [3]"),
        (np.ones((2, 3)), np.ones((2, 3)), {}, ValueError, "not [2, 3] and [2, 3]"),
        (np.ones((2, 2), int), np.ones((2, 2), int), {}, ValueError, "convert a and b to one of fp16"),
        (np.ones((2, 2)), np.ones((2, 2), "f"), {}, ValueError, "one type, not fp64 and fp32"),
        (np.ones((3, 2, 2)), np.ones((4, 2, 2)), {}, ValueError, "the leading dimensions of a and b"),
        (np.ones((2, 2)), np.ones((2, 2)), {"out": np.ones((3, 2))}, ValueError, "out must have the shape [2, 2]"),
        (np.ones((2, 2)), np.ones((2, 2)), {"out": np.ones((2, 2), "f")}, ValueError, "a and out must have one type"),
        (np.ones((2, 2)), np.ones((2, 2)), {"plane_dtype": "fp16"}, ValueError, "planes of fp16 do not go with fp64"),
        (np.ones((2, 2)), np.ones((2, 2)), {"out": np.frombuffer(bytes(32)).reshape(2, 2)}, ValueError, "read-only"),
        (np.ones((2, 2)), np.ones((2, 2)), {"max_workspace": "lots"}, ValueError, "bytes or None, not 'lots'"),
        (np.ones((2, 2)), np.ones((2, 2)), {"max_workspace": [1]}, ValueError, "bytes or None, not [1]"),
        (np.ones((2, 2)), np.ones((2, 2)), {"max_workspace": -1}, ValueError, "bytes or None, not -1"),
        (np.ones((2, 2)), np.ones((2, 2)), {"max_error_factor": "6"}, ValueError, "at least 1, not '6'"),
        (np.ones((2, 2)), np.ones((2, 2)), {"tune": "no"}, ValueError, "tune must be True or False, not 'no'"),
        (np.ones((2, 2)), np.ones((2, 2)), {"tune": 1}, ValueError, "tune must be True or False, not 1"),
        (np.ones((2, 2)), np.ones((2, 2)), {"guard": "false"}, ValueError, "guard must be True or False, not 'false'"),
        (np.ones((2, 2)), np.ones((2, 2)), {"guard": 0}, ValueError, "guard must be True or False, not 0"),
        (np.ones((2, 2)), np.ones((2, 2)), {"scale": 0}, ValueError, "scale must be True, False or 'auto', not 0"),
        (np.ones((2, 2)), np.ones((2, 2)), {"plane_dtype": ["fp16"]}, ValueError, "'auto' or None, not ['fp16']"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(dispatcher, a, b, options, error, says):
    with pytest.raises(error) as caught:
        dispatcher.matmul(a, b, **options)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_an_option_of_another_type_is_refused_for_a_known_product_too(dispatcher):
    a = np.ones((2, 2))
    dispatcher.matmul(a, a)
    for options in ({"scale": 0}, {"guard": 0}, {"tune": 1}):
        with pytest.raises(ValueError, match=f"must be True.* not {next(iter(options.values()))}"):
            dispatcher.matmul(a, a, **options)


def test_packing_refuses_what_is_no_matrix(dispatcher):
    with pytest.raises(ValueError, match="a matrix \\[K, N\\] and rows of at least 1"):
        dispatcher.pack(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="no product of int64"):
        dispatcher.pack(np.ones((2, 2), int))
    with pytest.raises(ValueError, match="rows must be a positive integer, not 'x'"):
        dispatcher.pack(np.ones((2, 2)), rows="x")


def test_empty_products_are_empty(dispatcher):
    for a, b in (((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)), ((2, 0, 3), (2, 3, 4))):
        assert np.array_equal(dispatcher.matmul(np.ones(a), np.ones(b)), np.ones(a) @ np.ones(b))


def test_a_known_product_is_one_look_up(dispatcher, monkeypatch):
    a = np.ones((4, 4))
    dispatcher.matmul(a, a)

    def asked(*_):
        raise AssertionError("decided again")

    monkeypatch.setattr(dispatcher, "_decide", asked)
    assert (dispatcher.matmul(a, a) == 4).all()


def test_decisions_do_not_grow_without_bound(dispatcher, monkeypatch):
    monkeypatch.setattr("evaluate.dispatch._MOST_DECISIONS", 10)
    for rows in range(1, 40):
        dispatcher.matmul(np.ones((rows, 2)), np.ones((2, 2)))
    assert len(dispatcher._decisions) <= 10


def test_verdicts_need_no_folder(tmp_path):
    from tests.evaluate.test_decision import verdict

    (tmp_path / "file").write_text("")
    kept = Verdicts(tmp_path / "file")
    kept.put({"shape": 1}, verdict(1.1))
    assert kept.get({"shape": 1}) == verdict(1.1) and kept.get({"shape": 2}) is None
    good = Verdicts(tmp_path / "good")
    good.put({"shape": 1}, verdict(1.1))
    assert Verdicts(tmp_path / "good").get({"shape": 1}) == verdict(1.1)
    (kept_file,) = (tmp_path / "good").iterdir()
    text = kept_file.read_text()
    for damaged in ("[" * 100_000, text.replace("1.1", '"1.1"'), text.replace('"shape": [', '"shape": [7, '), "{}", ""):
        kept_file.write_text(damaged)
        assert Verdicts(tmp_path / "good").get({"shape": 1}) is None, damaged[:80]


@pytest.mark.parametrize(
    ("dtype", "plane_dtype", "levels", "low", "high"),
    [("bf16", "bf16", 1, 3, 5), ("bf16", "fp16", 1, 1, 1.2), ("fp32", "fp32", 1, 1.5, 2.5), ("fp64", "fp64", 2, 3, 5)],
)
def test_error_factors_are_those_of_the_measured_rows(dtype, plane_dtype, levels, low, high):
    assert low < error_factor(plan(winograd(), levels), dtype, plane_dtype) < high


FORKED = """
import os, signal
import numpy as np
from subcubic.library import _dispatcher

a = np.ones((1100, 1000), np.float32)
with _dispatcher._decider._lock:  # as another thread of the parent would hold it
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # waiting for ever ends the child by a signal
        os._exit(int(_dispatcher.matmul(a, a.T)[0, 0] != 1000))
raise SystemExit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_decides_though_a_thread_was_deciding():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
