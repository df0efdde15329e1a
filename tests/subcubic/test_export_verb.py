import hashlib
import re
import shutil
import subprocess

import numpy as np
import pytest


@pytest.mark.parametrize(("target", "suffix"), [("cuda", ".cu"), ("c", ".c"), ("numpy", ".py"), ("jax", ".py")])
def test_export_writes_one_self_contained_file(cli, home, target, suffix):
    done = cli("export", "winograd", "--to", target, "--levels", 2, "-o", home / "out", "--json")
    assert done.code == 0, done.err
    path = home / "out" / re.search(r"subcubic_\w+\.\w+", done.json["path"])[0]
    assert path.suffix == suffix and str(path) == done.json["path"]
    text = path.read_bytes()
    assert hashlib.sha256(text).hexdigest() == done.json["sha256"]
    assert done.json["id"][:12].encode() in text
    assert b'#include "' not in text and b"import subcubic" not in text
    assert (target in ("cuda", "c")) == path.with_suffix(".h").exists()


def test_triton_names_its_type(cli, home):
    done = cli("export", "winograd", "--to", "triton", "--dtype", "bf16", "--levels", 2, "-o", home / "out", "--json")
    assert done.code == 0, done.err
    path = home / "out" / re.search(r"subcubic_\w+\.\w+", done.json["path"])[0]
    assert path.name.endswith("_bf16_triton.py") and done.json["header"] is None
    text = path.read_text()
    compile(text, path, "exec")
    assert hashlib.sha256(text.encode()).hexdigest() == done.json["sha256"] and done.json["id"] in text
    assert "torch.bfloat16" in text and "import subcubic" not in text


def test_exported_numpy_multiplies(cli, home):
    path = home / "mm.py"
    assert cli("export", "2x3x2", "--to", "numpy", "-o", path).code == 1  # nothing stored yet
    assert cli("export", "classical-2x3x2", "--to", "numpy", "-o", path).code == 0
    module: dict = {}
    exec(path.read_text(), module)
    a, b = np.arange(35).reshape(5, 7), np.arange(21).reshape(7, 3)
    assert (module["matmul"](a, b) == a @ b).all()


def test_a_format_finds_its_role_permutation(cli, home):
    assert cli("search", "2x2x3", "--seed", 1).code == 0
    done = cli("export", "3x2x2", "--to", "numpy", "-o", home / "mm.py")
    assert done.code == 0 and "turned from 2x2x3" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["winograd", "--to", "c", "--dtype", "bf16"], 2, "C target has no bf16"),
        (["winograd", "--to", "triton"], 2, "Triton target has no fp32; choose --dtype fp16 or bf16"),
        (["winograd", "--to", "c", "--build", "sm_90"], 2, "--to cuda"),
        (["winograd", "--levels", "0"], 2, "--levels 0"),
        (["winograd", "--build", "pascal"], 2, "pascal"),
        (["winograd", "--levels", "9"], 1, "use fewer levels"),
        (["winograd", "--to", "fortran"], 2, "fortran"),
        (["classical-2x2"], 2, "MxKxN"),
        (["nothing"], 1, "'nothing'"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, code, says):
    done = cli("export", *arguments)
    assert (done.code, says in done.err.replace("\n", " ")) == (code, True), done.err


def test_schemes_over_finite_rings_are_not_offered_for_code(cli):
    assert cli("search", "2x2x2", "--ring", "F2").code == 0
    done = cli("export", "2x2x2")
    assert done.code == 1 and "over Z, Q" in done.err


def test_a_missing_compiler_is_exit_code_4(cli, home, monkeypatch):
    monkeypatch.setenv("NVCC", "/nowhere/nvcc")
    monkeypatch.setenv("SUBCUBIC_CACHE", str(home / "cache"))
    done = cli("export", "winograd", "--build", "sm_90", "-o", home / "out")
    assert done.code == 4 and "nvcc" in done.err
    assert list((home / "out").glob("*.cu"))  # the source is written all the same


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_build_writes_a_program_that_tests_itself(cli, home):
    done = cli("export", "winograd", "--build", "sm_90", "-o", home / "out")
    assert done.code == 0, done.err
    program = next(p for p in (home / "out").iterdir() if not p.suffix)
    ran = subprocess.run([program], capture_output=True, text=True)
    assert ran.returncode in (0, 4), ran.stderr  # 4: no GPU here
