"""The learning curve of a training: what a kill leaves is mended, and it is shown as text and as a picture."""

import json
import os

import pytest

from evaluate.learning_plots import learning_curve, measured_lines
from subcubic.train_curve import append, cut_back, read_curve, text_of, to_disk


def line(number, **changed):
    """A round of a curve; the first two are without games."""
    games = 8 * max(0, number - 2)
    return {
        "round": number,
        "steps": 10 * number,
        "games": games,
        "simulations": 100 * games,
        "seconds": 2.0 * number,
        "losses": [3.0 / number, 1.0 / number, *([0.5] * 4 if games else [0.0] * 4)],
        "lowest": 8 if games else 9,
        "mean": 9.0 - number / 10 if games else None,
        "hits": 0.25 if games else 0.0,
        "pool": 1,
        **changed,
    }


@pytest.fixture
def folder(tmp_path):
    for number in range(1, 6):
        append(tmp_path, line(number))
    to_disk(tmp_path)
    return tmp_path


def test_what_was_written_is_read(folder):
    assert read_curve(folder) == [line(number) for number in range(1, 6)]
    assert read_curve(folder / "nothing") == []


def test_rounds_after_the_checkpoint_are_cut_off(folder):
    with (folder / "curve.jsonl").open("a") as file:
        file.write('{"round": 6, "seco')
    cut_back(folder, 3)
    text = (folder / "curve.jsonl").read_text()
    assert [json.loads(written)["round"] for written in text.splitlines()] == [1, 2, 3] and text.endswith("}\n")
    append(folder, line(4, seconds=9.0))
    assert [one["seconds"] for one in read_curve(folder)] == [2, 4, 6, 9]
    cut_back(folder, 0)
    assert (folder / "curve.jsonl").read_text() == ""


def test_a_torn_line_does_not_swallow_the_next(folder):
    with (folder / "curve.jsonl").open("a") as file:
        file.write('{"round": 6, "seco')
    cut_back(folder, 5)
    append(folder, line(6))
    assert read_curve(folder) == [line(number) for number in range(1, 7)]


def test_a_curve_that_needs_no_cut_is_left_alone(folder):
    before = (folder / "curve.jsonl").stat()
    cut_back(folder, 5)
    after = (folder / "curve.jsonl").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(
    "damage",
    ["nonsense", "[]", *(json.dumps(line(5, **bad)) for bad in ({"seconds": "x"}, {"losses": [1]}, {"lowest": None}))],
)
def test_damaged_lines_are_left_out(tmp_path, damage):
    append(tmp_path, line(1))
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write(damage + "\n")
    append(tmp_path, line(2))
    assert [one["round"] for one in read_curve(tmp_path)] == [1, 2]


def test_a_damaged_file_of_any_length_is_read_in_parts(folder):
    with (folder / "curve.jsonl").open("r+b") as file:
        file.seek(0, 2)
        file.truncate(file.tell() + (1 << 26))  # zeros, as a file system leaves them after a power cut
    assert len(read_curve(folder)) == 5
    cut_back(folder, 5)
    assert (folder / "curve.jsonl").stat().st_size < 4096


def test_a_pipe_in_its_place_is_refused(tmp_path):
    """Opening one would wait for ever."""
    os.mkfifo(tmp_path / "curve.jsonl")
    for act in (read_curve, lambda folder: cut_back(folder, 1), lambda folder: append(folder, line(1))):
        with pytest.raises(ValueError, match=r"curve.jsonl is no regular file; take it away"):
            act(tmp_path)


def test_rounds_that_stand_there_twice_count_once(tmp_path):
    for one in (line(1), line(2), line(2, seconds=7.0), line(3, seconds=9.0)):
        append(tmp_path, one)
    assert [one["seconds"] for one in read_curve(tmp_path)] == [2, 7, 9]


def test_the_text_names_every_curve(folder):
    text = text_of(folder, read_curve(folder), "01234567").splitlines()
    assert text[0] == f"training {folder}: 5 rounds, 50 steps, 24 games: rank 8"
    assert [" ".join(row.split()) for row in text[1:]] == [
        "lowest rank 000 now 8, 8..8",
        "mean terms 740 now 8.5, 8.5..8.7",
        "hits, % 000 now 25, 25..25",
        "policy loss 73100 now 0.6, 0.6..3",
        "value loss 73100 now 0.2, 0.2..1",
        "time 2 s to 10 s",
    ]
    assert text_of(folder, []) == f"training {folder}: no round has ended yet"


def test_the_picture_has_every_curve(folder):
    figure = learning_curve(read_curve(folder), "a title", target=7)
    ranks, shares, losses, above = figure.axes
    lowest, mean = (curve for curve in ranks.lines if not curve.get_label().startswith("target"))
    assert lowest.get_ydata().tolist() == [8, 8, 8] and mean.get_ydata().tolist() == [8.7, 8.6, 8.5]
    assert shares.lines[0].get_ydata().tolist() == [25, 25, 25]
    # A loss that was not taken in the first rounds begins later.
    assert [len(curve.get_xdata()) for curve in losses.lines] == [5, 5, 3, 3, 3, 3]
    assert [label.get_text() for label in above.get_xticklabels()] == ["8", "16", "24"]
    assert all(curve.get_marker() == "o" for curve in (lowest, mean, shares.lines[0]))  # also a single point is seen
    with pytest.raises(ValueError, match="no round has ended"):
        learning_curve([])
    # Of a training that has played no game there are the losses.
    assert len(learning_curve([line(1)]).axes[2].lines) == 2


def test_a_measured_training_is_drawn_without_losses():
    row = {"curve": [[10, 0, 1.0, 9, None, 0.0], [20, 8, 2.0, 8, 8.5, 0.5], [30, 16, 3.0, 7, 7.5, 0.25]]}
    ranks, shares, _ = learning_curve(measured_lines(row)).axes
    assert ranks.lines[0].get_ydata().tolist() == [8, 7] and shares.lines[0].get_ydata().tolist() == [50, 25]


def test_runs_show_draws_it_again(cli, folder):
    shown = cli("runs", "show", folder, "--plot", folder / "again.svg")
    assert shown.code == 0 and shown.out.startswith(f"training {folder}: 5 rounds")
    assert "picture written to" in shown.err and (folder / "again.svg").read_text().startswith("<?xml")
    printed = cli("runs", "show", folder, "--json").out
    assert [json.loads(written) for written in printed.splitlines()] == read_curve(folder)
    assert cli("runs", "show", folder, "--follow").code == 2
    refused = cli("runs", "show", "nothing", "--plot", "x.svg")
    assert refused.code == 2 and "nothing is no folder of one" in refused.err
    nowhere = cli("runs", "show", folder, "--plot", folder / "no" / "such.svg")
    assert nowhere.code == 1 and "cannot write" in nowhere.err
