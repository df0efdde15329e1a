"""The player's benchmark: several games and batches in one call, a training with its comparison, and their tables."""

import json

import pytest

pytest.importorskip("mctx", reason="no mctx; install the extra player")

from evaluate.report import save
from search.player import measuring
from subcubic.player_benchmark import main
from subcubic.player_table import ablation_table, curve_table, player_table, rates_table

pytestmark = pytest.mark.usefixtures("compile_quickly")
# As in the tests of ``train``, so that what one of them compiles serves the others.
TINY = "--simulations 4 --candidates 4 --channels 4 --batch 8 --batch-games 4 --scale small".split()


def cells(table):
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.rare
def test_speed_of_several_games_and_batches_is_measured_at_once(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_REPEATS", 1)
    words = ["1x1x1:F2", "1x1x2:F2", "--no-training", "--rates", "2", "1000000000000", "--out", str(tmp_path)]
    assert main([*words, *TINY]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = document["rows"]
    games = [(row["format"], row["games"]) for row in rows]
    assert games == [(format, many) for format in ("1x1x1", "1x1x2") for many in (2, 10**12)]
    assert all(row["per_second"] > 0 and row["simulations"] == 4 for row in rows[::2])
    assert all(row["per_second"] is None and "free; lower the batch" in row["refused"] for row in rows[1::2])
    table = cells(rates_table(tmp_path))
    assert [line[0] for line in table] == ["1x1x1 over F2", "1x1x1 over F2", "1x1x2 over F2", "1x1x2 over F2"]
    assert [line[2] for line in table[:2]] == ["2", "1,000,000,000,000"] and table[1][-1] == "no memory"
    assert player_table(tmp_path) == "" == ablation_table(tmp_path)


def test_a_training_and_its_comparison_fill_the_tables(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_REPEATS", 1)
    words = ["1x1x2:F2", "--budget", "0.1", "--warm", "0", "--games", "4", "--rates", "2", "--out", str(tmp_path)]
    assert main([*words, *TINY]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["what"] for row in rows] == ["training", "rate", *["hits"] * 8]
    assert rows[0]["difference_between_bases"] < 1e-3 and len(rows[0]["curve"]) >= 1
    assert {(row["network"], row["value"]) for row in rows[2:]} == {
        (network, value) for network in ("trained", "untrained") for value in ("network", "bound")
    }
    # Speed alone, measured later, replaces no training.
    later = {"created_utc": "2999-01-01T00:00:00+00:00", "rows": [rows[1] | {"per_second": 12345.0}]}
    save({**json.loads(next(tmp_path.glob("*.json")).read_text()), **later}, tmp_path)
    assert [line[0] for line in cells(player_table(tmp_path))] == ["1x1x2 over F2"]
    assert len(cells(ablation_table(tmp_path))) == 8
    assert [line[-1] for line in cells(rates_table(tmp_path))] == ["12,345"]
    # Nor does one of another seed, which has a process of its own.
    other = {"created_utc": "2999-01-02T00:00:00+00:00", "rows": [rows[0] | {"seed": 1, "reached": False}]}
    save({**json.loads(next(tmp_path.glob("*.json")).read_text()), **other}, tmp_path)
    ((_, _, _, seeds, *_, speed),) = cells(player_table(tmp_path))
    assert seeds == f"{int(rows[0]['reached'])} of 2" and speed == "12,345"
    assert len(cells(ablation_table(tmp_path))) == 8


def test_the_curve_is_that_of_the_largest_game_and_short(tmp_path):
    assert curve_table(tmp_path) == ""
    points = [[100, 0, 1.0, 8, None, 0.0], *([100 * i, 4 * i, 1.0 * i, 7, 7.5, 0.25] for i in range(2, 42))]
    row = {"what": "training", "ring": "F2", "seed": 0, "reached": True}
    rows = [{**row, "format": "2x2x2", "curve": points}, {**row, "format": "2x2x1", "curve": points[:2]}]
    head = {"schema_version": 1, "kind": "player", "created_utc": "2999-01-01T00:00:00+00:00", "device": "a GPU"}
    save({**head, "rows": rows}, tmp_path)
    table = cells(curve_table(tmp_path))
    assert len(table) == 14 and table[-1] == ["41 s", "164", "4,100", "7", "7.50", "25%"]
