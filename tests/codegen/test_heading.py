"""The first lines that all exported files have in common."""

import ast
import hashlib
import subprocess

import pytest

from catalog.canonical import canonical_bytes, digest
from catalog.known import winograd
from codegen.build import build_c
from codegen.emit import TARGETS, emit, emit_header, fused_emitter
from codegen.folder import folder
from codegen.heading import block_comment, cell, comment, inline
from codegen.plan import plan
from tests.codegen.compilers import needs_nvcc
from tests.codegen.finite import HOSTILE, hostile
from tests.codegen.schemes import plans

MARKS = {"c": " *", "cuda": "//", "latex": "%", "bibtex": "%", "markdown": ""}
OPTIONS = {"triton": {"dtype": "bf16"}}


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_begins_with_the_same_facts(target):
    made = plan(winograd(), provenance=HOSTILE)
    text = emit(made, target, version="1.2 (abc)", **OPTIONS.get(target, {}))
    mark = MARKS.get(target, "#")
    first = text[: text.index("by subcubic, version 1.2 (abc)")]
    sha256 = hashlib.sha256(canonical_bytes(winograd())).hexdigest()
    lines = [line.removeprefix(f"{mark} ") for line in first.splitlines()]
    assert f"scheme   {sha256} (SHA-256 of its canonical bytes)" in lines and sha256 == digest(winograd())
    assert "format   2x2x2 (A 2x2 . B 2x2), rank 7 over Z, levels 1" in lines
    assert "adds     24 naive, 15 after common-subexpression elimination" in lines
    assert {line.split(" ")[0] for line in lines} >= {"source", "finder", "citation", "licence", "method"}
    assert "method   flips of abababababab, seed 3" in lines
    assert text.count("https://example.org") >= 1 and len(lines) < 15


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_provenance_there_is_none(target):
    text = emit(plans()["winograd"], target, **OPTIONS.get(target, {}))
    first = text[: text.index("by subcubic, version unknown")]
    assert "scheme   " in first and "source" not in first and "method" not in first


@pytest.mark.parametrize("target", ["numpy", "jax", "torch", "triton"])
def test_no_provenance_breaks_python(target):
    text = emit(hostile(), target, **OPTIONS.get(target, {}))
    assert ast.get_docstring(ast.parse(text)).startswith("C = A @ B with 7 block products")


def test_no_provenance_breaks_c():
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99")
    assert build_c(emit(hostile(), "c"), flags=flags).exists()
    assert build_c(emit_header(hostile(), "c"), flags=flags).exists()
    assert "SCHEME_ @misc" in emit(hostile(), "c"), "a name in the provenance is not a place to fill"
    assert build_c(emit_header(hostile(), "cuda") + "int x;", flags=flags).exists()


@needs_nvcc
def test_no_provenance_breaks_cuda(tmp_path):
    source = tmp_path / "scheme.cu"
    source.write_text(emit(hostile(), "cuda"), encoding="utf-8")
    command = ["nvcc", "-std=c++17", "-E", "-o", str(tmp_path / "out.ii"), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    body = (tmp_path / "out.ii").read_text()
    assert "int x;" not in body.split("subcubic", 1)[-1][:2000]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_file_of_a_folder_has_them(arch):
    files = folder(hostile(), arch, {"dtype": "bf16"}, True, "1.2 (abc)")
    for name, text in files.items():
        assert hostile().digest in text and "1.2 (abc)" in text and "CC BY 4.0" in text, name
        assert "24 naive, 15 after" in text, name
        if name.endswith(".py"):
            assert ast.get_docstring(ast.parse(text)), name
    header = fused_emitter(arch).header(hostile(), dtype="bf16", version="1.2 (abc)")
    assert header in files.values()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\t c", "a b c"),
        ("ends in \\", "ends in"),
        ("*/ /* --> ??/", "* / / * - -> ? ?/"),
        ("\ud800x\x00y", "?x y"),
        ("Müller", "Müller"),
    ],
)
def test_a_text_becomes_one_safe_line(text, expected):
    assert inline(text) == expected


def test_a_cell_has_no_markup():
    assert cell("a|b*c_d[e]<f>`g`&\\h") == r"a\|b\*c\_d\[e\]\<f\>\`g\`&amp;\\h"


def test_a_comment_of_c_is_one_comment():
    text = block_comment(hostile(), "1")
    assert text.startswith("/* scheme ") and text.endswith(" */\n") and text.count("*/") == 1 == text.count("/*")
    assert len(comment(hostile(), "1", "//").splitlines()) == len(text.splitlines()) == 9
