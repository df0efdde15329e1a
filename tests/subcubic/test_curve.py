"""``runs show``: what the curves say, as text and as the lines that are stored."""

import json
import threading
import time

import pytest

from subcubic.curve import improvements, picture, samples
from subcubic.runs import Run
from subcubic.sparklines import sparkline

POINTS = [
    {"seconds": 1.0, "rank": None, "walk_rank": 27, "per_second": 1e7, "since_improvement_s": 1.0},
    {"seconds": 2.0, "rank": 25, "walk_rank": 25, "per_second": 2e7, "since_improvement_s": 0.5},
    {"seconds": 3.0, "rank": 25, "walk_rank": 25, "per_second": 3e7, "since_improvement_s": 1.5},
    {"seconds": 4.0, "rank": 23, "walk_rank": 23, "per_second": 2e7, "since_improvement_s": 0.25},
]


def test_a_sparkline_spans_the_time():
    assert sparkline([(0, 0), (1, 7), (2, 3)], 0, 3, 3, max, "01234567") == "073"
    assert sparkline([(t, t // 10) for t in range(80)], 0, 80, 8, min, "01234567") == "01234567"
    # A span without a value repeats the one before it; before the first there is none.
    assert sparkline([(3, 1), (9, 2)], 0, 9, 3, max, "01234567") == " 07"
    assert sparkline([(0, 1), (1, 2), (9, 2)], 0, 9, 3, max, "01234567") == "777"
    assert sparkline([(0, 4), (9, 4)], 0, 9, 3, max, "01234567") == "000"
    assert sparkline([(0, 1), (0, 2), (9, 8)], 0, 9, 3, min, "01234567") == "007"
    assert sparkline([(5, 1)], 5, 5, 1, min, "01234567") == "0"


def test_improvements_are_dated_to_when_they_happened():
    assert improvements(POINTS) == [(0.0, 27), (1.5, 25), (3.75, 23)]
    assert improvements([]) == []


def test_the_picture_names_every_curve():
    facts = {"format": "3x3x3", "ring": "Z", "target": 22, "status": "running", "rank": 23}
    lines = picture("20260101T000000-abcdef", facts, POINTS, "01234567").splitlines()
    assert lines == [
        "run 20260101T000000-abcdef: 3x3x3 over Z, target 22: running, rank 23",
        "         rank   770  now 23, 23..25",
        "rank of walks  7440  now 23, 23..27",
        "    M flips/s  0474  now 20, 10..30",
        " s since gain  4170  now 0.2, 0.2..1.5",
        "         time  1 s to 4 s",
        "        gains  27 at 0.0 s, 25 at 1.5 s, 23 at 3.8 s",
    ]
    assert "no progress was written yet" in picture("x", facts, [])


def test_a_search_shows_its_curve(cli, home):
    run = cli("search", "3x3x3", "--ring", "F2", "--target", 22, "--budget", "2.5s", "--json").json["run"]
    text = cli("runs", "show", run)
    assert text.code == 0
    assert text.out.startswith(f"run {run}: 3x3x3 over F2, target 22: budget, rank ")
    assert all(word in text.out for word in ("rank of walks", "M flips/s", "s since gain", "gains"))
    stored = (home / "runs" / run / "progress.jsonl").read_text()
    assert cli("runs", "show", run, "--json").out == stored
    assert all(isinstance(json.loads(line), dict) for line in stored.splitlines())
    # A kill cuts the last line off.
    with open(home / "runs" / run / "progress.jsonl", "a") as file:
        file.write('{"seconds": 1')
    assert cli("runs", "show", run, "--json").out == stored
    assert cli("runs", "show", run).out == text.out
    assert cli("runs", "show", run, "--follow").out.startswith(f"run {run}: 3x3x3 over F2")
    assert cli("runs", "show", "nothing").code == 1


@pytest.mark.parametrize("thinned", [False, True])
def test_following_prints_every_line_once(cli, home, monkeypatch, thinned):
    monkeypatch.setattr("subcubic.curve._REFRESH_S", 0.01)
    config = {"format": "2x2x2", "ring": "F2", "method": "flips", "target": 7, "keep": 1, "seed": 0, "catalog": "c"}
    run = Run.create(config)
    run.write_status(status="running")
    run.log(per_second=0, seconds=0)

    def work():
        for step in range(1, 20):
            if thinned and step == 10:
                monkeypatch.setattr("subcubic.runs.PROGRESS_BYTES", 1)
            run.log(per_second=step, seconds=step)
            monkeypatch.setattr("subcubic.runs.PROGRESS_BYTES", 1 << 20)
            time.sleep(0.02)
        run.write_status(status="budget")

    worker = threading.Thread(target=work)
    worker.start()
    seen = [
        json.loads(line)["seconds"] for line in cli("runs", "show", run.name, "--json", "--follow").out.splitlines()
    ]
    worker.join()
    assert seen == sorted(set(seen)) and seen[-1] == 19 and (thinned or seen == list(range(20)))
    assert len(samples(run)) == (15 if thinned else 20)
