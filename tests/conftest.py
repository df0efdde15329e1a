"""Golden files (pytest --update-golden rewrites them) and the reason why GPU tests are skipped."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzzing import FACTOR

# JAX would take most of a GPU's memory in every process that imports it, from those that share the GPU with it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


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
