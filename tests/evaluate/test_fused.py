"""Loading, packing and launching fused kernels, with a library of the same C interface for host memory."""

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format
from codegen.build import Usage
from codegen.fused_tables import tables
from codegen.plan import plan
from codegen.schedule import schedule
from evaluate.device import DeviceInfo
from evaluate.fused import build_fused, fused_arch, open_fused
from evaluate.gpu import draw_buffers, open_ours
from evaluate.kernel import Built, KernelError
from evaluate.operands import widen
from evaluate.variants import OPERANDS, Variant, Wanted, left_out, variants, why_not_fused
from tests.evaluate.fused_host import HostModule, library

H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 20, "0")
T4 = DeviceInfo("Tesla T4", "sm_75", "580", "13.0", 1 << 20, "0")
SHAPE = (33, 21, 47)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")
    return {"nn": library(folder, "plain"), "nt": library(folder, "turned", "-DTRANSPOSED_B=1")}


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_each_way_to_give_operands_multiplies_them(operands, layout, libraries):
    variant = Variant("bf16", "fused", operands, "bf16", "fp32", layout)
    xp = HostModule()
    buffers = draw_buffers(xp, variant, SHAPE, "normal", 3, 10_000)
    m, n, k = SHAPE
    assert len(buffers.lefts) > 2 and buffers.leading == (k, k if layout == "nt" else n, n)
    a, b = (widen(np, stored[0], "bf16") for stored in (buffers.lefts, buffers.rights))
    exact = a @ (b.T if layout == "nt" else b)
    with open_ours(variant, libraries[layout], buffers) as (launch, size):
        given = {"variable": 0, "b_constant": n * k, "planes_given": n * k + m * k}[operands]
        assert size == 8192 + 2 * given
        # What was packed is read from its planes, so the operand may be gone.
        for matrices, gone in ((buffers.lefts, operands == "planes_given"), (buffers.rights, operands != "variable")):
            for matrix in matrices:
                matrix[:] = 0x7FFF if gone else matrix
        for number in range(len(buffers.lefts) + 1):
            launch(number)
    for output in buffers.outputs:
        found = widen(np, output, "bf16")
        assert np.linalg.norm(found - exact) < 0.01 * np.linalg.norm(exact)
    assert all(np.isnan(widen(np, one, "bf16")).all() for one in buffers.references)


def test_refusals_name_the_library_and_its_reason(libraries):
    with open_fused(libraries["nn"]) as kernel:
        with pytest.raises(KernelError, match="plain cannot multiply 4 x 1000 by 1000 x 4"):
            kernel.workspace_bytes(4, 4, 1000)
        with pytest.raises(KernelError, match="plain: the workspace is too small"):
            kernel.launch(0, (1, 1, 1), 0, 0, 0, 0, 10, leading=(1, 1, 1))
        with pytest.raises(KernelError, match="plain: the planes need more bytes"):
            kernel.pack("b", 0, (4, 4), 0, 4, 0, 31)
    with pytest.raises(KernelError, match="is not a library of other"):
        with open_fused(Built(libraries["nn"].path, "other")):
            pass


def test_by_default_both_paths_are_measured_where_there_are_both():
    assert [v.path for v in variants(plan(winograd()), ["bf16"], Wanted(), H200)] == ["cuda", "fused"]
    assert [v.path for v in variants(plan(winograd()), ["fp32"], Wanted(), H200)] == ["cuda"]
    assert [v.path for v in variants(plan(winograd()), ["bf16"], Wanted(), T4)] == ["cuda"]
    assert [v.path for v in variants(plan(winograd()), ["fp32"], Wanted(), None)] == ["c", "numpy"]


def test_fused_variants_are_the_product_of_what_is_wanted():
    wanted = Wanted("fused", OPERANDS, ("input", "fp16"), ("nn", "nt"))
    found = variants(plan(strassen()), ["fp16", "bf16"], wanted, H200)
    assert len(found) == len(set(found)) == 3 * 2 * (1 + 2)
    assert {(v.dtype, v.plane_dtype) for v in found} == {("fp16", "fp16"), ("bf16", "bf16"), ("bf16", "fp16")}
    # Given planes leave nothing to the path that cannot take them.
    assert {v.path for v in variants(plan(strassen()), ["bf16"], Wanted(operands=("planes_given",)), H200)} == {"fused"}


@pytest.mark.parametrize("scheme", [classical(Format(1, 1, 1)), classical(Format(2, 1, 2))])
def test_without_planes_there_is_one_variant(scheme):
    wanted = Wanted("fused", OPERANDS, ("input", "fp16"))
    assert variants(plan(scheme), ["bf16"], wanted, H200) == [
        Variant("bf16", "fused", "variable", "bf16", "fp32"),
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"path": "tvm"}, "unknown path 'tvm'"),
        ({"operands": ("constant",)}, "unknown operands 'constant'"),
        ({"plane_dtypes": ("fp32",)}, "unknown plane dtype 'fp32'"),
        ({"layouts": ("rc",)}, "unknown layout 'rc'"),
        ({"product_dtype": "fp8"}, "unknown product dtype"),
        ({"path": "cuda", "operands": ("b_constant",)}, "use path fused"),
    ],
)
def test_what_cannot_be_wanted_is_one_sentence(wanted, message):
    with pytest.raises(ValueError, match=message):
        Wanted(**wanted)


def test_a_fused_kernel_that_cannot_be_says_why():
    with pytest.raises(ValueError, match="path fused needs a GPU"):
        variants(plan(winograd()), ["fp16"], Wanted("fused"), None)
    with pytest.raises(ValueError, match="no fused kernel for fp32"):
        variants(plan(winograd()), ["fp32"], Wanted("fused"), H200)
    with pytest.raises(ValueError, match="Tesla T4 is sm_75"):
        variants(plan(winograd()), ["fp16"], Wanted("fused"), T4)
    with pytest.raises(ValueError, match="729 products, more than the"):
        variants(plan(classical(Format(3, 3, 3)), 2), ["fp16"], Wanted("fused"), H200)
    assert not why_not_fused("bf16", H200)
    assert (fused_arch("sm_90"), fused_arch("sm_80"), fused_arch("sm_120")) == ("sm_90a", "sm_80", "sm_120")


@pytest.mark.parametrize(
    ("path", "dtype", "gpu", "large"),
    [
        ("auto", "bf16", H200, 729),
        ("fused", "bf16", H200, 729),
        ("triton", "fp16", H200, 729),
        ("cuda", "bf16", H200, 0),
    ]
    + [("auto", "fp32", H200, 0), ("auto", "bf16", T4, 0), ("auto", "bf16", None, 0)],
)
def test_a_plan_is_left_out_where_its_size_is_the_reason(path, dtype, gpu, large):
    small, two = (plan(classical(Format(3, 3, 3)), levels) for levels in (1, 2))
    assert not left_out(small, [dtype], Wanted(path), gpu)
    assert (f"{large} products" in left_out(two, [dtype], Wanted(path), gpu)) == bool(large)
    if path == "auto" and gpu:
        assert [variant.path for variant in variants(two, [dtype], Wanted(path), gpu)] == ["cuda"]


def test_the_facts_of_a_kernel_are_those_of_its_schedule(monkeypatch, tmp_path):
    """Told by the emitted constants, since planning a large scheme again takes seconds."""
    found = plan(winograd())
    order = schedule(found)
    sizes = "constexpr int kTileM = 128, kTileN = 256, kTileK = 64, kUnitM = 1, kUnitK = 8, kUnitN = 64;"
    text = f"{sizes}\n{tables(order)}\nint some_name_launch(void* handle) {{"
    usage = [Usage("planes", 40, 0, 0), Usage("products", 168, 44, 52)]
    monkeypatch.setattr("evaluate.fused.fused_text", lambda *_: text)
    monkeypatch.setattr("evaluate.fused.build_reported", lambda *_: (tmp_path, usage))
    built = build_fused(found, Variant("bf16", "fused", "variable", "bf16", "fp32"), "sm_90")
    assert (built.path, built.name) == (tmp_path, "some_name")
    counts = {"publications": order.publications, "slots": order.slots, "planes_a": 4, "planes_b": 4}
    assert built.facts == {
        "registers": 168,
        "spill_bytes": 44,
        "tile": "128x256x64",
        "block_units": [1, 8, 64],
        **counts,
    }
