"""Golden files (pytest --update-golden rewrites them) and the reason why GPU tests are skipped."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fuzzing import FACTOR

# JAX would take most of a GPU's memory in every process that imports it, from those that share the GPU with it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

_CACHE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of the tests that run")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        reason = _why_no_gpu()
        if reason:
            pytest.skip(reason)
    if item.get_closest_marker("rare") and FACTOR == 1:
        pytest.skip("one of many like it; make fuzz runs it")


@functools.cache
def _why_no_gpu() -> str:
    """Empty when a GPU can be used through CuPy."""
    try:
        import cupy
    except ImportError as error:
        return f"no CuPy ({error}); install the cuda13 or cuda12 extra"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no usable CUDA device ({error})"


@pytest.fixture(scope="session")
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What JAX compiles is kept for the processes that tests start, and nothing lands in the user's cache."""
    import jax

    folder = str(tmp_path_factory.mktemp("jax"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", folder)
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        before = {name: getattr(jax.config, name) for name in _CACHE}
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        yield
        for name, value in before.items():
            jax.config.update(name, value)


@pytest.fixture(scope="module")
def compile_quickly(_compiled_once: None) -> Iterator[None]:
    """For tests of the player, which spend most of their time on compiling."""
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare text with tests/golden/<module>/<test>.txt, or write it there with --update-golden."""
    path = Path(__file__).parent / "golden" / request.path.stem / f"{request.node.name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"{path} is missing; write it with: pytest --update-golden {request.node.nodeid}")
        assert path.read_text(encoding="utf-8") == text, "the text changed; if it should, rerun with --update-golden"

    return check
