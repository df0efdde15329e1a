import ast
import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from catalog.known import classical
from catalog.scheme import Format
from codegen import emit_triton
from codegen.emit import emit
from codegen.emit_triton import name
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.schemes import plans

# Without the one of 484 products, which an interpreted kernel takes minutes for.
PLANS = {name: made for name, made in plans().items() if made.rank < 100}
TYPES = [("fp16", None), ("bf16", None), ("bf16", "fp16")]


def constants(text: str) -> dict:
    """The plain values that a module assigns, those in tl.constexpr too."""
    found = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        names = [e.id for e in target.elts] if isinstance(target, ast.Tuple) else [target.id]
        values = node.value.elts if isinstance(target, ast.Tuple) else [node.value]
        for key, value in zip(names, values, strict=True):
            plain = value.args[0] if isinstance(value, ast.Call) else value
            found[key] = ast.literal_eval(plain) if not isinstance(plain, ast.Attribute) else ast.unparse(plain)
    return found


def planes(text: str, side: str, blocks: list) -> list:
    """What the kernel that combines a side writes, its sums evaluated on the blocks."""
    body = text.partition(f"def combine_{side}(")[2].partition("@triton.jit")[0]
    across = {"a": "BLOCKS_K", "b": "BLOCKS_N"}[side]
    columns = constants(text)[across]
    read = {}
    for number, where in re.findall(r"    x(\d+) = read\(x, ld, all_rows, all_columns, (.*), column < columns\)", body):
        row, column = eval(where, {"rows": 1, "columns": 1, "row": 0, "column": 0})
        read[f"x{number}"] = blocks[row * columns + column]
    writes = re.findall(r"    write\(planes, (\d+), (.*), row, column, rows, columns\)", body)
    assert [int(number) for number, _ in writes] == list(range(constants(text)[f"PLANES_{side.upper()}"]))
    return [eval(expression, {}, read) for _, expression in writes]


def follow(text: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C as the tables and sums of a module say: one accumulator, pending sums in slots, each block finished once."""
    given = constants(text)
    m, k, n = (given[f"BLOCKS_{size}"] for size in "MKN")
    left = [block for row in np.split(a, m, 0) for block in np.split(row, k, 1)]
    right = [block for row in np.split(b, k, 0) for block in np.split(row, n, 1)]
    planes_a, planes_b = planes(text, "a", left), planes(text, "b", right)
    slots: list = [None] * given["SLOTS"]
    c: list = [None] * (m * n)
    assert len(given["PRODUCTS"]) == given["RANK"]
    for a_plane, a_row, a_column, b_plane, b_row, b_column, clear, first, count in given["PRODUCTS"]:
        x = planes_a[a_row] if a_plane else left[a_row * k + a_column]
        y = planes_b[b_row] if b_plane else right[b_row * n + b_column]
        accumulator = x @ y if clear else accumulator + x @ y  # noqa: F821, the first product clears
        for row, column, factor, slot, starts, ends in given["PUBLICATIONS"][first : first + count]:
            assert starts or slots[slot] is not None
            value = factor * accumulator + (0 if starts else slots[slot])
            if ends:
                assert c[row * n + column] is None
                c[row * n + column] = value // given["DIVISOR"]
            if not starts and ends:
                slots[slot] = None
            elif not ends:
                assert not starts or slots[slot] is None
                slots[slot] = value
    return np.block([c[i * n : (i + 1) * n] for i in range(m)])


@pytest.mark.parametrize(("dtype", "plane_dtype"), TYPES)
@pytest.mark.parametrize("scheme", PLANS)
def test_the_text_says_what_the_plan_computes(scheme, dtype, plane_dtype):
    p = PLANS[scheme]
    text = emit(p, "triton", dtype=dtype, plane_dtype=plane_dtype)
    compile(text, "emitted", "exec")
    rng = np.random.default_rng(0)
    m, k, n = p.format
    a, b = rng.integers(-9, 9, (2 * m, 3 * k)), rng.integers(-9, 9, (3 * k, 2 * n))
    np.testing.assert_array_equal(follow(text, a, b), a @ b)


def test_plain_blocks_are_not_copied_and_planes_written_once():
    given, order = constants(emit(PLANS["winograd"], "triton", dtype="bf16")), schedule(PLANS["winograd"])
    assert (given["PLANES_A"], given["PLANES_B"], given["RANK"]) == (4, 4, 7)
    assert (given["SLOTS"], len(given["PUBLICATIONS"])) == (order.slots, order.publications)
    # Planes of another type cannot meet plain blocks in one product.
    mixed = constants(emit(PLANS["winograd"], "triton", dtype="bf16", plane_dtype="fp16"))
    assert all(row[0] == row[3] for row in mixed["PRODUCTS"]) and {row[0] for row in mixed["PRODUCTS"]} == {0, 1}
    trivial = constants(emit(PLANS["trivial"], "triton"))
    assert (trivial["PLANES_A"], trivial["PLANES_B"], trivial["RANK"], trivial["SLOTS"]) == (0, 0, 1, 0)


def test_golden_winograd_bf16(golden):
    golden(emit(PLANS["winograd"], "triton", dtype="bf16", plane_dtype="fp16"))


def test_the_twin_is_what_is_emitted_for_the_trivial_scheme():
    twin = files("codegen.kernels").joinpath("twin_triton.py").read_text(encoding="utf-8")
    emitted = emit(PLANS["trivial"], "triton", dtype="bf16")
    inside = twin.partition("# <scheme>\n")[2].partition("# </scheme>\n")
    assert inside[0] in emitted and emitted.endswith(inside[2])


def test_modules_need_only_torch_and_triton_and_name_their_scheme():
    text = emit(PLANS["rectangular"], "triton", dtype="fp16", version="1.2")
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {item.partition(".")[0] for item in imported} == {"torch", "triton"}
    assert PLANS["rectangular"].digest in text and "version 1.2" in text and "scheme>" not in text
    assert name(PLANS["winograd"], "bf16") != name(PLANS["winograd"], "bf16", "fp16")


def test_what_triton_cannot_take_is_one_sentence(monkeypatch):
    with pytest.raises(ValueError, match="the triton target has no fp32; choose one of fp16, bf16"):
        emit(PLANS["winograd"], "triton", dtype="fp32")
    with pytest.raises(ValueError, match="planes of fp16 can be fp16, not bf16"):
        emit(PLANS["winograd"], "triton", dtype="fp16", plane_dtype="bf16")
    monkeypatch.setattr(emit_triton, "_LIMIT", 15)
    emit(PLANS["winograd"], "triton")
    with pytest.raises(ValueError, match="A is cut into 16 blocks, more than the 15 .*; use fewer levels"):
        emit(PLANS["winograd2"], "triton")


def test_sides_without_planes_have_no_kernel():
    text = emit(plan(classical(Format(2, 3, 4))), "triton")
    assert "combine_a = None" in text and "combine_b = None" in text and "def combine_" not in text


def _write(folder: Path, names: list[str], types: list) -> list[Path]:
    paths = []
    for scheme in names:
        for dtype, plane_dtype in types:
            paths.append(folder / f"{scheme}_{dtype}_{plane_dtype}.py")
            paths[-1].write_text(emit(PLANS[scheme], "triton", dtype=dtype, plane_dtype=plane_dtype))
    return paths


@pytest.mark.slow
@pytest.mark.skipif(
    not (find_spec("triton") and find_spec("torch")), reason="no Torch and Triton; only this target needs them"
)
@pytest.mark.parametrize(
    ("names", "types"),
    [
        (["strassen", "rectangular", "rational"], [("fp16", None)]),
        (["winograd", "classical", "trivial"], TYPES[1:]),
    ],
)
def test_interpreted_modules_are_exact_on_integers(tmp_path, names, types):
    paths = _write(tmp_path, names, types)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("triton_interpreted.py"), *paths],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {str(path): [True] * 3 for path in paths}
