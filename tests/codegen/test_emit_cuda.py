import os
import re
import subprocess

import numpy as np
import pytest

from catalog.known import classical, winograd
from catalog.scheme import Format
from codegen.build import BuildError, build_cuda, resources
from codegen.emit import TARGETS, emit, emit_header
from codegen.emit_cuda import prefix
from codegen.plan import plan
from tests.codegen.schemes import plans
from tests.fuzzing import rare

PLANS = plans()
DTYPES = [("fp16", None), ("bf16", None), ("bf16", "fp32"), ("fp32", None), ("fp64", None)]
KERNELS = 3  # planes of both sides; scatter for whole blocks and for edges


def test_golden_winograd_fp32(golden):
    golden(emit(PLANS["winograd"], "cuda"))


def test_golden_rectangular_bf16(golden):
    golden(emit(PLANS["rectangular"], "cuda", dtype="bf16", product_dtype="fp32"))


@pytest.mark.parametrize("name", PLANS)
def test_emitted_maps_equal_the_factor_matrices(name):
    """Read sums and factors back out of the text: the products they give must be those of the scheme."""
    scheme, text = PLANS[name].scheme, emit(PLANS[name], "cuda")
    found = []
    for side, factor in (("A", scheme.U), ("B", scheme.V)):
        body = text.split(f"struct Map{side} {{", 1)[1].split("\n};", 1)[0]
        sums, extras = (
            {int(slot): _coefficients(put, len(factor)) for slot, put in re.findall(r"put\((\d+), (.*)\);", part)}
            for part in body.split("void combine_extras(")
        )
        assert sorted([*sums, *extras]) == list(range(scheme.rank))
        entries = [int(x) for x in re.findall(r"-?\d+", text.split(f"kFactors{side}[kRank] = {{", 1)[1].split("}")[0])]
        rows = [sums[e] if e >= 0 else [int(i == -1 - e) for i in range(len(factor))] for e in entries]
        # With the extras every product has the same factor in a slot of its own.
        assert rows == [(sums | extras)[r] for r in range(scheme.rank)]
        loads = [re.findall(r"x.raw\[(\d+)\] = get\((\d+), (\d+)\)", part) for part in body.split("void load_extras(")]
        columns = int(re.search(r"columns = (\d+)", body)[1])
        assert all(int(i) == int(row) * columns + int(column) for part in loads for i, row, column in part)
        assert {int(i) for i, *_ in loads[0]} == {i for row in sums.values() for i, c in enumerate(row) if c}
        assert {int(i) for part in loads for i, *_ in part} == set(range(len(factor)))
        found.append(np.array(rows).T)
    body = text.split("struct MapC {", 1)[1].split("};", 1)[0]
    outputs = np.zeros_like(scheme.W)
    started = set()
    for target, start, expression in re.findall(r"y\[(\d+)\] =( y\[\1\])? (.*);", body):
        assert bool(start) == (target in started)
        started.add(target)
        (column,) = set(re.findall(r"\bp(\d+)", expression))
        outputs[int(target), int(column)] = _value(expression, rf"\bp{column}\b")
    assert body.count("next();") == scheme.rank
    # Every term is that of the scheme, with signs that cancel.
    for r in range(scheme.rank):
        term = np.einsum("a,b,c", found[0][:, r], found[1][:, r], outputs[:, r])
        np.testing.assert_array_equal(term, np.einsum("a,b,c", *(factor[:, r] for factor in scheme.factors)))


def _coefficients(put: str, count: int) -> list[int]:
    """Of a sum of blocks, or of the copy of one."""
    row = [0] * count
    for kind, factor, block in re.findall(r"(Plus|Minus|Times|x.raw)[<\[](?:(-?\d+), )?(\d+)[>\]]", put):
        row[int(block)] += int(factor or (-1 if kind == "Minus" else 1))
    return row


def _value(expression: str, variable: str) -> int:
    return int(eval(re.sub(variable, "1", expression).replace("Accumulator", "")))


@pytest.mark.parametrize(
    ("arch", "levels", "dtype", "product_dtype"),
    [("sm_80", 1, *types) for types in DTYPES]
    + [("sm_90", 2, *DTYPES[0])]
    + [rare("sm_90", 2, *types) for types in DTYPES[1:]],
)
def test_every_text_compiles_without_spills(nvcc, arch, levels, dtype, product_dtype):
    text = emit(plan(winograd(), levels), "cuda", dtype=dtype, product_dtype=product_dtype)
    usages = resources(text, arch)
    assert len(usages) == KERNELS
    assert {u.spill_loads + u.spill_stores for u in usages} == {0}
    # At one level a multiprocessor must hold enough threads to keep its share of memory requests in flight.
    assert max(u.registers for u in usages) <= (96 if levels == 1 else 232)


@pytest.mark.parametrize("name", ["rectangular", "rational", "trivial"])
def test_other_schemes_compile_without_spills(nvcc, name):
    usages = resources(emit(PLANS[name], "cuda", dtype="bf16"))
    assert len(usages) == KERNELS and {u.spill_loads + u.spill_stores for u in usages} == {0}


def test_program_and_library_need_no_cublas_to_link(nvcc, tmp_path):
    text = emit(PLANS["winograd"], "cuda")
    library = build_cuda(text, flags=("-Werror", "all-warnings"))
    needed = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
    assert "cublas" not in needed
    environment = os.environ | {"SUBCUBIC_CUBLAS": "", "CUDA_VISIBLE_DEVICES": ""}
    program = build_cuda(text, kind="program", flags=("-Werror", "all-warnings"))
    done = subprocess.run([str(program)], capture_output=True, text=True, env=environment)
    # No device is visible: one sentence and code 4.
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.startswith("no usable CUDA device") and done.stderr.count("\n") == 1


def test_entry_points_are_those_of_the_header(nvcc, tmp_path):
    header = emit_header(PLANS["winograd"])
    name = prefix(PLANS["winograd"], "fp32")
    library = build_cuda(emit(PLANS["winograd"], "cuda"))
    caller = tmp_path / "caller.c"
    calls = "".join(f"  entry[{i}] = (void *){name}_{e};\n" for i, e in enumerate(("open", "workspace", "launch")))
    main = f"{header}\nint main(void) {{\n  void *entry[3];\n{calls}  {name}_close(NULL);\n"
    main += (
        f"  return entry[2] == 0 || {name}_error()[0] || {name}_workspace(0, 1, 1) || !{name}_workspace(9, 9, 9);\n}}\n"
    )
    caller.write_text(main)
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-o", str(tmp_path / "caller"), str(caller), str(library)]
    subprocess.run(command, check=True)
    subprocess.run([str(tmp_path / "caller")], check=True)


def test_compile_errors_are_reported(nvcc):
    with pytest.raises(BuildError, match="nvcc could not compile the text: .*error"):
        build_cuda("int main( {", kind="cubin")


def test_text_is_self_contained():
    text = emit(PLANS["winograd2"], "cuda", dtype="fp16")
    assert not re.search(r'#include "', text) and "cublas_v2.h" not in text and "SCHEME" not in text


def test_wide_accesses_unless_registers_forbid():
    def widths(made, dtype):
        text = emit(made, "cuda", dtype=dtype)
        return [int(w) for w in re.findall(r"static constexpr int width = (\d+)|kWidthC = (\d+)", text) for w in w if w]

    assert widths(PLANS["winograd"], "bf16") == [8, 8, 8]
    assert widths(PLANS["winograd2"], "fp32") == [4, 4, 4]
    assert widths(PLANS["winograd2"], "fp64") == [2, 1, 1]
    assert widths(plan(classical(Format(1, 2, 64))), "fp32") == [1, 4, 1]


@pytest.mark.parametrize("target", TARGETS)
def test_the_text_names_the_version_that_the_caller_hands_in(target):
    named, unnamed = emit(PLANS["winograd"], target, version="1.2.3+abc"), emit(PLANS["winograd"], target)
    assert named.replace("1.2.3+abc", "unknown") == unnamed != named


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "unknown dtype 'int8'; choose one of fp16, bf16, fp32, fp64"),
        ({"dtype": "fp32", "product_dtype": "bf16"}, "not bf16"),
        ({"dtype": "fp64", "product_dtype": "fp32"}, "not fp32"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        emit(PLANS["winograd"], "cuda", **options)


def test_too_many_blocks_are_refused():
    with pytest.raises(ValueError, match="16 x 16 blocks has 256 of them in use, more than the 200 that a CUDA thread"):
        emit(plan(classical(Format(16, 16, 1))), "cuda")


def test_two_dtypes_of_a_plan_link_together(nvcc, tmp_path):
    objects = []
    for dtype, product_dtype in (("fp32", None), ("bf16", None), ("bf16", "fp32")):
        options = {"dtype": dtype, "product_dtype": product_dtype}
        source = tmp_path / f"{prefix(PLANS['winograd'], **options)}.cu"
        source.write_text(emit(PLANS["winograd"], "cuda", **options))
        source.with_suffix(".h").write_text(emit_header(PLANS["winograd"], "cuda", **options))
        objects.append(source)
    main = tmp_path / "main.cu"
    main.write_text(
        "".join(f'#include "{o.stem}.h"\n' for o in objects)
        + "int main() { return "
        + " + ".join(f"(int){o.stem}_workspace(0, 1, 1)" for o in objects)
        + "; }"
    )
    command = ["nvcc", "-std=c++17", "-gencode=arch=compute_90,code=sm_90", "-o", str(tmp_path / "both"), str(main)]
    subprocess.run([*command, *map(str, objects)], check=True)
    assert subprocess.run([tmp_path / "both"]).returncode == 0
