import importlib.util
import json

import pytest

from catalog.known import strassen, winograd
from catalog.transform import extend
from codegen.plan import plan
from evaluate import triton_path
from evaluate.backends import backends_table
from evaluate.bench import bench
from evaluate.device import DeviceInfo
from evaluate.triton_path import build_triton, load
from evaluate.variants import Variant, Wanted, variants

HOPPER = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 60 << 20, "0")
ROW = {
    "id": "d" * 64,
    "format": "2x2x2",
    "rank": 7,
    "levels": 1,
    "dtype": "bf16",
    "plane_dtype": "fp16",
    "product_dtype": "fp32",
    "layout": "nn",
    "operands": "variable",
    "distribution": "normal",
    "M": 8192,
    "N": 8192,
    "K": 8192,
    "regime": "burst",
    "pairs": 30,
    "ratio": 1.04,
    "ratio_low": 1.03,
    "ratio_high": 1.05,
    "correct": True,
    "path": "fused",
    "registers": 168,
    "spill_bytes": 0,
    "tile": "128x256x64",
}
TRITON = {**ROW, "path": "triton", "layout": "row-major", "ratio": 0.91, "ratio_low": 0.9, "ratio_high": 0.92} | {
    "registers": 255,
    "spill_bytes": 8,
    "tile": "256x128x64",
}


def test_the_twin_has_variable_operands_and_16_bit_types():
    wanted = Wanted(path="triton", plane_dtypes=("input", "fp16"))
    found = variants(plan(winograd()), ["bf16"], wanted, HOPPER)
    assert found == [Variant("bf16", "triton", "variable", planes, "fp32") for planes in ("bf16", "fp16")]
    for bad in ({"operands": ("b_constant",)}, {"layouts": ("nt",)}):
        with pytest.raises(ValueError, match="path triton has variable operands and layout nn; use path fused"):
            Wanted(path="triton", **bad)
    with pytest.raises(ValueError, match="no fused kernel for fp32"):
        variants(plan(winograd()), ["fp32"], wanted, HOPPER)
    with pytest.raises(ValueError, match="path triton needs a GPU"):
        variants(plan(winograd()), ["bf16"], wanted, None)


def test_missing_libraries_are_one_sentence(monkeypatch):
    monkeypatch.setattr(triton_path, "find_spec", lambda name: None if name == "triton" else object())
    with pytest.raises(ValueError, match="path triton needs triton; install Torch"):
        build_triton(plan(winograd()), Variant("bf16", "triton", "variable", "bf16", "fp32"))


def test_a_built_module_says_what_it_holds(monkeypatch):
    monkeypatch.setattr(triton_path, "find_spec", lambda name: object())
    built = build_triton(plan(winograd()), Variant("bf16", "triton", "variable", "fp16", "fp32"))
    assert built.path.name == f"{built.name}.py" and built.name.endswith("_bf16_fp16planes")
    compile(built.path.read_text(), built.path, "exec")
    # With fp16 planes a bf16 block that meets a plane is converted, too.
    assert built.facts["planes_a"] == built.facts["planes_b"] == 5 and built.facts["publications"] >= 7
    built.path.write_text("answer = 42\n")
    assert load(built).answer == 42


def test_the_table_pairs_both_backends_and_takes_the_newest(tmp_path):
    def save(name, created, *rows):
        document = {"device": "NVIDIA H200", "created_utc": created, "rows": rows}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    assert backends_table(tmp_path) == ""
    save("a", "2026-01-01T00:00:00+00:00", ROW, {**TRITON, "ratio": 0.5}, {**ROW, "kind": "rate"} | {"path": None})
    save("b", "2026-01-02T00:00:00+00:00", TRITON, {**TRITON, "M": 4096}, {**ROW, "M": 4096, "correct": False})
    head, _, *lines = backends_table(tmp_path).splitlines()
    assert head.count("registers") == head.count("spill bytes") == 2 and len(lines) == 1
    assert lines[0] == (
        "| NVIDIA H200 | 2x2x2:7 | 1 | bf16 | fp16 | 8192^3 | burst | 1.040 [1.030, 1.050] | 168 | 0 | 128x256x64 "
        "| 0.910 [0.900, 0.920] | 255 | 8 | 256x128x64 |"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("plane_dtype", ["input", "fp16"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_the_twin_is_right_repeatable_and_timed(dtype, plane_dtype):
    for library in ("torch", "triton"):
        if not importlib.util.find_spec(library):
            pytest.skip(f"no {library}")
    found = bench(
        [plan(winograd()), plan(extend(strassen(), "n"))],
        [(1024, 1536, 2048), (1001, 515, 777)],
        [dtype],
        device="gpu",
        wanted=Wanted(path="triton", plane_dtypes=(plane_dtype,)),
        pairs=7,
    )
    assert not found["skipped"] and len(found["rows"]) == 4
    for row in found["rows"]:
        assert row["correct"] and row["repeatable"] and row["path"] == "triton" and row["pairs"] == 7
        assert 0 < row["registers"] <= 255 and row["spill_bytes"] >= 0 and row["workspace_bytes"] > 0
        finer = (dtype, row["plane_dtype"]) == ("bf16", "fp16")
        assert row["error_fro"] <= row["baseline_error_fro"] * (1.1 if finer else 4.5)
