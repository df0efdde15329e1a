"""The README's table of fused kernels."""

from evaluate.fused_table import fused_table
from evaluate.report import results_table, save

FACTS = {"format": "2x2x2", "rank": 7, "levels": 1, "path": "fused", "dtype": "bf16", "plane_dtype": "bf16"}
FACTS |= {"layout": "nn", "operands": "variable", "regime": "burst", "distribution": "normal", "correct": True}
FACTS |= {"product_dtype": "fp32"}
FACTS |= {"M": 8192, "N": 8192, "K": 8192, "seconds": 1e-3, "pairs": 15, "error_fro": 2e-3, "baseline_error_fro": 1e-3}


def row(ratio, margin=0.005, **changes):
    return {**FACTS, "ratio": ratio, "ratio_low": ratio - margin, "ratio_high": ratio + margin, **changes}


def written(folder, rows, hour=20):
    save({"device": "NVIDIA H200", "created_utc": f"2026-11-29T{hour}:00:00+00:00", "rows": rows}, folder)
    return fused_table(folder).splitlines()


def test_operands_are_columns_and_losses_stay(tmp_path):
    rows = [
        row(0.9, operands="variable"),
        row(1.11, operands="planes_given", error_fro=1.5e-3),
        row(1.002, operands="b_constant"),
        row(1.2, operands="planes_given", plane_dtype="fp16", error_fro=1.02e-3),
        row(1.01, rank=1, format="1x1x1", regime="steady"),
    ]
    head, _, *lines = written(tmp_path, rows)
    assert head.split(" | ")[6:9] == ["planes given", "B constant", "both variable"]
    assert [line.split(" | ")[1:4] for line in lines] == [
        ["1x1x1:1", "1", "bf16"],
        ["2x2x2:7", "1", "bf16"],
        ["2x2x2:7", "1", "bf16 (fp16 planes)"],
    ]
    given, constant, variable, error = lines[1].strip("| ").split(" | ")[6:]
    assert given.startswith("1.110 [") and constant.endswith(" =") and variable.startswith("*0.900 [")
    assert error == "x2.00" and lines[2].strip("| ").endswith("- | - | x1.02")


def test_what_supports_nothing_is_left_out(tmp_path):
    rows = [row(2.0, pairs=3), row(2.0, correct=False), row(2.0, options={"sync": 0}), row(2.0, path="cublas")]
    assert written(tmp_path, rows) == []
    assert fused_table(tmp_path / "nothing") == "" and results_table(tmp_path) == ""


def test_the_newest_row_counts(tmp_path):
    written(tmp_path, [row(1.08)], 21)
    lines = written(tmp_path, [row(1.05)])
    assert len(lines) == 3 and "1.080 [" in lines[2]


def test_planes_made_in_the_same_launch_are_a_line_of_their_own(tmp_path):
    rows = [row(1.02), row(1.05, options={"overlap": 1}), row(1.2, options={"sync": 0})]
    lines = written(tmp_path, rows)[2:]
    assert [" overlapped" in line for line in lines] == [False, True]
    assert not any("1.200" in line for line in lines)
