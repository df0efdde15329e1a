"""Plans of more products than a compiler bears are refused before their products are ordered; others are not."""

import pytest

from catalog.known import classical, winograd
from catalog.scheme import Format
from codegen import limits
from codegen.emit import AMPERE, HOPPER, emit
from codegen.limits import MOST_PRODUCTS, why_not_chained
from codegen.plan import plan


@pytest.mark.parametrize(
    ("kernel", "last", "first"), [("fused", (8, 8, 8), (27, 19, 1)), ("triton", (4, 4, 4), (13, 5, 1))]
)
def test_the_limit_is_the_last_that_is_compiled(kernel, last, first):
    count = MOST_PRODUCTS[kernel]
    most, beyond = (plan(classical(Format(*sizes))) for sizes in (last, first))
    assert (most.rank, beyond.rank) == (count, count + 1)
    assert why_not_chained(most, kernel) == ""
    assert f"have {count + 1} products, more than the {count} that a {kernel} kernel" in why_not_chained(beyond, kernel)


def test_two_levels_of_27_are_beyond_it_and_three_of_winograds_form_are_not():
    assert not why_not_chained(plan(winograd(), 3), "fused")
    reason = why_not_chained(plan(classical(Format(3, 3, 3)), 2), "fused")
    assert reason.startswith("2 level(s) of 3x3x3:27 have 729 products") and "use fewer levels, or the path" in reason


@pytest.mark.parametrize(
    ("emitted", "kernel"),
    [
        (lambda made: HOPPER.emit(made, dtype="bf16"), "fused"),
        (lambda made: AMPERE.emit(made, dtype="bf16"), "fused"),
        (lambda made: emit(made, "triton", dtype="bf16"), "triton"),
    ],
)
def test_emitters_refuse_before_they_search(emitted, kernel, monkeypatch):
    monkeypatch.setitem(limits.MOST_PRODUCTS, kernel, 7)
    assert emitted(plan(winograd()))
    for module in ("codegen.fused_text", "codegen.emit_triton"):
        monkeypatch.setattr(f"{module}.schedule", lambda *_: pytest.fail("the products were ordered"))
    with pytest.raises(ValueError, match=r"2 level\(s\) of 2x2x2:7 have 49 products, more than the 7 .*; use fewer"):
        emitted(plan(winograd(), 2))
