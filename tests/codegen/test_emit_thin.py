import re
import subprocess

import pytest

from codegen.build import build_cuda, resources
from codegen.emit_thin import TILES, Streamed, Tile, emit_thin, header, prefix
from tests.codegen.compilers import needs_nvcc
from tests.codegen.schemes import plans
from tests.fuzzing import rare

PLANS = plans()
TRIVIAL = PLANS["trivial"]


@needs_nvcc
@pytest.mark.parametrize(
    ("arch", "dtype", "c_dtype", "layout"),
    [
        ("sm_90", "bf16", None, "nn"),
        rare("sm_90", "fp16", "fp32", "nt"),
        rare("sm_80", "bf16", None, "nt"),
        rare("sm_89", "fp16", None, "nn"),
        rare("sm_100", "bf16", "fp32", "nn"),
    ],
)
def test_every_tile_compiles_within_its_registers(nvcc, arch, dtype, c_dtype, layout):
    found = resources(emit_thin(TRIVIAL, dtype, c_dtype, layout), arch)
    assert len(found) == 2 * (len(TILES[layout]) + 1)  # up to 8 rows and up to 16; the last tile takes any alignment
    streamed = [kernel for kernel in found if "streamed" in kernel.kernel]
    assert len(streamed) == 2 * sum(isinstance(tile, Streamed) for tile in TILES[layout])
    for kernel in found:
        if kernel in streamed:  # one block on a multiprocessor; for earlier architectures there is nothing in them
            assert kernel.spill_stores == kernel.spill_loads == 0, kernel
            assert (kernel.registers <= 24) == (arch in ("sm_80", "sm_89")), kernel
        else:
            assert max(kernel.spill_stores, kernel.spill_loads) <= 128, kernel  # beside the loop over the depth
            assert kernel.registers <= 128  # for two blocks of 256 threads on a multiprocessor


@needs_nvcc
@pytest.mark.parametrize("epilogue", ["", rare("residual,column_scale,gelu")])
def test_the_self_test_says_that_there_is_no_device(nvcc, epilogue):
    text = emit_thin(TRIVIAL, epilogue=epilogue, tiles=[Tile(1, 2)])
    done = subprocess.run([build_cuda(text, "sm_80", kind="program")], capture_output=True, text=True)
    if done.returncode:
        assert (done.returncode, done.stdout) == (4, "") and "no usable CUDA device" in done.stderr
    else:
        assert done.stdout.endswith("PASS\n")


@pytest.mark.parametrize("layout", TILES)
def test_the_text_stands_alone_and_says_what_it_is(layout):
    text = emit_thin(TRIVIAL, "fp16", "fp32", layout, version="1.2 (abc)")
    assert not re.search(r'#include "|SCHEME', text) and "#include <cuda_bf16.h>" not in text
    name = prefix(TRIVIAL, "fp16", "fp32", layout)
    assert name == ("thin_fp16_fp32c" if layout == "nn" else "thin_fp16_fp32c_nt")
    assert f"int {name}_launch(void* handle, void* stream, const {name}_product* product) {{" in text
    first = text.split("#", 1)[0]
    assert "1.2 (abc)" in first and re.search(rf"layout +{layout}\n", first)
    declared = header(TRIVIAL, "fp16", "fp32", layout)
    for entry in ("open", "tiles", "columns", "most_split", "choose", "launch", "close", "error"):
        assert f"{name}_{entry}(" in declared and f" {name}_{entry}(" in text.replace("*", " ")
    assert f"}} {name}_product;" in declared and "SCHEME" not in declared


def test_the_header_is_c(tmp_path):
    path = tmp_path / "thin.h"
    path.write_text(header(TRIVIAL))
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", path], check=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dtype": "fp32"}, "unknown dtype 'fp32'"),
        ({"c_dtype": "fp16"}, "C can be stored as bf16 or fp32, not 'fp16'"),
        ({"layout": "tn"}, "thin kernels have the layouts nn and nt, not 'tn'"),
        ({"tiles": []}, "no tile was given"),
    ],
)
def test_what_there_is_not_is_refused(options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        emit_thin(TRIVIAL, **options)


def test_schemes_of_more_than_one_product_are_refused():
    with pytest.raises(
        ValueError, match="thin kernels are for the scheme of one product, 1x1x1, and the plan is of 2x2x2"
    ):
        emit_thin(PLANS["winograd"])
