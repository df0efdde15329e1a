"""The exported folder: its files, its Makefile, and its loaders, on a stand-in kernel without nvcc and GPU."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time

import ml_dtypes
import numpy as np
import pytest

from codegen import folder as folder_module
from codegen.folder import folder
from codegen.loaders.binding import Kernel, KernelError, Library, built, leading
from tests.codegen import array_stands
from tests.codegen.kernel_stand import HOST, NVCC
from tests.codegen.schemes import plans

PLAN = plans()["winograd"]
OPTIONS = {"dtype": "bf16", "c_dtype": "fp32"}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


@pytest.fixture(autouse=True)
def stands(tmp_path, monkeypatch):
    compiler = tmp_path / "nvcc"
    compiler.write_text(NVCC)
    compiler.chmod(0o755)
    monkeypatch.setenv("NVCC", str(compiler))
    monkeypatch.setattr(folder_module, "fused_emitter", lambda arch: HOST)
    monkeypatch.setattr(array_stands.Capture, "active", False)


@pytest.fixture(scope="module")
def libraries():
    """Built libraries by layout, so that each is built once."""
    return {}


@pytest.fixture
def written(tmp_path, libraries):
    """Write a folder; it comes with its library unless ``fresh``."""

    def write(layout="nn", constant_b=True, fresh=False, **more):
        place = tmp_path / f"{layout}{constant_b}"
        place.mkdir()
        for name, text in folder(PLAN, "sm_90a", OPTIONS | {"layout": layout, **more}, constant_b, "1.2.3").items():
            (place / name).write_text(text)
        name, key = next(place.glob("*.cu")).stem, (layout, *more.values())
        if not fresh and key in libraries:
            (place / f"lib{name}.so").write_bytes(libraries[key])
        elif not fresh:
            libraries[key] = built(Kernel(name, "sm_90a", "bf16", "fp32", layout), place).read_bytes()
        return place

    return write


def loaded(place, module, monkeypatch):
    library = "torch" if module == "torch_ext" else "cupy"
    monkeypatch.setitem(sys.modules, library, getattr(array_stands, library)())
    spec = importlib.util.spec_from_file_location(module, place / f"{module}.py")
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module, made)
    spec.loader.exec_module(made)
    return made


def device_array(module, array):
    return array_stands.Tensor(array) if module == "torch_ext" else array.view(array_stands.Array)


def host(result):
    return getattr(result, "array", result)


def operands(layout, m, k, n):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    laid = [x if letter == "n" else np.asfortranarray(x) for x, letter in zip((a, b), layout, strict=True)]
    return (*laid, a.astype(np.float32) @ b.astype(np.float32))


def test_the_folder_has_what_it_promises_and_nothing_of_ours():
    files = folder(PLAN, "sm_90a", OPTIONS, True, "1.2.3")
    source, header, *others = files
    assert others == ["torch_ext.py", "cupy_module.py", "Makefile", "README.md"]
    assert source.removesuffix(".cu") == header.removesuffix(".h") == HOST.prefix(PLAN, **OPTIONS)
    assert "1.2.3" in files[source] and "SCHEME" not in "".join(files.values())
    page = files["README.md"]
    assert PLAN.digest in page and hashlib.sha256(files[source].encode()).hexdigest() in page
    assert f"{source.removesuffix('.cu')}_pack_b(" in page and "7 products instead\nof 8" in page
    for name in ("torch_ext.py", "cupy_module.py"):
        modules = set(re.findall(r"^(?:from|import) ([a-z_]+)", files[name], flags=re.M))
        assert modules <= {*sys.stdlib_module_names, name.split("_")[0]}
    assert "pack" not in "".join(folder(PLAN, "sm_90a", OPTIONS)[n] for n in ("torch_ext.py", "README.md")).replace(
        "pack_b", ""
    ).replace("packages", "").replace("package", "")


def test_the_page_names_the_steps_and_their_operands():
    files = folder(PLAN, "sm_90a", OPTIONS | {"epilogue": "bias,gelu"}, True)
    page = files["README.md"]
    assert "| epilogue | bias,gelu: applied to each element of C before it is rounded |" in page
    assert (
        "_extras extras = {0};\nextras.bias = bias;\n" in page and "C = alpha A B + beta C, then bias, gelu, on" in page
    )
    assert "workspace, bytes, &extras);" in page and "`c = matmul(a, pack(b), bias=bias)`" in page
    for text in folder(PLAN, "sm_90a", OPTIONS, True).values():
        assert "epilogue" not in text and "FINISHED" not in text and "EXTRAS" not in text


@pytest.mark.parametrize("epilogue", ["", "bias,gelu"])
@pytest.mark.parametrize("constant_b", [False, True])
def test_the_loaders_are_clean_python(constant_b, epilogue):
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("no ruff")
    for name, text in folder(PLAN, "sm_90a", OPTIONS | {"epilogue": epilogue}, constant_b).items():
        if name.endswith(".py"):
            assert ("operands" in text) == bool(epilogue) and "epilogue: " + "begin" not in text
            common = ["--isolated", "--line-length", "120", "--stdin-filename", name, "-"]
            for command in (["check", "--select", "E,F,I,UP,B"], ["format", "--check"]):
                done = subprocess.run([ruff, *command, *common], input=text, capture_output=True, text=True)
                assert done.returncode == 0, done.stdout + done.stderr


@needs_compiler
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("module", ["torch_ext", "cupy_module"])
def test_matmul_takes_the_layout_of_the_kernel(written, monkeypatch, module, layout):
    kernel = loaded(written(layout), module, monkeypatch)
    a, b, expected = operands(layout, 5, 7, 3)
    a, b = device_array(module, a), device_array(module, b)
    np.testing.assert_array_equal(host(kernel.matmul(a, b)), expected)
    wide = np.full((5, 9), 77, np.float32)
    out = device_array(module, wide[:, :3])
    assert kernel.matmul(a, b, out) is out
    np.testing.assert_array_equal(wide, np.hstack([expected, np.full((5, 6), 77)]))
    if layout != "nn":
        with pytest.raises(ValueError, match=r"must have contiguous columns, not the strides \((7|3), 1\)"):
            kernel.matmul(*(device_array(module, np.ascontiguousarray(host(x))) for x in (a, b)))


@needs_compiler
@pytest.mark.parametrize("module", ["torch_ext", "cupy_module"])
def test_a_packed_matrix_is_what_launches_read(written, monkeypatch, module):
    kernel = loaded(written("nt"), module, monkeypatch)
    a, b, expected = operands("nt", 6, 4, 8)
    packed = kernel.pack(device_array(module, b))
    b[...] = 0
    np.testing.assert_array_equal(host(kernel.matmul(device_array(module, a), packed)), expected)
    plain = loaded(written("nt", constant_b=False), module, monkeypatch)
    assert not hasattr(plain, "pack") and not hasattr(plain, "Packed")
    assert not host(plain.matmul(device_array(module, a), device_array(module, b))).any()


@needs_compiler
@pytest.mark.parametrize("module", ["torch_ext", "cupy_module"])
def test_operands_of_an_epilogue_are_taken_by_name(written, monkeypatch, module):
    kernel = loaded(written(constant_b=False, epilogue="bias,residual,scale"), module, monkeypatch)
    a, b, product = operands("nn", 5, 7, 3)
    a, b = device_array(module, a), device_array(module, b)
    bias, wide = np.arange(3, dtype=np.float32), np.arange(40, dtype=np.float32).reshape(5, 8)

    def given(**other):
        arrays = {"bias": bias, "residual": wide[:, 2:5], **other}
        return {name: device_array(module, array) for name, array in arrays.items()}

    found = kernel.matmul(a, b, scale=0.5, **given())
    np.testing.assert_array_equal(host(found), (product + bias + wide[:, 2:5]) * 0.5)
    cases = [
        ({}, "the epilogue bias,residual,scale takes bias=, residual=, scale=, not no operands"),
        (given(), "takes bias=, residual=, scale=, not bias=, residual="),
        ({"scale": 1.0, "gelu": 1, **given()}, "not scale=, gelu=, bias=, residual="),
        ({"scale": 1.0, **given(bias=bias[:2])}, r"bias must have the shape \[3\] .*not \[2\]"),
        ({"scale": 1.0, **given(bias=np.arange(6, dtype=np.float32)[::2])}, "bias must have contiguous rows"),
        ({"scale": 1.0, **given(residual=wide[:3, 2:5])}, r"residual must have the shape \[5, 3\] .*not \[3, 3\]"),
        ({"scale": 1.0, **given(residual=np.zeros((3, 5), np.float32).T)}, "residual must have contiguous rows"),
        ({"scale": 1.0, **given(residual=wide[:, 2:5].astype(np.float16))}, "residual must be .*float16"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            kernel.matmul(a, b, **arguments)


@needs_compiler
@pytest.mark.parametrize("module", ["torch_ext", "cupy_module"])
def test_workspaces_are_kept_and_a_graph_has_its_own(written, monkeypatch, module):
    kernel = loaded(written(), module, monkeypatch)
    small, large = ([device_array(module, x) for x in operands("nn", m, 4, 4)[:2]] for m in (4, 40))
    monkeypatch.setattr(array_stands.Capture, "active", True)
    with pytest.raises(kernel.KernelError, match="call it once before a graph is captured"):
        kernel.matmul(*small)
    monkeypatch.setattr(array_stands.Capture, "active", False)
    taken = []
    real = kernel._spaces._fresh
    monkeypatch.setattr(kernel._spaces, "_fresh", lambda device, size: taken.append(size) or real(device, size))
    for pair in (small, small, large, small, large):
        kernel.matmul(*pair)
    assert taken == [4096 + 256 * 4, 4096 + 256 * 40]
    monkeypatch.setattr(array_stands.Capture, "active", True)
    kernel.matmul(*small)
    kernel.matmul(*small)
    assert taken[2:] == [4096 + 256 * 4] * 2 and len(kernel._spaces._captured) == 2


@needs_compiler
@pytest.mark.parametrize("module", ["torch_ext", "cupy_module"])
def test_what_does_not_fit_is_one_sentence(written, monkeypatch, module):
    kernel = loaded(written(), module, monkeypatch)
    a, b = (device_array(module, x) for x in operands("nn", 5, 7, 3)[:2])
    wrong = device_array(module, np.zeros((5, 7), np.float32))
    cases = [
        ((a, a), r"a \[M, K\] and b \[K, N\] with elements are needed, not \[5, 7\] and \[5, 7\]"),
        ((wrong, b), "a must be .*float32"),
        ((a, b, device_array(module, np.zeros((5, 3), np.float16))), "out must be "),
        ((a, b, device_array(module, np.zeros((3, 5), np.float32))), r"shape \[5, 3\], not \[3, 5\]"),
        ((a, b, device_array(module, np.zeros((3, 5), np.float32).T)), "out must have contiguous rows"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            kernel.matmul(*arguments)
    empty = [device_array(module, np.zeros(shape, ml_dtypes.bfloat16)) for shape in ((5, 0), (0, 3))]
    with pytest.raises(ValueError, match=r"not \[5, 0\] and \[0, 3\]"):
        kernel.matmul(*empty)
    monkeypatch.setattr(array_stands, "STREAM", 8)  # the stand-in kernel knows one stream only
    kernel = loaded(written("tn"), module, monkeypatch)
    with pytest.raises(kernel.KernelError, match="subcubic_2x2x2_.*: wrong handle or stream"):
        kernel.matmul(*(device_array(module, x) for x in operands("tn", 5, 7, 3)[:2]))


@needs_compiler
def test_a_gradient_or_a_host_tensor_is_refused(written, monkeypatch):
    kernel = loaded(written(), "torch_ext", monkeypatch)
    a, b, _ = operands("nn", 5, 7, 3)
    wanted = array_stands.Tensor(a)
    wanted.requires_grad = True
    with pytest.raises(ValueError, match=r"a requires a gradient.*torch.no_grad\(\)"):
        kernel.matmul(wanted, array_stands.Tensor(b))
    with pytest.raises(ValueError, match="b must be .* on a CUDA device, not .* on cpu"):
        kernel.matmul(array_stands.Tensor(a), array_stands.Tensor(b, "cpu"))
    with pytest.raises(ValueError, match="on one device, not cuda:0, cuda:1 and cuda:0"):
        kernel.matmul(array_stands.Tensor(a), array_stands.Tensor(b, "cuda:1"))


@needs_compiler
def test_the_library_is_built_once_and_again_after_its_source_changed(written):
    place = written(fresh=True)
    name = next(place.glob("*.cu")).stem
    kernel = Kernel(name, "sm_90a", "bf16", "fp32", "nn")
    Library(kernel, place)
    made = place / f"lib{name}.so"
    first = made.stat().st_mtime_ns
    Library(kernel, place)
    assert made.stat().st_mtime_ns == first
    os.utime(place / f"{name}.cu", (time.time() + 9, time.time() + 9))
    Library(kernel, place)
    assert made.stat().st_mtime_ns != first and not list(place.glob("build-*"))
    with pytest.raises(KernelError, match="is no library of other"):
        made.rename(place / "libother.so")
        Library(kernel._replace(name="other"), place)


def test_failures_of_the_compiler_are_one_sentence(written, monkeypatch, tmp_path):
    place = written(fresh=True)
    source = next(place.glob("*.cu"))
    kernel = Kernel(source.stem, "sm_90a", "bf16", "fp32", "nn")
    source.write_text("int main( {")
    with pytest.raises(KernelError, match=r"nvcc could not compile .*\.cu: .*error"):
        Library(kernel, place)
    monkeypatch.setenv("NVCC", str(tmp_path / "none"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(KernelError, match=r"nvcc was not found: .*pip install nvidia-cuda-nvcc.*\$NVCC"):
        Library(kernel, place)


@needs_compiler
def test_make_builds_and_tests_and_says_when_there_is_no_device(written, monkeypatch, tmp_path):
    place = written(fresh=True)
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that runs the tests
        monkeypatch.delenv(name, raising=False)
    command = ["make", f"NVCC={os.environ['NVCC']}"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("PASS\n"), done.stderr
    assert list(place.glob("lib*.so"))
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, env=os.environ | {"NO_DEVICE": "1"})
    assert done.returncode != 0 and "no usable CUDA device\n" in done.stderr and "Error 4" in done.stderr
    subprocess.run(["make", "clean"], cwd=place, check=True, capture_output=True)
    done = subprocess.run(["make", "NVCC=/nowhere/nvcc"], cwd=place, capture_output=True, text=True)
    assert "/nowhere/nvcc was not found: install the CUDA toolkit" in done.stderr and "Error 4" in done.stderr


@pytest.mark.parametrize(
    ("shape", "strides", "layout", "expected"),
    [((4, 5), (5, 1), "n", 5), ((4, 5), (9, 1), "n", 9), ((4, 5), (1, 4), "t", 4), ((4, 5), (1, 6), "t", 6)]
    # A single row or column may have any stride between the lines that it does not have.
    + [((1, 5), (0, 1), "n", 5), ((1, 5), (1, 1), "n", 5), ((4, 1), (1, 1), "n", 1), ((4, 1), (3, 8), "n", 3)],
)
def test_leading_dimensions(shape, strides, layout, expected):
    assert leading("a", shape, strides, layout) == expected


@pytest.mark.parametrize(
    ("strides", "layout"), [((5, 1), "t"), ((1, 4), "n"), ((0, 1), "n"), ((3, 1), "n"), ((10, 2), "n"), ((1, 3), "t")]
)
def test_other_memory_is_refused(strides, layout):
    with pytest.raises(ValueError, match="x must have contiguous (rows|columns), not the strides"):
        leading("x", (4, 5), strides, layout)


def test_an_option_that_the_emitter_does_not_have_is_refused():
    with pytest.raises(ValueError, match="have no shape; they have dtype, plane_dtype, c_dtype, layout, epilogue"):
        folder(PLAN, "sm_90a", OPTIONS | {"shape": "round"})
