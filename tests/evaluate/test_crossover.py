"""Where gains begin: of rows made by hand, and by the cost model."""

from dataclasses import replace

import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate.crossover import Crossover, crossover, measured_crossovers, modes, predicted_crossover
from evaluate.crossover_table import crossover_table, measured_text, model_of, predicted_text
from evaluate.device_model import DEVICES
from evaluate.report import save
from tests.evaluate.map_rows import row

H20, H200 = DEVICES["h20"], DEVICES["h200"]


@pytest.mark.parametrize(
    ("pays", "found"),
    [
        ({1: False, 2: False, 4: True, 8: True}, Crossover(4, 4, 2, 8)),
        ({8: True, 4: False, 2: True, 1: False}, Crossover(2, 8, 1, 8)),
        ({1: True, 2: True}, Crossover(1, 1, None, 2)),
        ({1: False, 2: True, 4: False}, Crossover(2, None, 1, 4)),
        ({1: False, 2: False}, Crossover(None, None, 2, 2)),
    ],
)
def test_a_crossover_is_the_first_gain_and_where_gains_last(pays, found):
    assert crossover(pays) == found


def test_a_crossover_needs_a_size():
    with pytest.raises(ValueError, match="needs at least one size"):
        crossover({})


def test_an_interval_that_touches_1_is_no_gain():
    rows = [row(4096, 0.9), row(8192, 1.03, 0.04), row(16384, 1.1), row(16384, 1.2, levels=2, error=12)]
    (one,) = measured_crossovers(rows)
    assert (one.dtype, one.operands, one.regime) == ("bf16", "variable", "burst")
    assert one.crossover == Crossover(16384, 16384, 8192, 16384)
    assert measured_text(one) == "16384, not at 8192; up to 1.20 (error x12.0)"
    # The same row with a narrow interval moves it.
    (moved,) = measured_crossovers([*rows, row(8192, 1.03, 0.02)])
    assert moved.crossover == Crossover(8192, 8192, 4096, 16384)


def test_only_aligned_squares_count_and_each_kind_stands_alone():
    rows = [row(4096, 1.1, aligned=False), row(4096, 1.1, n=512), row(8192, 1.1), row(8192, 0.9, operands="b_constant")]
    rows += [row(8192, 1.2, regime="steady"), row(8192, 1.0, 0.1, dtype="fp32", path="cuda", plane_dtype="fp32")]
    found = {(one.dtype, one.operands, one.regime): one.crossover for one in measured_crossovers(rows)}
    assert found == {
        ("bf16", "variable", "burst"): Crossover(8192, 8192, None, 8192),
        ("bf16", "variable", "steady"): Crossover(8192, 8192, None, 8192),
        ("bf16", "b_constant", "burst"): Crossover(None, None, 8192, 8192),
        ("fp32", "variable", "burst"): Crossover(None, None, 8192, 8192),
    }


def test_the_model_answers_for_an_h20_as_its_peers_measured():
    """FalconGEMM (arXiv 2605.06057): gains from about 2048 on, 10 to 16 % at most."""
    one = predicted_crossover([plan(winograd())], H20, "bf16")
    assert one.crossover.first == 2560 and one.crossover.lasting == 7168 and one.path == "fused"
    assert 1.10 < max(one.ratios.values()) < 1.17
    assert predicted_text(one) == "2560, always from 7168; up to 1.16"
    late = predicted_crossover([plan(winograd())], H200, "bf16")
    assert late.crossover.first > one.crossover.first


def test_of_several_plans_the_best_counts_at_each_size():
    plans = [plan(winograd(), levels) for levels in (1, 2)]
    sizes = (4096, 32768)
    alone = [predicted_crossover([each], H200, "fp32", sizes=sizes).ratios for each in plans]
    both = predicted_crossover(plans, H200, "fp32", sizes=sizes).ratios
    assert both == {size: max(ratios[size] for ratios in alone) for size in sizes}


def test_kinds_of_operands_are_those_of_the_path():
    assert modes(H20, "bf16") == ("variable", "b_constant", "planes_given")
    assert modes(H20, "fp32") == modes(H20, "bf16", "cuda") == ("variable",)
    assert modes(replace(H20, tiled=False), "bf16") == ("variable",)


def test_the_table_has_a_line_for_each_kind_with_the_model_beside_it(tmp_path):
    assert crossover_table(tmp_path) == ""
    rows = [row(4096, 0.9), row(8192, 1.1), row(8192, 1.2, operands="b_constant"), row(8192, 0.8, regime="steady")]
    save({"device": "NVIDIA H200", "created_utc": "2026-01-01T00:00:00", "rows": rows}, tmp_path)
    save({"device": "Some CPU", "created_utc": "2026-01-02T00:00:00", "rows": [row(512, 0.5)]}, tmp_path)
    _, _, variable, constant, host = crossover_table(tmp_path).splitlines()
    assert "| bf16 | both variable | 8192, not at 4096; up to 1.10 (error x4.0) | not up to 8192 | 9216, " in variable
    assert variable.endswith("| 2560, always from 7168; up to 1.16 | about 2048; up to 1.10 to 1.16 |")
    assert "| B constant | 8192, the least measured; up to 1.20 (error x4.0) | - | 7168" in constant
    assert constant.endswith("| - |") and "| not up to 512 | - | - | 2560" in host
    assert model_of("NVIDIA H200") is H200 and model_of("Some CPU") is None
