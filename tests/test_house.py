"""The house: every package comes from this checkout, floors hold, files stay small, help stays light."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("catalog", "search", "codegen", "evaluate", "subcubic")
MAY_IMPORT = {
    "catalog": set(),
    "search": {"catalog"},
    "codegen": {"catalog"},
    "evaluate": {"codegen", "catalog"},
    "subcubic": {"evaluate", "codegen", "search", "catalog"},
}
# The player's modules need JAX throughout, so that others import them inside the functions that need them.
PLAYER = {str(path.relative_to(ROOT)) for path in (ROOT / "search" / "player").glob("*.py")}
# Where each heavy library may be imported at all.
ONLY_IN = {
    "h5py": {"catalog/hdf.py"},
    "cupy": {"evaluate/device.py", "evaluate/array_cupy.py", "evaluate/array_jax.py", "codegen/loaders/cupy_module.py"},
    "sympy": {"catalog/proof.py"},
    "numba": {"search/compiled.py"},
    "distributed": {"search/executors.py", "search/dask_executor.py"},
    "scipy": {"evaluate/blas.py"},
    "matplotlib": {"catalog/picture.py", "evaluate/plots.py", "evaluate/map_plots.py", "evaluate/learning_plots.py"},
    "jax": {
        "evaluate/array_jax.py",
        "evaluate/attention_library.py",
        "evaluate/lm.py",
        "evaluate/lm_train.py",
        "evaluate/lm_weights.py",
        "evaluate/model_arms.py",
        "evaluate/model_check.py",
        "subcubic/player_benchmark.py",
        "subcubic/player_setup.py",
        "subcubic/train_verb.py",
        *PLAYER,
    },
    **dict.fromkeys(("mctx", "flax", "optax", "orbax"), PLAYER),
    # The twin is text that the emitter completes; nothing here imports it.
    "torch": {
        "codegen/kernels/twin_triton.py",
        "codegen/loaders/torch_ext.py",
        "evaluate/array_torch.py",
        "evaluate/attention_library.py",
        "evaluate/triton_path.py",
    },
    "triton": {"codegen/kernels/twin_triton.py", "evaluate/triton_path.py"},
}
HEAVY = ("jax", "sympy", "numba", "distributed", "cupy", "matplotlib", "scipy", "torch", "triton")


def sources() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def imports(path: Path) -> list[tuple[str, ast.stmt]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.append((node.module or "", node))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_each_package_comes_from_this_checkout(room):
    assert Path(importlib.import_module(room).__file__).resolve().parent == ROOT / room


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_floors_hold(path):
    room = path.relative_to(ROOT).parts[0]
    for name, _ in imports(path):
        top = name.split(".")[0]
        if top in ROOMS and top != room:
            assert top in MAY_IMPORT[room], f"{room} may not import {name}"
        if room == "search":
            assert not name.startswith("catalog.store"), "search yields schemes and never stores them"
        if top in ONLY_IN:
            assert str(path.relative_to(ROOT)) in ONLY_IN[top], f"{name} may not be imported here"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 300, "ask which second idea moved in"


@pytest.mark.parametrize("command", [["--help"], ["catalog", "list", "--json"], ["--version"]])
def test_light_commands_import_nothing_heavy(command, tmp_path):
    code = (
        "import sys; from subcubic.__main__ import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"SUBCUBIC_CATALOG": str(tmp_path / "catalog"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"
