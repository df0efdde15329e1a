"""The short list: measured rows, the cost model, what a caller restricts; the pure part of the dispatch."""

import subprocess
import sys
from dataclasses import replace

import pytest

from evaluate.buckets import bucket, small
from evaluate.candidate import Candidate
from evaluate.decision import MOST_CANDIDATES, Question, shortlist
from evaluate.verdicts import Verdict, best, carried

BIG = (8192, 8192, 8192)
QUESTION = Question(BIG, "bf16", ("fused", "cuda"), overlap=True)


def row(ratio, shape=BIG, **changes):
    facts = {"reference": "winograd", "levels": 1, "path": "fused", "dtype": "bf16", "plane_dtype": "bf16"}
    rest = {"operands": "variable", "ratio": ratio, "regime": "burst", "layout": "nn"}
    return {**facts, **dict(zip("MNK", shape, strict=True)), **rest, **changes}


def listed(question=QUESTION, rows=(), predicted=lambda one: None, factor=lambda one: 4.0, only=None):
    return shortlist(question, rows, predicted, factor, only)


def test_without_rows_and_model_nothing_is_tried():
    found, why = listed()
    assert found == [] and "does not know the device" in why
    assert "no kernels for fp64" in listed(replace(QUESTION, dtype="fp64", paths=()))[1]


def test_the_model_alone_may_propose():
    found, _ = listed(
        predicted=lambda one: {"winograd": 1.05, "classical-1x1x1": 0.96}[one.reference] - 0.2 * len(one.options)
    )
    assert [(one.label, one.predicted, one.measured) for one in found] == [
        ("winograd, path fused, bf16 planes, variable", 1.05, None),
        ("classical-1x1x1, path fused, bf16 planes, variable", 0.96, None),  # worth a trial, since the model errs
    ]
    # On other devices the plain kernel is no rival of the vendor's.
    found, _ = listed(replace(QUESTION, overlap=False), predicted=lambda one: 1.05)
    assert "classical-1x1x1" not in {one.reference for one in found}
    (found,), _ = listed(predicted=lambda one: 0.8 if one.reference == "classical-1x1x1" else 0.93)
    assert found.reference == "classical-1x1x1"  # whatever the model says
    found, why = listed(replace(QUESTION, overlap=False), predicted=lambda one: 0.93)
    assert found == [] and why.endswith("predicted at a ratio of 0.930")


def test_a_near_row_counts_more_than_the_model_and_a_far_one_does_not_count():
    only = replace(QUESTION, overlap=False)
    slow = listed(only, [row(0.9), row(0.89, options={"overlap": 2})], predicted=lambda one: 1.2)
    assert slow[0] == [] and slow[1].endswith("measured at a ratio of 0.900")
    far = listed(rows=[row(0.98, (1024, 1024, 1024))], predicted=lambda one: 1.2)
    assert far[0][0].predicted == 1.2 and far[0][0].measured is None
    assert listed(only, [row(1.3, (1024, 1024, 1024))], predicted=lambda one: 0.9)[0] == []


def test_the_slowest_regime_counts():
    rows = [row(1.05), row(0.94, regime="steady"), row(0.9, options={"overlap": 2})]
    assert listed(rows=rows)[0] == []


def test_rows_bring_schemes_of_their_own():
    plain = row(1.02, reference="classical-1x1x1", error_fro=1e-3, baseline_error_fro=1e-3)
    (found,), _ = listed(rows=[plain], factor=lambda one: pytest.fail("the row tells"))
    assert (found.reference, found.measured, found.error_factor) == ("classical-1x1x1", 1.02, 1.0)
    fitting = replace(QUESTION, dtype="fp32", paths=("cuda",))
    rows = [row(1.2, dtype="fp32", plane_dtype="fp32", path="cuda", layout="row-major", levels=2)]
    (found,), _ = listed(fitting, rows)
    assert (found.path, found.levels) == ("cuda", 2)


def test_at_most_four_are_tried_the_most_promising_first():
    rows = [row(1 + size / 100, reference=f"{size}x2x2") for size in range(2, 9)]
    found, _ = listed(rows=rows)
    assert len(found) == MOST_CANDIDATES and [one.measured for one in found] == [1.08, 1.07, 1.06, 1.05]


@pytest.mark.parametrize("plain", [0.9, 1.5])
def test_the_plain_kernel_is_one_more_and_never_twice(plain):
    rows = [row(1 + size / 100, reference=f"{size}x2x2") for size in range(2, 9)]
    found, _ = listed(rows=[*rows, row(plain, reference="classical-1x1x1")])
    names = [one.reference for one in found]
    assert names.count("classical-1x1x1") == 1 and len(names) == MOST_CANDIDATES + (plain < 1)


@pytest.mark.parametrize("others", [0, 9])
def test_a_plain_kernel_that_errs_too_much_is_left_out_too(others):
    rows = [row(1 + size / 100, reference=f"{size}x2x2") for size in range(2, others)]
    rows.append(row(1.5 if not others else 0.9, reference="classical-1x1x1", error_fro=1e-2, baseline_error_fro=1e-3))
    found, why = listed(rows=rows)
    assert "classical-1x1x1" not in {one.reference for one in found} and (found or "10.0 times" in why)


def test_planes_that_are_not_there_are_not_used():
    rows = [row(1.2, operands="b_constant"), row(1.3, operands="planes_given")]
    assert listed(rows=rows)[0] == []
    (found,), _ = listed(replace(QUESTION, operands="b_constant"), rows)
    assert found.operands == "b_constant"


def test_planes_of_another_type_are_only_used_when_asked_for():
    rows = [row(1.2, plane_dtype="fp16")]
    assert listed(rows=rows)[0] == []
    (found,), _ = listed(replace(QUESTION, plane_dtype="fp16"), rows)
    assert found.plane_dtype == "fp16"


def test_what_errs_too_much_is_left_out():
    rows = [row(1.2, levels=2, error_fro=1.2e-2, baseline_error_fro=1e-3), row(1.1)]
    assert [one.levels for one in listed(rows=rows)[0]] == [1]
    assert [one.levels for one in listed(replace(QUESTION, max_error_factor=20.0), rows)[0]] == [2, 1]
    none, why = listed(replace(QUESTION, max_error_factor=1.0), rows)
    assert none == [] and "12.0 times the vendor's error" in why


def test_a_packed_operand_allows_its_own_scheme_alone():
    only = Candidate("4x4x2", orbit="b_constant", operands="b_constant", plane_dtype="bf16")
    question = replace(QUESTION, operands="b_constant")
    (found,), _ = listed(question, [row(1.2)], predicted=lambda one: 1.1, only=only)
    assert found.bare == only and found.predicted == 1.1


@pytest.mark.parametrize("shape", [(128, 8192, 8192), (512, 512, 512), (1, 1, 1)])
def test_small_products_are_not_looked_up(shape):
    assert small(shape)
    assert "too small" in listed(replace(QUESTION, shape=shape), predicted=lambda one: pytest.fail("asked"))[1]


def test_buckets_have_four_steps_an_octave():
    assert [bucket((m, 4096, 4096))[0] for m in (4096, 4097, 5120, 5121, 8191, 8192)] == [
        4096,
        5120,
        5120,
        6144,
        8192,
        8192,
    ]
    assert len({bucket((m, 1, 1))[0] for m in range(1, 16385)}) < 60
    assert all(m <= bucket((m, 1, 1))[0] <= 1.25 * m + 1 for m in range(1, 5000))


def verdict(ratio, margin=0.01, **changes):
    low, high = ratio - margin, ratio + margin
    return Verdict(BIG, 1 / ratio, 1.0, ratio, low, high, **{"pairs": 11, "setup_seconds": 30.0, **changes})


def test_only_what_won_beyond_noise_is_taken():
    one, other = Candidate("winograd"), Candidate("4x4x2")
    assert best([(one, verdict(1.005)), (other, verdict(0.9))]) is None
    assert best([(one, verdict(1.05)), (other, verdict(1.08))])[0] is other
    assert best([(one, verdict(1.5, pairs=3)), (other, Verdict(BIG, reason="nvcc was not found"))]) is None


def test_what_is_repaid_and_what_carries_over():
    assert verdict(2.0).repaid_after == 60 and verdict(1.005).repaid_after is None
    assert carried(verdict(1.05), 1.04, 0.98) == pytest.approx(1.05 * 0.98 / 1.04)
    assert carried(verdict(1.05), None, None) == 1.05


def test_deciding_imports_no_library_of_a_device():
    code = "import sys, evaluate.decision; print([name for name in ('cupy', 'jax', 'torch') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_what_takes_long_to_compile_is_not_tried():
    brief = row(1.3, reference="winograd", rank=7, levels=2)
    assert listed(rows=[brief])[0][0].levels == 2
    assert not any(one.levels == 3 for one in listed(rows=[{**brief, "levels": 3}])[0])
