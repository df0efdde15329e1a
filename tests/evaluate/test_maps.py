"""What a map shows: the best of several rows, intervals, missing cells, and which rows count at all."""

import pytest

from evaluate.maps import better, error_maps, newest, speed_maps, supported
from tests.evaluate.map_rows import row


def values(line):
    return [cell and cell.value for cell in line]


def test_a_cell_is_the_best_of_its_rows_and_a_missing_one_is_none():
    rows = [row(4096, 0.9), row(4096, 0.95, levels=2), row(8192, 1.1), row(8192, 1.05, path="cuda")]
    rows += [row(4096, 1.02, operands="b_constant")]
    (squares,) = speed_maps(rows)
    assert (squares.columns, squares.x) == ((4096, 8192), "M = N = K")
    assert squares.lines == ("bf16, both variable", "bf16, B constant")
    assert [values(line) for line in squares.cells] == [[0.95, 1.1], [1.02, None]]
    assert [cell.verdict for cell in squares.cells[0]] == ["slower", "faster"]
    assert squares.cells[0][0].row["levels"] == 2


def test_a_sure_gain_is_shown_before_a_greater_ratio_whose_interval_touches_1():
    sure, unsure = row(4096, 1.04), row(4096, 1.06, 0.08)
    assert better(unsure, sure) is sure and better(sure, unsure) is sure and better(unsure, None) is unsure
    assert speed_maps([unsure])[0].cells[0][0].verdict == "no difference"


@pytest.mark.parametrize(
    "others",
    [
        {"rank": 8},  # the standard algorithm
        {"path": "cublas"},
        {"pairs": 6},
        {"correct": False},
        {"ratio_low": None, "ratio_high": None},
        {"kind": "rate"},
    ],
)
def test_rows_that_support_nothing_are_left_out(others):
    assert supported(row(4096, 1.5))
    assert not supported(row(4096, 1.5, **others)) and speed_maps([row(4096, 1.5, **others)]) == []


def test_layers_are_lines_of_a_map_of_their_own_by_inner_size():
    made = [row(m, 1.0 + m / 1e5, n=n, k=k) for m in (512, 3072) for n, k in ((3072, 3072), (512, 4096), (9216, 3072))]
    (layers,) = speed_maps(made)
    assert (layers.title, layers.x, layers.y, layers.columns) == ("bf16, both variable", "M", "N x K", (512, 3072))
    # 3072^3 is a square, and yet stays with its layer.
    assert layers.lines == ("3072 x 3072", "9216 x 3072", "512 x 4096")
    assert all(all(line) for line in layers.cells)


def test_regimes_and_types_of_planes_are_told_apart_where_there_are_several():
    rows = [row(8192, 1.1), row(8192, 1.05, regime="steady"), row(8192, 1.02, plane_dtype="fp16")]
    (squares,) = speed_maps(rows)
    assert squares.lines == (
        "bf16, both variable, burst",
        "bf16, both variable, steady",
        "bf16 with fp16 planes, both variable, burst",
    )


def test_errors_are_the_largest_by_scheme_levels_and_what_is_stored():
    rows = [row(4096, 0.9, error=3.7), row(4096, 1.1, operands="b_constant", error=3.9)]
    rows += [row(8192, 1.1, path="cuda", product_dtype="bf16", levels=2, error=12.0)]
    rows += [row(8192, 1.1, plane_dtype="fp16", error=1.0, pairs=0), row(8192, 1.1, error_fro=None)]
    (squares,) = error_maps(rows)
    assert squares.lines == (
        "bf16, 2x2x2:7, 1 level, bf16 planes",
        "bf16, 2x2x2:7, 1 level, fp16 planes",
        "bf16, 2x2x2:7, 2 levels, bf16 planes, bf16 products",
    )
    found = [[cell and round(cell.value, 6) for cell in line] for line in squares.cells]
    assert found == [[3.9, None], [None, 1.0], [None, 12.0]]


def test_the_newest_of_equal_measurements_counts():
    old = {"device": "A", "rows": [row(4096, 1.3), row(8192, 1.1), {"kind": "rate"}]}
    new = {"device": "A", "rows": [row(4096, 1.2), row(4096, 1.4, options={"pace": 0})]}
    new["rows"] += [row(4096, 1.5, distribution="outliers"), row(4096, 1.25, options={"overlap": 2})]
    other = {"device": "B", "rows": [row(4096, 9.0)]}
    found = newest([old, new, other], "A")
    assert sorted(each["ratio"] for each in found) == [1.1, 1.2, 1.25]
    assert {each["device"] for each in newest([old, new, other])} == {"A", "B"}
