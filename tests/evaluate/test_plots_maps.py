"""Pictures of maps: their words, what marks a loss, and that the same rows give the same bytes."""

import re

import numpy as np
import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate.boundary import boundaries
from evaluate.device_model import DEVICES
from evaluate.model import predict
from tests.evaluate.map_rows import row

pytest.importorskip("matplotlib", reason="Matplotlib is not installed; install the extra plot")
from evaluate.map_plots import error_map, predicted_map, speed_map  # noqa: E402
from evaluate.plots import error_against_speed, save_svg  # noqa: E402

ROWS = [row(4096, 0.9), row(8192, 1.1), row(8192, 1.01, 0.02, operands="b_constant"), row(512, 0.8, n=640, k=768)]
PLANS, H200 = [plan(winograd())], DEVICES["h200"]


def texts(figure, path):
    return re.findall(r">([^<>]+)</text>", save_svg(figure, path).read_text())


def test_a_speed_map_labels_its_cells_axes_and_losses(tmp_path):
    path = tmp_path / "speed.svg"
    found = texts(speed_map(ROWS), path)
    assert {"best ratio to the vendor's GEMM", "M = N = K", "bf16, B constant", "640 x 768"} <= set(found)
    assert [text for text in found if re.match(r"\d\.\d\d( =)?$", text) and text in ("0.90", "1.10", "1.01 =", "0.80")]
    assert "1.01 =" in found and re.search(r"font-weight: 700|bold[^>]*>1.10", path.read_text())
    assert "<pattern" in path.read_text()
    gains = save_svg(speed_map([row(8192, 1.1)]), path).read_text()
    assert "<pattern" not in gains


def test_an_error_map_labels_factors_and_hatches_nothing(tmp_path):
    found = texts(error_map(ROWS), tmp_path / "error.svg")
    assert {"x4.0", "bf16, 2x2x2:7, 1 level, bf16 planes", "error over that of the vendor's GEMM"} <= set(found)
    assert "<pattern" not in (tmp_path / "error.svg").read_text()


def test_error_against_speed_has_one_mark_a_row_by_types(tmp_path):
    rows = [*ROWS, row(8192, 1.05, plane_dtype="fp16", error=1.0)]
    figure = error_against_speed(rows)
    marks = figure.axes[0].containers
    assert len(marks) == len(rows)
    filled = {mark.lines[0].get_xdata()[0]: mark.lines[0].get_markerfacecolor() != "white" for mark in marks}
    assert filled == {0.9: False, 1.1: True, 1.01: False, 0.8: False, 1.05: True}
    found = texts(figure, tmp_path / "both.svg")
    assert {"bf16", "bf16 with fp16 planes", "no gain", "baseline time / time"} <= set(found)


def test_a_boundary_has_the_model_and_the_best_row_of_each_point():
    rows = [row(8192, 1.1), row(8192, 1.2, levels=2), row(8192, 1.3, dtype="fp16"), row(8200, 1.4, k=8192)]
    rows += [row(4096, 1.5), row(16384, 0.9, k=8192, regime="steady"), row(8192, 1.6, regime="steady")]
    (found,) = boundaries(PLANS, H200, (8192,), rows, sizes=(4096, 8192, 16384))
    assert found.ratios.shape == (3, 3) and found.ratios[1, 1] == predict(PLANS[0], (8192,) * 3, H200).ratio
    # Rows of the other regime stand where there are none of this one; M = 8200 is no whole number of tiles.
    assert [(m, n, cell.value) for m, n, cell in found.points] == [(8192, 8192, 1.2), (16384, 16384, 0.9)]


def test_lines_of_a_boundary_are_sizes_of_n():
    (found,) = boundaries(PLANS, H200, (8192,), sizes=(4096, 16384), operands="b_constant")
    assert found.ratios[1, 0] == predict(PLANS[0], (4096, 16384, 8192), H200, operands="b_constant").ratio
    assert found.ratios[1, 0] != found.ratios[0, 1]


def test_a_predicted_map_draws_the_line_of_no_gain_and_the_points(tmp_path):
    figure = predicted_map(PLANS, H200, (8192,), ROWS, sizes=(4096, 8192, 16384, 32768))
    (axes,) = [each for each in figure.axes if each.get_title()]
    levels = [list(each.levels) for each in axes.collections if hasattr(each, "levels")]
    assert [1] in levels
    found = texts(figure, tmp_path / "map.svg")
    assert {"K = 8192", "cost model of h200: bf16, both variable", "measured gain", "M", "N"} <= set(found)
    assert "measured loss" not in found


@pytest.mark.parametrize("draw", [speed_map, error_map, error_against_speed])
def test_the_same_rows_give_the_same_bytes(draw, tmp_path):
    first, second = (save_svg(draw(ROWS), tmp_path / name).read_bytes() for name in ("one.svg", "two.svg"))
    assert first == second and b"<dc:date>" not in first and len(first) < 40_000


def test_a_predicted_map_gives_the_same_bytes(tmp_path):
    made = [predicted_map(PLANS, H200, (8192,), ROWS, sizes=(4096, 8192, 16384)) for _ in range(2)]
    first, second = (save_svg(figure, tmp_path / str(number)).read_bytes() for number, figure in enumerate(made))
    assert first == second


@pytest.mark.parametrize("count", [24])
def test_a_map_of_a_thousand_cells_stays_small(count, tmp_path):
    rng = np.random.default_rng(0)
    rows = [row(512 * m, rng.uniform(0.8, 1.2), n=256 * n, k=4096) for m in range(1, 41) for n in range(1, count + 1)]
    assert save_svg(speed_map(rows), tmp_path / "grid.svg").stat().st_size < 300_000


@pytest.mark.parametrize("draw", [speed_map, error_map, error_against_speed])
def test_nothing_to_draw_is_one_sentence(draw):
    with pytest.raises(ValueError, match="^none of the rows"):
        draw([row(4096, 1.5, rank=8)])


def test_a_predicted_map_without_a_depth_is_refused():
    with pytest.raises(ValueError, match="needs at least one K"):
        predicted_map(PLANS, H200, ())
