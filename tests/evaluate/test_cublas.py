"""The baseline library: which one is taken, and what it says of itself."""

import ctypes
from types import SimpleNamespace

import pytest

from evaluate.cublas import VARIABLE, Cublas, CublasError, load, version
from evaluate.device import DeviceMissingError


@pytest.mark.parametrize("content", [None, "no library"])
def test_a_broken_variable_is_named_and_nothing_else_is_tried(content, tmp_path, monkeypatch):
    path = tmp_path / "libcublas.so.13"
    if content:
        path.write_text(content)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(DeviceMissingError, match=rf"^\$SUBCUBIC_CUBLAS is {path}, which is no usable cuBLAS \(.*\)"):
        load()


def test_without_any_library_the_message_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("evaluate.cublas.candidates", lambda: ["libcublas-that-nobody-has.so"])
    with pytest.raises(DeviceMissingError, match="install the cuda13 or cuda12 extra"):
        load()


@pytest.mark.parametrize("parts", [(11, 4, 2), (13, 1, 0)])
def test_the_version_is_asked_for_part_by_part(parts):
    def answer(part, value):
        ctypes.cast(value, ctypes.POINTER(ctypes.c_int))[0] = parts[part]
        return 0

    assert version(SimpleNamespace(cublasGetProperty=answer)) == ".".join(map(str, parts))


def test_a_refused_question_is_an_error():
    def cublasGetProperty(part, value):
        return 7

    with pytest.raises(CublasError, match="cublasGetProperty of cuBLAS failed with status 7"):
        version(SimpleNamespace(cublasGetProperty=cublasGetProperty))


def test_the_baseline_says_in_which_precision_it_adds():
    said = {dtype: Cublas(None, None, dtype, "13.1.0").describe() for dtype in ("fp16", "bf16", "fp32", "fp64")}
    for dtype, text in said.items():
        assert text.startswith("cuBLAS 13.1.0 cublasGemmEx")
        assert ("DISALLOW_REDUCED_PRECISION_REDUCTION" in text) == (dtype in ("fp16", "bf16"))
    assert "TF32 off" in said["fp32"]
