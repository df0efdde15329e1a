import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from subcubic.version import version
from tests.codegen.kernel_stand import HOST


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


TEXTS = [("slp", ".slp"), ("latex", ".tex"), ("markdown", ".md"), ("bibtex", ".bib")]


@pytest.mark.parametrize(("target", "suffix"), [*TEXTS, ("torch", "_torch.py")])
def test_texts_say_where_the_scheme_comes_from(cli, home, target, suffix):
    done = cli("export", "winograd", "--to", target, "-o", home / "out", "--json")
    assert done.code == 0, done.err
    text = Path(done.json["path"]).read_text(encoding="utf-8")
    assert done.json["path"].endswith(suffix) and done.json["header"] is None
    assert done.json["id"] in text and "Shmuel Winograd" in text and f"version {version()} (" in text


@pytest.mark.parametrize(("target", "suffix"), TEXTS)
def test_texts_take_schemes_over_finite_rings(cli, home, target, suffix):
    assert cli("search", "2x2x2", "--ring", "F2").code == 0
    done = cli("export", "2x2x2", "--to", target, "-o", home / f"scheme{suffix}")
    assert done.code == 0 and "over F2" in (home / f"scheme{suffix}").read_text()


def test_a_turned_scheme_keeps_who_found_it(cli, home):
    from catalog.known import classical
    from catalog.provenance import Provenance
    from catalog.scheme import Format
    from catalog.store import Catalog

    Catalog().add(classical(Format(1, 2, 3)), Provenance("formula", discoverer="Somebody", licence="CC0"))
    assert cli("export", "3x1x2", "--to", "slp", "-o", home / "s.slp").code == 0
    text = (home / "s.slp").read_text()
    assert "# finder   Somebody\n# licence  CC0\n# method   role permutation of " in text


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
        (["winograd", "--to", "c", "-o", "kern.h"], 2, "kern.h is the name of the header"),
        (["winograd", "--levels", "0"], 2, "--levels 0"),
        (["winograd", "--levels", "2", "--to", "bibtex"], 1, "leave --levels out"),
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
    (stored,) = cli("catalog", "list", "--json").json["schemes"]
    done = cli("export", stored["id"], "--to", "torch")
    assert done.code == 2 and "write it as text: --to slp, latex, markdown, bibtex" in done.err


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


@pytest.fixture
def fused(monkeypatch):
    """A stand-in of the emitter for sm_90a, which the real one is tested without."""
    monkeypatch.setattr("codegen.folder.fused_emitter", lambda arch: HOST)


def test_a_fused_kernel_is_a_folder(cli, home, fused):
    options = ["--dtype", "bf16", "--arch", "sm_90a", "--plane-dtype", "fp16", "--c-dtype", "fp32", "--layout", "nt"]
    done = cli("export", "winograd", *options, "--levels", 2, "--constant-b", "-o", home / "out", "--json")
    assert done.code == 0, done.err
    names = {path.name for path in (home / "out").iterdir()}
    assert {str(home / "out" / name) for name in names} == set(done.json["files"]) and len(names) == 6
    source = (home / "out" / "x").with_name(done.json["path"].rsplit("/", 1)[1])
    assert hashlib.sha256(source.read_bytes()).hexdigest() == done.json["sha256"]
    assert done.json["target"] == "cuda" and done.json["arch"] == "sm_90a" and done.json["folder"] == str(home / "out")
    assert done.json["header"] == str(source.with_suffix(".h")) and source.with_suffix(".h").exists()
    assert "_l2_" in source.name and source.stem.endswith("_bf16_fp16_fp32_nt")
    page = (home / "out" / "README.md").read_text()
    assert done.json["id"] in page and done.json["sha256"] in page and "pack(b)" in page
    assert (
        'Kernel("' + source.stem + '", "sm_90a", "bf16", "fp32", "nt")' in (home / "out" / "torch_ext.py").read_text()
    )
    again = cli("export", "winograd", *options, "--levels", 2, "--constant-b", "-o", home / "out")
    assert again.code == 0 and "run make there" in again.out and {p.name for p in (home / "out").iterdir()} == names


def test_without_a_name_the_folder_has_the_kernels(cli, home, fused):
    done = cli("export", "winograd", "--dtype", "bf16", "--arch", "sm_90a", "--json")
    assert done.code == 0, done.err
    (place,) = home.glob("subcubic_2x2x2_r7_l1_*_bf16")
    assert (home / done.json["path"]).parent == place and "def pack" not in (place / "torch_ext.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arch", "sm_90a"], "multiply fp16 or bf16, not fp32: add --dtype bf16"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--to", "numpy"], "--arch needs --to cuda"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--build", "sm_90"], "a fused kernel has no --build"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--product-dtype", "fp32"], "a fused kernel has no --product-dtype"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--plane-dtype", "fp32"], "--plane-dtype fp32 is no type of planes"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--c-dtype", "fp16"], "does not go with --dtype bf16; choose bf16 or"),
        (["--arch", "sm_80", "--dtype", "bf16", "--layout", "nt"], "the fused kernels for sm_80 have no --layout"),
        (["--arch", "sm_80", "--dtype", "bf16", "--overlap"], "the fused kernels for sm_80 have no --overlap"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--overlap", "--c-dtype", "fp32"], "nothing overlaps where C is fp32"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--overlap", "--scale"], "leave --overlap or --scale out"),
        (["--dtype", "bf16", "--scale"], "--scale needs a fused kernel: choose its architecture"),
        (["--arch", "sm_90a", "--dtype", "bf16", "--overlap", "--to", "numpy"], "--arch needs --to cuda"),
        (["--dtype", "bf16", "--overlap", "--to", "triton"], "--overlap needs a fused kernel: choose its architecture"),
        (["--dtype", "bf16", "--overlap"], "--overlap needs a fused kernel: choose its architecture"),
        (["--arch", "sm_75", "--dtype", "fp16"], "no fused kernels for sm_75"),
        (["--arch", "hopper", "--dtype", "fp16"], "--arch hopper: architecture 'hopper' is not of the form"),
        (["--dtype", "bf16", "--layout", "nt"], "--layout needs a fused kernel: choose its architecture"),
        (["--dtype", "bf16", "--plane-dtype", "fp16"], "--plane-dtype needs a fused kernel"),
        (["--dtype", "bf16", "--c-dtype", "fp32"], "--c-dtype needs a fused kernel"),
        (["--constant-b"], "--constant-b needs a fused kernel"),
        (["--epilogue", "bias,tanh"], "--epilogue bias,tanh: unknown step 'tanh' of an epilogue; choose from bias,"),
        (["--epilogue", "dropout"], "dropout is left out, since it needs random numbers"),
        (["--epilogue", "softmax", "--arch", "sm_90a", "--dtype", "bf16"], "a row of C is spread over many tiles"),
        (["--epilogue", "bias,bias"], "step bias of an epilogue has one operand"),
        (["--epilogue", " "], "--epilogue names no step; choose from bias, column_scale"),
        (["--epilogue", "bias", "--to", "numpy"], "--epilogue needs --to cuda; apply the steps to the result of numpy"),
    ],
)
def test_options_that_a_path_lacks_are_refused(cli, arguments, says):
    done = cli("export", "winograd", *arguments)
    assert (done.code, says in " ".join(done.err.split())) == (2, True), done.err


@pytest.mark.parametrize("options", [[], ["--arch", "sm_90a"], ["--arch", "sm_80"]])
def test_an_epilogue_is_in_the_names_and_the_header(cli, home, options):
    steps = ["--epilogue", "bias, residual,gelu"]
    done = cli("export", "winograd", "--dtype", "bf16", *options, *steps, "-o", home / "out", "--json")
    assert done.code == 0, done.err
    source, header = (Path(done.json[key]).read_text() for key in ("path", "header"))
    name = Path(done.json["path"]).stem
    assert "_bf16_bias_residual_gelu" in name and f"{name}_launch(" in source and "const void* residual;" in header
    assert f"const {name}_extras* extras);" in header and source.count("const void* bias;") == 1
    if options:
        assert '"nn", "bias,residual,gelu")' in (home / "out" / "torch_ext.py").read_text()
        assert "| epilogue | bias,residual,gelu: " in (home / "out" / "README.md").read_text()


def test_a_file_where_the_folder_should_be_is_refused(cli, home):
    (home / "out").write_text("a file")
    done = cli("export", "winograd", "--dtype", "bf16", "--arch", "sm_90a", "-o", home / "out")
    assert done.code == 2 and "is a file; with --arch a folder is written" in done.err


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_real_emitters_fill_a_folder(cli, home, arch):
    done = cli("export", "winograd", "--dtype", "bf16", "--arch", arch, "--plane-dtype", "fp16", "-o", home, "--json")
    assert done.code == 0, done.err
    source, header = (Path(done.json[name]).read_text() for name in ("path", "header"))
    entry = re.search(r"\w+_launch(?=\()", header)[0]
    assert f"int {entry}(" in source and f"code={arch}" in (home / "Makefile").read_text() and done.json["id"] in source


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_a_kernel_that_scales_says_so(cli, home, arch):
    assert cli("export", "winograd", "--dtype", "bf16", "--arch", arch, "--scale", "-o", home / "out").code == 0
    (source,) = (home / "out").glob("*.cu")
    assert "_scaled_" in source.stem and "find_exponents" in source.read_text()
    assert "which it takes out of C" in (home / "out" / "README.md").read_text()


def test_phases_for_a_constant_b_let_more_products_come_first(cli, home):
    options = ["--dtype", "bf16", "--arch", "sm_90a", "--overlap", "--constant-b"]
    assert cli("export", "winograd", *options, "-o", home / "out").code == 0
    (source,) = (home / "out").glob("*.cu")
    assert "overlapped2_constant_b" in source.stem and "those of B are made before" in source.read_text()


@pytest.mark.parametrize("overlap", [False, True])
def test_a_kernel_of_two_phases_says_so(cli, home, overlap):
    options = ["--dtype", "bf16", "--arch", "sm_90a", *(["--overlap"] if overlap else [])]
    done = cli("export", "winograd", *options, "--constant-b", "-o", home / "out", "--json")
    assert done.code == 0, done.err
    source, header = (Path(done.json[name]) for name in ("path", "header"))
    page = (home / "out" / "README.md").read_text()
    assert ("_overlapped2_" in source.stem) == ("phases   two" in source.read_text()) == overlap
    assert (
        f"kBoundary = {2 if overlap else 0}" in source.read_text()
        and f"int {source.stem}_launch(" in header.read_text()
    )
    assert ("| phases | two" in page, "in one fused kernel that makes the planes, too." in page) == (overlap, overlap)
    assert ("| phases | one" in page, "in one fused kernel after the planes are made." in page) == (not overlap,) * 2
    assert f'Kernel("{source.stem}", ' in (home / "out" / "torch_ext.py").read_text()


def test_a_scheme_without_products_of_plain_blocks_has_no_second_phase(cli, home):
    done = cli("export", "strassen", "--dtype", "bf16", "--arch", "sm_90a", "--overlap", "-o", home / "out")
    assert done.code == 1 and not (home / "out").exists(), done.err
    assert "0 of 7 products take two plain blocks" in done.err and "leave overlap out" in done.err


@pytest.mark.parametrize("options", [["--arch", "sm_90a"], ["--arch", "sm_80"], ["--to", "triton"]])
def test_more_products_than_a_compiler_bears_are_refused(cli, home, options):
    done = cli("export", "classical-3x3x3", "--levels", 2, "--dtype", "bf16", *options, "-o", home / "out")
    assert done.code == 1 and "3x3x3:27 have 729 products, more than the" in done.err and "use fewer levels" in done.err
    assert not list((home / "out").glob("*"))


def test_files_that_no_export_wrote_are_kept(cli, home, fused):
    (home / "mine").mkdir()
    (home / "mine" / "Makefile").write_text("all:\n")
    options = ["--dtype", "bf16", "--arch", "sm_90a", "-o", home / "mine"]
    done = cli("export", "winograd", *options)
    assert done.code == 2 and "has a Makefile that no export wrote; choose another --output" in done.err
    assert (home / "mine" / "Makefile").read_text() == "all:\n" and len(list((home / "mine").iterdir())) == 1
    (home / "mine" / "Makefile").unlink()
    assert cli("export", "winograd", *options).code == 0 and cli("export", "winograd", *options).code == 0
