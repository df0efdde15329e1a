import ast
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.emit import TARGETS, emit, emit_header
from tests.codegen.schemes import plans
from tests.fuzzing import examples

PLANS = plans()
SHAPES = [(1, 1, 1), (7, 5, 3), (4, 6, 8), (9, 13, 17)]


def load(text: str):
    scope: dict = {}
    exec(compile(text, "emitted", "exec"), scope)
    return scope["matmul"]


MATMUL = {name: load(emit(p, "numpy")) for name, p in PLANS.items()}


@pytest.mark.parametrize("name", PLANS)
def test_numpy_twin_is_exact_on_integers(name):
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a, b = rng.integers(-50, 50, size=(m, k)), rng.integers(-50, 50, size=(k, n))
        result = MATMUL[name](a, b)
        assert result.dtype == np.int64
        np.testing.assert_array_equal(result, a @ b)


@examples(25)
@given(st.sampled_from(sorted(PLANS)), st.tuples(*[st.integers(1, 11)] * 3), st.integers(0, 2**32 - 1))
def test_numpy_twin_takes_any_size(name, shape, seed):
    m, k, n = shape
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 9, size=(2, m, k)), rng.integers(-9, 9, size=(2, k, n))
    np.testing.assert_array_equal(MATMUL[name](a, b), a @ b)


@pytest.mark.parametrize("name", ["winograd", "rational2"])
def test_numpy_twin_takes_python_numbers(name):
    big = np.array([[10**30, -(10**20), 3], [1, 2, 3]], dtype=object)
    np.testing.assert_array_equal(MATMUL[name](big, big.T), big @ big.T)
    thirds = np.array([[Fraction(1, 3), Fraction(2)]], dtype=object)
    assert MATMUL[name](thirds, thirds.T).tolist() == [[Fraction(37, 9)]]


def test_numpy_twin_refuses_shapes_that_do_not_match():
    with pytest.raises(ValueError, match="A has 3 columns but B has 2 rows"):
        MATMUL["winograd"](np.ones((2, 3)), np.ones((2, 3)))


@pytest.mark.parametrize("name", ["strassen", "winograd2", "rectangular", "rational"])
def test_jax_twin_is_exact_on_integers_and_can_be_jitted(name):
    import jax

    matmul = jax.jit(load(emit(PLANS[name], "jax")))
    rng = np.random.default_rng(0)
    a, b = rng.integers(-50, 50, size=(7, 10), dtype=np.int32), rng.integers(-50, 50, size=(10, 9), dtype=np.int32)
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_array_equal(np.asarray(matmul(a, b)), a @ b)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05), ("float16", 0.005)])
def test_jax_twin_keeps_the_type_of_floats(dtype, tolerance):
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    a, b = jnp.asarray(rng.standard_normal((33, 65)), dtype), jnp.asarray(rng.standard_normal((65, 31)), dtype)
    result = load(emit(PLANS["winograd"], "jax"))(a, b)
    assert result.dtype == dtype
    exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    assert np.linalg.norm(np.asarray(result, np.float64) - exact) <= tolerance * np.linalg.norm(exact)


def test_jax_twin_refuses_mixed_types():
    with pytest.raises(ValueError, match="must have one dtype"):
        load(emit(PLANS["winograd"], "jax"))(np.ones((2, 2), np.float32), np.ones((2, 2), np.int32))


def test_emitted_modules_need_only_their_library():
    for target in ("numpy", "jax"):
        tree = ast.parse(emit(PLANS["winograd2"], target))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert imported <= {"numpy", "jax", "jax.numpy"} and len(imported) == {"numpy": 1, "jax": 2}[target]


def test_unknown_targets_and_options_are_refused():
    assert TARGETS == ("numpy", "jax", "c", "cuda", "triton", "torch", "slp", "latex", "markdown", "bibtex")
    with pytest.raises(ValueError, match="unknown target 'fortran'; choose one of numpy, jax, c, cuda, triton, torch,"):
        emit(PLANS["winograd"], "fortran")
    with pytest.raises(ValueError, match="has no C header"):
        emit_header(PLANS["winograd"], "numpy")
