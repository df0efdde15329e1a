"""The model check: training, both arms, their statistics and what is refused, on a tiny model by emulated kernels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format
from codegen.plan import plan
from evaluate import model_check
from evaluate.backends import backends_table
from evaluate.choice import measured
from evaluate.corpus import Corpus, standard_library
from evaluate.device import DeviceInfo, DeviceMissingError
from evaluate.fused_table import fused_table
from evaluate.lm import Config, cast, forward, initial
from evaluate.lm_train import Training
from evaluate.model_arms import EMULATED_PATH, Arm, Case, jax_dtype, path_of, scheme_arm, vendor_arm
from evaluate.model_check import check, on_device, require_forced
from evaluate.model_sizes import SIZES, Size, resized
from evaluate.model_table import KIND, model_table
from evaluate.opened import Kernels
from evaluate.report import load, results_table, save
from tests.evaluate import dispatch_stands, fused_host

TINY = resized(replace(SIZES["tiny"], sequences=40), steps=60, seconds=None, seed=0)
SMALL = Size(Config(1, 32, 2, 64, 16), Training(steps=3, batch=2, rate=1e-2, warm_up=1), 2, 4)
H200 = DeviceInfo("NVIDIA H200", "sm_90", "580", "13.0", 1 << 20, "0")


@pytest.fixture(autouse=True)
def on_the_host():
    """Kernels are emulated, also where there is a GPU."""
    with on_device(None):
        yield


def broken():
    """Winograd's form with one sign of W the other way round."""
    whole = plan(winograd())
    w = np.array(whole.scheme.W)
    w[tuple(np.argwhere(w)[5])] *= -1
    return replace(whole, scheme=replace(whole.scheme, W=w))


def case(scheme, dtype="bf16", levels=1, plane_dtype=None):
    return Case(plan(scheme, levels), dtype, plane_dtype or dtype, EMULATED_PATH)


CASES = [
    case(classical(Format(1, 1, 1))),
    *(case(winograd(), dtype, levels) for dtype in ("fp16", "bf16") for levels in (1, 2)),
    Case(broken(), "bf16", "bf16", EMULATED_PATH),
]


@pytest.fixture(scope="module")
def text():
    return standard_library()


@pytest.fixture(scope="module")
def document(text):
    return check(CASES, TINY, text, None, commit="abc")


@pytest.fixture
def rows(document):
    return document["rows"]


def test_the_loss_falls_well_below_that_of_guessing(document, text):
    told = document["training"]["done"]
    assert (told["steps"], told["ended_by"]) == (60, "steps")
    (first, high), *_, (last, low) = told["curve"]
    assert (first, last) == (1, 60) and high > 7.5 and low < 5
    assert document["seconds"] > told["seconds"] + document["evaluation"]["seconds"]
    # What is held out was never trained on.
    assert all(3 < row["fp32_bits_per_byte"] < 5 for row in document["rows"])
    assert document["corpus"]["sha256"] == text.sha256 and document["commit"] == "abc"


def test_the_trivial_scheme_is_the_plain_product(rows):
    row = rows[0]
    assert row["rank"] == 1 and row["bits_per_byte"] == row["baseline_bits_per_byte"]
    assert row["top1_agreement"] == 1 and row["logits_difference_max"] == row["logits_difference_fro"] == 0
    assert row["logits_error_fro"] == row["baseline_logits_error_fro"] > 0  # the baseline rounds too


def test_an_exact_scheme_agrees_within_rounding(rows):
    one16, two16, one, two = rows[1:5]
    for row in (one16, two16, one, two):
        assert abs(row["bits_per_byte_relative"]) < 2e-3 and row["top1_agreement"] > 0.97
        assert row["bits_per_byte_relative_low"] <= row["bits_per_byte_relative"] <= row["bits_per_byte_relative_high"]
        assert row["bits_per_byte_relative"] == pytest.approx(
            row["bits_per_byte"] / row["baseline_bits_per_byte"] - 1, abs=1e-9
        )
        assert abs(row["accuracy"] - row["baseline_accuracy"]) < 0.02
        assert row["accuracy_low"] < row["accuracy"] < row["accuracy_high"]
        assert row["nonfinite_logits"] == 0
    # Another level costs accuracy, and so do the three bits that bf16 lacks.
    assert 0 < one16["logits_error_fro"] < two16["logits_error_fro"] < one["logits_error_fro"] < two["logits_error_fro"]
    assert one["logits_error_fro"] > one["baseline_logits_error_fro"]
    assert one["growth"] == pytest.approx(17.853, abs=1e-3) and two["growth"] == pytest.approx(17.853**2, rel=1e-4)


def test_a_wrong_sign_is_seen(rows):
    row = rows[5]
    assert row["bits_per_byte_relative_low"] > 0.05 and row["top1_agreement"] < 0.9
    assert row["accuracy_difference_high"] < 0 and row["logits_difference_fro"] > 0.1


def test_every_linear_layer_was_counted(document):
    passes = document["evaluation"]["sequences"] // document["evaluation"]["batch"]
    assert passes == 2 and document["model"]["linear_layers"] == 9
    assert [row["products"] for row in document["rows"]] == [18] * len(CASES)
    assert all(row["M"] == 16 * 64 and row["tokens"] == 32 * 64 for row in document["rows"])


@pytest.mark.parametrize(("made", "wanted"), [(0, 18), (17, 18), (0, 0)])
def test_other_counts_are_refused(made, wanted):
    arm = Arm(jnp.matmul)
    for _ in range(made):
        arm(jnp.ones((1, 2, 3)), jnp.ones((3, 4)))
    with pytest.raises(RuntimeError, match=f"made {made} products"):
        require_forced(arm, wanted)


def test_a_model_that_goes_past_the_scheme_is_refused(text, monkeypatch):
    monkeypatch.setattr(
        model_check, "forward", lambda parameters, tokens, config, *_: forward(parameters, tokens, config)
    )
    with pytest.raises(RuntimeError, match="made 0 products of linear layers where 10"):
        check(CASES[:1], SMALL, text, None)


def test_what_cannot_be_opened_is_skipped_with_its_reason(text, monkeypatch):
    def refuse(case, kernels, gpu):
        if case.dtype == "fp16":
            raise ValueError("no such\nkernel")
        return scheme_arm(case, kernels, gpu)

    monkeypatch.setattr(model_check, "scheme_arm", refuse)
    found = check([case(strassen(), dtype) for dtype in ("fp16", "bf16")], SMALL, text, None)
    assert [row["dtype"] for row in found["rows"]] == ["bf16"]
    assert [(row["dtype"], row["reason"]) for row in found["skipped"]] == [("fp16", "no such kernel")]


def test_an_overflow_is_counted_and_written_as_null(text, tmp_path):
    huge = Arm(lambda x, w: jnp.full((x.shape[0], w.shape[1]), jnp.inf, x.dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_check, "scheme_arm", lambda *_: huge)
        found = check([case(strassen())], SMALL, text, None)
    (row,) = found["rows"]
    assert row["nonfinite_logits"] == 4 * 16 * 256 and row["bits_per_byte"] is None
    assert row["bits_per_byte_relative"] is row["logits_difference_max"] is row["logits_difference_fro"] is None
    save(found, tmp_path)


def test_readers_of_measurements_leave_the_document_out(document, tmp_path):
    save(document, tmp_path)
    assert [one["kind"] for one in load(tmp_path, KIND)] == [KIND] and load(tmp_path) == []
    assert results_table(tmp_path) == fused_table(tmp_path) == backends_table(tmp_path) == ""
    assert measured(tmp_path, document["device"], ("emulated", "fused")) == []


def test_the_table_has_the_newest_row_of_a_gpu(document, tmp_path):
    save(document, tmp_path)
    assert model_table(tmp_path) == ""  # emulated
    on_gpu = document | {"device": "NVIDIA H200", "device_kind": "gpu"}
    late = on_gpu | {"created_utc": "2999-01-01T00:00:00+00:00"}
    row = document["rows"][1] | {"bits_per_byte": 1.25, "bits_per_byte_relative_low": None}
    save(on_gpu, tmp_path)
    save(late | {"rows": [row]}, tmp_path)
    head, _, *lines = model_table(tmp_path).splitlines()
    assert len(lines) == len({(one["id"], one["dtype"], one["levels"]) for one in document["rows"]}) == 5
    cells = [dict(zip(head.split(" | "), line.split(" | "), strict=True)) for line in lines]
    (found,) = [each for each in cells if (each["dtype"], each["levels"]) == ("fp16", "1")]
    assert found["| device"] == "| NVIDIA H200" and found["scheme"] == "2x2x2:7" and found["bits per byte"] == "1.2500"
    assert found["difference"] == "not finite" and found["same most likely byte"].startswith("9")


def test_the_path_is_that_of_the_device_and_the_plan():
    assert path_of(plan(winograd()), "bf16", None) == "emulated"
    assert path_of(plan(winograd()), "bf16", H200) == "fused"
    assert path_of(plan(winograd()), "bf16", replace(H200, arch="sm_75")) == "cuda"
    assert path_of(plan(winograd(), 4), "bf16", H200) == "cuda"  # 2401 products
    with pytest.raises(ValueError, match="path cuda has planes of the input type"):
        scheme_arm(Case(plan(winograd()), "bf16", "fp16", "cuda"), Kernels(), H200)


def test_a_gpu_that_jax_lacks_is_said():
    if jax.default_backend() == "gpu":
        pytest.skip("this JAX has a GPU")
    with pytest.raises(DeviceMissingError, match="--size tiny"), on_device(H200):
        pass


def test_both_arms_run_on_arrays_where_they_lie(tmp_path, monkeypatch):
    """With a kernel and a cuBLAS for host memory in place of those of a device."""
    cupy = dispatch_stands.cupy(dispatch_stands.Stream())
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr("evaluate.arrays._known", {})
    monkeypatch.setattr("evaluate.model_arms.array_module", lambda: cupy)
    monkeypatch.setattr("evaluate.array_jax.Jax.finish", lambda self, x, like: jnp.asarray(np.asarray(x)))
    monkeypatch.setenv("SUBCUBIC_CUBLAS", str(fused_host.cublas_library(tmp_path)))
    built = []

    def build(the_plan, variant, info):
        built.append((the_plan.name, variant.path, variant.dtype, variant.plane_dtype, variant.layout))
        return fused_host.library(tmp_path, "kernel_nn")

    monkeypatch.setattr("evaluate.opened.build_library", build)
    config = SMALL.config
    parameters = cast(initial(config, 0), jax_dtype("bf16"))
    tokens = np.random.default_rng(0).integers(0, 256, (2, 16)).astype(np.uint8)
    forced = replace(case(winograd()), path="fused")
    with vendor_arm("bf16", H200) as (vendor, words), vendor_arm("bf16", None) as (emulated, _):
        ours = scheme_arm(forced, Kernels(), H200)
        expected, *others = (forward(parameters, jnp.asarray(tokens), config, arm) for arm in (emulated, vendor, ours))
    assert built == [(forced.plan.name, "fused", "bf16", "bf16", "nn")]
    assert "cuBLAS 13.1.0 cublasGemmEx, bf16 operands" in words
    for arm, logits in zip((vendor, ours), others, strict=True):
        assert arm.products == config.linear_layers
        np.testing.assert_allclose(logits, expected, atol=0.05)  # sums in another order, rounded to bf16
    x = jnp.asarray(np.ones((2, 3, 4)), ml_dtypes.bfloat16)
    assert emulated(x, jnp.ones((4, 5), x.dtype)).shape == (2, 3, 5)


def test_planes_of_another_type_are_rounded_finer(text):
    rough, fine = check([case(winograd(), "bf16", 1, planes) for planes in ("bf16", "fp16")], SMALL, text, None)["rows"]
    assert (rough["plane_dtype"], fine["plane_dtype"]) == ("bf16", "fp16")
    assert fine["logits_error_fro"] < rough["logits_error_fro"]


def test_a_short_text_makes_one_smaller_batch(text):
    short = Corpus(text.trained, text.held_out[:20], text.sha256, 2, 1, "short")
    found = check(CASES[:1], SMALL, short, None)
    assert found["evaluation"]["sequences"] == 1 and found["rows"][0]["M"] == 16
