"""What the emitter for sm_90a refuses, and that its switches reach the text."""

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from codegen.emit import HOPPER
from codegen.emit_hopper import emit_hopper
from codegen.plan import plan
from codegen.schedule import schedule

WINOGRAD = plan(winograd())
ONE = np.ones((1, 1), np.int64)
HALVED = plan(Scheme(Format(1, 1, 1), Ring.Q, ONE, ONE, 2 * ONE, denominators=(1, 1, 2)))  # C is 2 A B over 2


def test_switches_are_constants_of_the_text():
    text = emit_hopper(WINOGRAD)
    assert "kPaced = true, kSharing = true" in text and "kPendingBits = 16;" in text
    text = emit_hopper(WINOGRAD, pace=False, share=False)
    assert "kPaced = false, kSharing = false" in text
    assert "kConstantB = true" in emit_hopper(WINOGRAD, overlap=1, constant_b=True)
    assert emit_hopper(WINOGRAD, constant_b=True) == emit_hopper(WINOGRAD)
    assert "row_peaks" not in emit_hopper(WINOGRAD) and "kScaled = true" in emit_hopper(WINOGRAD, scale=True)


@pytest.mark.parametrize(
    ("options", "bits"),
    [
        ({"dtype": "bf16"}, 16),
        ({"dtype": "bf16", "pending_bits": 32}, 32),
        ({"dtype": "bf16", "plane_dtype": "fp16"}, 32),
        ({"dtype": "fp16"}, 32),
        ({"dtype": "fp16", "pending_bits": 16}, 16),
    ],
)
def test_pending_tiles_are_narrow_where_planes_are_coarser(options, bits):
    text = emit_hopper(WINOGRAD, **options)
    assert f"kPendingBits = {bits};" in text and f"2 pending in fp{bits}" in text


def test_more_slots_than_lanes_are_kept_in_fp32(monkeypatch):
    many = plan(strassen(), 2)
    monkeypatch.setattr("codegen.emit_hopper._LANES", schedule(many).slots - 1)
    assert "kPendingBits = 32;" in emit_hopper(many)
    with pytest.raises(ValueError, match="for at most"):
        emit_hopper(many, pending_bits=16)


def test_what_has_no_pending_tiles_is_the_same_with_narrow_ones():
    one = plan(classical(Format(1, 1, 1)))
    assert emit_hopper(one, pending_bits=16) == emit_hopper(one)


@pytest.mark.parametrize(
    ("found", "options"),
    [
        (WINOGRAD, {}),
        (plan(classical(Format(1, 1, 2))), {}),
        (HALVED, {}),
        *((plan(classical(Format(1, 1, 1))), options) for options in ({"scale": True}, {"guard": True})),
        (plan(classical(Format(1, 1, 1))), {"c_dtype": "fp32"}),
        (plan(classical(Format(1, 1, 1))), {"plane_dtype": "fp16", "scale": True}),
    ],
    ids=str,
)
def test_few_tiles_have_a_kernel_of_their_own_in_plain_products_alone(found, options):
    plain = emit_hopper(plan(classical(Format(1, 1, 1))), epilogue="bias,gelu")
    assert "void few<256, 192>(" in plain and plain.count("few_tiles(machine, w, ") == 1
    text = emit_hopper(found, **options)
    assert "few<" not in text and "few_tiles" not in text


@pytest.mark.parametrize(
    ("found", "options", "message"),
    [
        (WINOGRAD, {"pending_bits": 8}, "pending tiles have 16 or 32 bits, not 8"),
        (WINOGRAD, {"overlap": -1}, "so many products cannot come first: -1"),
        (plan(strassen()), {"overlap": 1}, "need no planes"),
        (WINOGRAD, {"overlap": 1, "scale": True}, "nothing overlaps where rows and columns are scaled"),
    ],
)
def test_what_cannot_be_emitted_is_one_sentence(found, options, message):
    with pytest.raises(ValueError, match=message):
        emit_hopper(found, **options)


def test_blocks_end_where_boxes_of_the_bulk_copies_do():
    """Those of C where there are several blocks; where there is one, those of A and B as they lie in memory."""
    trivial = {
        "nn": "kUnitM = 1, kUnitK = 8, kUnitN = 64;",
        "nt": "kUnitM = 1, kUnitK = 8, kUnitN = 8;",
        "tn": "kUnitM = 64, kUnitK = 8, kUnitN = 64;",
    }
    for layout, line in trivial.items():
        assert line in emit_hopper(plan(classical(Format(1, 1, 1))), layout=layout)
        assert "kUnitM = 64, kUnitK = 8, kUnitN = 64;" in emit_hopper(WINOGRAD, layout=layout)


def test_a_header_takes_every_option_of_the_emitter():
    names = {HOPPER.prefix(WINOGRAD, dtype="bf16"), HOPPER.prefix(WINOGRAD, dtype="bf16", pace=False, pending_bits=16)}
    assert len(names) == 1 and names.pop() in HOPPER.header(WINOGRAD, dtype="bf16", share=False)
