"""What the assembler makes of the fused kernels, read without a GPU, and that both compilers of CUDA take them."""

import re
import resource
from pathlib import Path

import pytest

from catalog.scheme import Format, Ring
from catalog.store import Catalog
from codegen import sass
from codegen.build import build_cuda, resources
from codegen.emit import fused_emitter
from codegen.plan import Plan, plan
from tests.codegen import nvrtc
from tests.codegen.compilers import needs, needs_disassembler, needs_nvcc
from tests.codegen.schemes import plans
from tests.fuzzing import rare

# At most so many bytes may a chained kernel spill, nearly all of it outside the loop over k.
SPILLS = 64
# Bytes of local memory in the loop over k: those that every turn meets, and all. Two levels load one word in every
# turn; the rest is on the path of a piece that leaves.
ONE_LEVEL, TWO_LEVELS, NARROW = (0, 8), (8, 16), (0, 0)
# Processor seconds of one architecture to a cubin; 2 are the aim, and busy machines take twice as long as idle ones.
# Making planes meanwhile is as much code again.
PATIENCE = 20.0


def starter(m: int, k: int, n: int) -> Plan:
    """The scheme over Z of lowest rank and fewest planes in the starter catalog."""
    shelf = Catalog(Path(__file__).parents[2] / "catalog" / "starter")
    rows = [row for row in shelf.rows() if row.format == Format(m, k, n) and row.ring is Ring.Z]
    return plan(shelf.get(min(rows, key=lambda row: (row.rank, row.planes_a + row.planes_b, row.id)).id).scheme)


PLANS = {name: plans()[name] for name in ("trivial", "strassen", "winograd", "winograd2", "rectangular", "rational")}
PLANS |= {
    "4x4x2": starter(2, 4, 4),
    "3x3x3": starter(3, 3, 3),
}
MIXED = {"dtype": "bf16", "plane_dtype": "fp16"}
# Each text takes ten to thirty seconds; what one has in it another need not show again.
CASES = [("sm_90a", scheme, {"dtype": "bf16"}) for scheme in ("trivial", "winograd")]
CASES += [rare("sm_90a", scheme, {"dtype": "bf16"}) for scheme in ("winograd2", "rectangular", "3x3x3")]
CASES += [rare("sm_90a", "winograd", {"dtype": "bf16", "overlap": 2, "guard": True})]
CASES += [rare("sm_90a", "4x4x2", {"dtype": "bf16", "overlap": 1, "constant_b": True})]
CASES += [rare("sm_90a", "rational", {"dtype": "bf16", "pending_bits": 32})]
CASES += [("sm_90a", "trivial", MIXED), rare("sm_90a", "winograd", MIXED)]
CASES += [
    rare("sm_90a", "winograd", {"dtype": "fp16", "c_dtype": "fp32", "layout": layout}) for layout in ("nt", "tn", "tt")
]
CASES += [("sm_80", scheme, {"dtype": "bf16"}) for scheme in ("trivial", "winograd2")]
CASES += [rare("sm_80", "3x3x3", {"dtype": "bf16"})]
CASES += [
    rare("sm_90a", "winograd", {"dtype": "bf16", "scale": True}),
    rare("sm_80", "winograd", {"dtype": "bf16", "scale": True}),
]
CASES += [rare("sm_80", "winograd", MIXED), ("sm_120", "winograd", {"dtype": "fp16"})]

# Where sums go through the steps some more may spill.
FINISHED = {"bias,gelu": 16, "bias,residual,gelu": 48}
CASES += [("sm_90a", "winograd", {"dtype": "bf16", "epilogue": "bias,gelu"})]
CASES += [rare("sm_90a", "strassen", {"dtype": "fp16", "epilogue": text}) for text in FINISHED]
CASES += [rare("sm_90a", scheme, {"dtype": "bf16", "epilogue": "bias,gelu"}) for scheme in ("trivial", "winograd2")]
CASES += [rare("sm_90a", "winograd", {"dtype": "bf16", "overlap": 2, "guard": True, "epilogue": "bias,residual,gelu"})]
CASES += [rare("sm_90a", "winograd", {"dtype": "bf16", "c_dtype": "fp32", "epilogue": "bias,gelu"})]
CASES += [rare("sm_80", "winograd", {"dtype": "bf16", "guard": True, "epilogue": "bias,residual,gelu"})]

needs_nvrtc = needs(nvrtc.path)


def compiling() -> float:
    """Processor seconds of this process's children so far, which does not depend on what else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def named(value: object) -> str:
    if isinstance(value, dict):
        return "-".join(option if value[option] is True else str(value[option]) for option in value)
    return str(value)


@needs_nvcc
@needs_disassembler
@pytest.mark.parametrize(("arch", "scheme", "options"), CASES, ids=named)
def test_registers_spills_and_main_loops(monkeypatch, tmp_path, arch, scheme, options):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    text = fused_emitter(arch).emit(PLANS[scheme], **options)
    before = compiling()
    cubin = build_cuda(text, arch, kind="cubin")
    seconds = compiling() - before
    print(f"{seconds:.2f} processor seconds to compile")
    assert seconds < PATIENCE * (2 if "overlap" in options else 1)
    kernels, usages = sass.read(cubin), {usage.kernel: usage for usage in resources(text, arch)}
    products = [kernel for kernel in kernels if kernel.mma]
    assert products and {kernel.name for kernel in kernels} == set(usages)
    for kernel in kernels:
        usage = usages[kernel.name]
        spilled = kernel.stack, kernel.local_stores, usage.spill_stores
        allowed = SPILLS if kernel.mma and PLANS[scheme].rank > 1 else 0
        if kernel.mma and "epilogue" in options:
            allowed = FINISHED[options["epilogue"]]
        assert max(spilled) <= allowed, (kernel.name, spilled)
    always, at_all = ONE_LEVEL if PLANS[scheme].levels == 1 else TWO_LEVELS
    always, at_all = NARROW if "kPendingBits = 16" in text or arch != "sm_90a" else (always, at_all)
    if "epilogue" in options and PLANS[scheme].levels > 1:
        always, at_all = TWO_LEVELS
    for kernel in products:
        assert set(kernel.mma) == {"HGMMA" if arch == "sm_90a" else "HMMA"}
        assert kernel.main_loops, f"{kernel.name} has no loop over k"
        for loop in kernel.main_loops:
            assert loop.local_always <= always, (kernel.name, loop)
            assert loop.local_stores + loop.local_loads <= at_all, (kernel.name, loop)
            # Drains beside the products have some that only few turns meet.
            assert loop.membar_always == 0, (kernel.name, loop)


@needs_nvcc
@needs_nvrtc
@needs_disassembler
@pytest.mark.parametrize(
    ("arch", "scheme", "options"),
    [
        rare("sm_90a", "winograd", MIXED),
        ("sm_80", "winograd", {**MIXED, "guard": True, "epilogue": "bias,silu"}),
    ],
    ids=named,
)
def test_the_device_part_compiles_at_run_time_too(monkeypatch, tmp_path, arch, scheme, options):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    text = fused_emitter(arch).emit(PLANS[scheme], **options)
    cubin, log = nvrtc.compile_device_part(text, arch)
    assert cubin, log
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)
    ahead = sass.read(build_cuda(text, arch, kind="cubin"))
    kinds = sorted((sorted(kernel.mma), len(kernel.main_loops)) for kernel in sass.read(path))
    assert kinds == sorted((sorted(kernel.mma), len(kernel.main_loops)) for kernel in ahead)


@pytest.mark.parametrize(("arch", "scheme", "options"), CASES, ids=named)
def test_the_text_is_self_contained(arch, scheme, options):
    emitter = fused_emitter(arch)
    text, name = emitter.emit(PLANS[scheme], **options), emitter.prefix(PLANS[scheme], **options)
    assert not re.search(r'#include "|cutlass|cute/', text) and "SCHEME" not in text
    header = emitter.header(PLANS[scheme], **options)
    entries = set(re.findall(rf"\b{name}_\w+(?=\()", header))
    assert len(entries) == 9 and all(re.search(rf"\b{entry}\(", text) for entry in entries)


def test_golden_winograd_bf16_hopper(golden):
    golden(fused_emitter("sm_90a").emit(PLANS["winograd"], dtype="bf16"))


def test_golden_rectangular_fp16_ampere(golden):
    golden(fused_emitter("sm_80").emit(PLANS["rectangular"], dtype="bf16", plane_dtype="fp16", c_dtype="fp32"))
