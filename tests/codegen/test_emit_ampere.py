import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from catalog.known import winograd
from codegen.build import build_cuda, resources
from codegen.emit import fused_emitter
from codegen.emit_ampere import FAMILY, emit_ampere
from codegen.fused_tables import sources
from codegen.fused_text import prefix, types
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.schemes import plans
from tests.fuzzing import rare

PLANS = plans()
ARCHITECTURES = ["sm_80", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"]
TYPES = [("bf16", None, None), ("bf16", "fp16", None), ("fp16", None, "fp32")]


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    if not (shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc")):
        message = "nvcc was not found; install the CUDA toolkit and put its bin folder on PATH"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)


def kernels(text: str, arch: str) -> dict[str, tuple[int, int]]:
    """Registers and spilled bytes of the kernels, by their names in the text."""
    found = {}
    for usage in resources(text, arch):
        name = "products" if "products" in usage.kernel else "planes_kernel"
        registers, spilled = found.get(name, (0, 0))
        spilled += usage.spill_loads + usage.spill_stores
        found[name] = (max(registers, usage.registers), spilled)
    return found


@pytest.mark.parametrize(
    ("arch", "dtype", "plane_dtype", "c_dtype"),
    [(arch, *TYPES[0]) for arch in ARCHITECTURES]
    + [("sm_80", *types) for types in TYPES[1:]]
    + [rare(arch, *types) for arch in ARCHITECTURES[1:] for types in TYPES[1:]],
)
def test_every_text_compiles_without_spills(nvcc, arch, dtype, plane_dtype, c_dtype):
    found = kernels(emit_ampere(PLANS["winograd"], dtype, plane_dtype, c_dtype), arch)
    assert set(found) == {"products", "planes_kernel"}
    assert {spilled for _, spilled in found.values()} == {0}
    # Two CTAs of 256 threads share a multiprocessor.
    assert found["products"][0] <= 128


@pytest.mark.parametrize("name", ["trivial", "winograd2", "rectangular", "rational2"])
def test_other_schemes_compile_without_spills(nvcc, name):
    assert {spilled for _, spilled in kernels(emit_ampere(PLANS[name]), "sm_80").values()} == {0}


def seconds(text: str) -> float:
    """Processor seconds of a compilation, the smaller of two."""
    taken = []
    for i in range(2):
        before = os.times()
        build_cuda(f"{text}// {i}\n", "sm_80", "cubin")
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(taken)


def test_a_cubin_takes_less_than_two_seconds(nvcc):
    """On a busy machine a second is worth less: there the header of the storage type is the measure."""
    header_alone = seconds("#include <cuda_bf16.h>\n__global__ void nothing() {}\n")
    assert seconds(emit_ampere(PLANS["winograd"])) < max(2.0, 4 * header_alone)


@pytest.mark.parametrize(("dtype", "plane_dtype"), [("bf16", None), ("bf16", "fp16")])
def test_the_products_are_tensor_core_instructions(nvcc, dtype, plane_dtype):
    if not shutil.which("cuobjdump"):
        pytest.skip("cuobjdump was not found; install nvidia-cuda-cuobjdump and put its bin folder on PATH")
    cubin = build_cuda(emit_ampere(PLANS["winograd"], dtype, plane_dtype), "sm_80", "cubin")
    listing = subprocess.run(["cuobjdump", "-sass", str(cubin)], capture_output=True, text=True, check=True).stdout
    kernel = next(part for part in listing.split("Function : ")[1:] if "products" in part.split("\n", 1)[0])
    # 4 x 4 fragments, two steps of 16 in a stage, for each type.
    assert kernel.count("HMMA.16816.F32.BF16") == 32
    assert len(re.findall(r"HMMA\.16816\.F32 ", kernel)) == (32 if plane_dtype == "fp16" else 0)
    assert "LDGSTS" in kernel and not re.search(r"\b(LDL|STL)\b", kernel)


@pytest.mark.parametrize("name", [rare(name) if name == "rectangular2" else name for name in PLANS])
def test_emitted_tables_multiply_exactly(name):
    """The turns and publications of the text, with the operands that the schedule names, give A B exactly."""
    found, text = schedule(PLANS[name]), emit_ampere(PLANS[name])
    m, k, n = found.plan.format
    operands = []
    for side, (matrix, blocks, planes) in zip(
        sources(found), (("A", m * k, found.planes_a), ("B", k * n, found.planes_b)), strict=True
    ):
        places = re.search(rf"kPlacesOf{matrix}\[\] = {{(.*?)}};", text)[1].split(", ")
        plain = [int(place) for place, _ in zip(places, [o for o in side if not o.plane], strict=False)]
        operands.append([*np.eye(blocks, dtype=int)[plain], *(np.array(plane) for plane in planes)])
    turns = [
        [int(x) for x in row.split(",")]
        for row in re.findall(r"{([^{}]*)}", re.search(r"kTurns\[\w+\] = {(.*?)};", text, flags=re.S)[1])
    ]
    publications = re.findall(
        r"{(\d+), (\d+), -?\d+, \d, (-?\d+)\.f}", re.search(r"kPublications\[\w+\] = {(.*?)};", text, flags=re.S)[1]
    )
    result = np.zeros((m * n, m * k, k * n), dtype=int)
    state = np.zeros((m * k, k * n), dtype=int)
    for a, b, clear, _, first, count in turns:
        state = state * (1 - clear) + np.outer(operands[0][a], operands[1][b])
        for row, column, coefficient in publications[first : first + count]:
            result[int(row) * n + int(column)] += int(coefficient) * state
    expected = np.zeros((m, n, m, k, k, n), dtype=int)
    for i, j, p in np.ndindex(m, n, k):
        expected[i, j, i, p, p, j] = found.plan.divisor
    np.testing.assert_array_equal(result, expected.reshape(result.shape))


def test_entry_points_are_those_of_the_header(nvcc, tmp_path):
    kinds = types("bf16", "fp16", "fp32")
    name, caller = prefix(PLANS["winograd"], kinds, FAMILY), tmp_path / "caller.c"
    library = build_cuda(
        emit_ampere(PLANS["winograd"], "bf16", "fp16", "fp32"), "sm_80", flags=("-Werror", "all-warnings")
    )
    header = fused_emitter("sm_80").header(PLANS["winograd"], dtype="bf16", plane_dtype="fp16", c_dtype="fp32")
    entries = ("open", "workspace", "planes_a", "planes_b", "pack_a", "pack_b", "launch")
    calls = "".join(f"  entry[{i}] = (void *){name}_{entry};\n" for i, entry in enumerate(entries))
    caller.write_text(
        f"{header}\nint main(void) {{\n  void *entry[{len(entries)}];\n{calls}"
        f"  {name}_close(NULL);\n"
        f"  return entry[6] == 0 || {name}_error()[0] || {name}_workspace(0, 1, 1) || !{name}_workspace(9, 9, 9) ||\n"
        f"         {name}_planes_a(0, 1) || !{name}_planes_a(9, 9) ||\n"
        f"         {name}_planes_b(1, 0) || !{name}_planes_b(9, 9);\n}}\n"
    )
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-o", tmp_path / "caller", caller, library]
    subprocess.run(command, check=True)
    subprocess.run([str(tmp_path / "caller")], check=True)


def test_the_program_says_that_there_is_no_device(nvcc):
    program = build_cuda(emit_ampere(PLANS["winograd"]), "sm_80", "program", flags=("-Werror", "all-warnings"))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([str(program)], capture_output=True, text=True, env=environment)
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.startswith("no usable CUDA device") and done.stderr.count("\n") == 1


def test_text_is_self_contained():
    text = emit_ampere(PLANS["winograd2"], "fp16", version="1.2.3+abc")
    assert not re.search(r'#include "', text) and "SCHEME" not in text and "cuda_bf16.h" not in text
    assert "version 1.2.3+abc" in text


def test_names_tell_the_types_apart():
    names = {prefix(PLANS["winograd"], types(*kinds), FAMILY) for kinds in [*TYPES, ("fp16",), ("bf16", None, "fp32")]}
    assert len(names) == 5
    assert types("bf16", "bf16", "bf16") == types("bf16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "fp32"}, "unknown dtype 'fp32' of a fused kernel; choose one of fp16, bf16"),
        ({"plane_dtype": "fp32"}, "planes can be stored as fp16 or bf16, not 'fp32'"),
        ({"c_dtype": "fp16"}, "C can be stored as bf16 or fp32, not 'fp16'"),
    ],
)
def test_wrong_types_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        emit_ampere(plan(winograd()), **options)
