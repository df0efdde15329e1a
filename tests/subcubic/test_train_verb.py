"""``subcubic train`` from the command line: a small player learns, is killed and goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mctx", reason="no mctx; install the extra player")

from search.player.trained import load
from subcubic.train_verb import _told

# Files that the library of checkpoints leaves open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("compile_quickly"),
]
ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--games", 4, "--simulations", 4, "--candidates", 4, "--channels", 4, "--batch", 8, "--warm", 0)


def curve_of(folder):
    return [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]


def test_it_trains_keeps_a_curve_and_goes_on(cli, tmp_path):
    run = tmp_path / "run"
    words = ("train", "1x1x2", *SMALL, "--target", 1, "--json", "--out", run, "--rounds")
    done = cli(*words, 1)
    assert done.code == 5, done.err
    assert done.json["rounds"] == 1 and done.json["games"] == 4 and done.json["rank"] is None
    assert [line["round"] for line in curve_of(run)] == [1] and len(curve_of(run)[0]["losses"]) == 6
    assert (run / "curve.svg").read_text().startswith("<?xml")
    assert "train 1x1x2 (A 1x1 . B 1x2) over F2: target rank 1, 4 games of 4 simulations a move; about" in done.err
    first = load(run)
    assert first.facts["trained_games"] == 4 and first.search.simulations == 4 and first.games == 4
    shutil.copytree(run / "checkpoints", tmp_path / "first")
    more = cli(*words, 3)
    assert more.json["rounds"] == 3 and "going on after round 1, 4 games" in more.err
    before = curve_of(run)
    assert [line["round"] for line in before] == [1, 2, 3] and load(run).facts["trained_games"] == 12
    # As after a kill between a line of the curve and the next checkpoint: what is played again stands there once.
    shutil.rmtree(run / "checkpoints")
    (tmp_path / "first").rename(run / "checkpoints")
    with (run / "curve.jsonl").open("a") as file:
        file.write('{"round": 4, "sec')
    assert cli(*words, 3).code == 5
    again = curve_of(run)
    assert [line["round"] for line in again] == [1, 2, 3]
    assert [line["losses"] for line in again] == [line["losses"] for line in before]
    seconds = [line["seconds"] for line in again]
    assert seconds == sorted(seconds)
    other = cli(*words, 4, "--seed", 1)
    assert other.code == 1 and "holds the training of another course; choose an empty folder" in other.err
    # What was learned is where another training begins.
    further = cli("train", "1x1x2", *SMALL, "--target", 1, "--rounds", 1, "--weights", run, "--out", tmp_path / "b")
    assert further.code == 5 and curve_of(tmp_path / "b")[0]["losses"] != before[0]["losses"]
    small = cli("train", "1x1x2", *SMALL[:-6], "--channels", 2, "--rounds", 1, "--weights", run)
    assert small.code == 1 and "do not fit 1x1x2 over F2 with 2 channels" in small.err


def test_the_last_line_says_what_was_not_reached(cli):
    done = cli("train", "1x1x2", *SMALL[:-1], 100, "--rounds", 1)
    assert done.code == 5 and "no game was played after 1 rounds" in done.out and "smaller --warm" in done.out
    assert (
        "no scheme below the standard algorithm after 1 rounds, 4 games"
        in cli("train", "1x1x2", *SMALL, "--target", 1, "--rounds", 1).out
    )
    result = {"rank": 7, "id": "0" * 64, "rounds": 3, "games": 32, "seconds": 9.0, "hits": 0.25}
    assert _told(result, 0.5).endswith(
        "25% of the last games from the opening reach it, --hits asked for 50%; stored " + "0" * 12
    )
    assert "--hits" not in _told(result, 0.25)


@pytest.mark.rare
def test_where_the_last_checkpoint_is_damaged_the_one_before_counts(cli, tmp_path):
    run = tmp_path / "run"
    words = ("train", "1x1x2", *SMALL, "--target", 1, "--out", run, "--save", 0, "--rounds")
    assert cli(*words, 2).code == 5
    losses = [line["losses"] for line in curve_of(run)]
    rounds = run / "checkpoints" / "rounds"
    for part in (rounds / "2" / "default").rglob("*"):
        if part.is_file():
            part.write_bytes(b"\0" * part.stat().st_size)
    again = cli(*words, 2)
    assert again.code == 5, again.err
    assert "the checkpoint of round 2 cannot be read" in again.err and "going on after round 1," in again.err
    assert [line["losses"] for line in curve_of(run)] == losses
    assert len(list((run / "checkpoints").glob("damaged-2-*"))) == 1
    for part in rounds.rglob("default"):
        shutil.rmtree(part)
    none = cli(*words, 2)
    assert none.code == 1 and "cannot be read" in none.err and "start the training anew" in none.err


def test_two_trainings_in_one_folder_are_refused(cli, tmp_path):
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / "lock"):
        done = cli("train", "1x1x2", *SMALL, "--rounds", 1, "--out", tmp_path / "run")
    assert done.code == 1 and "another process trains in" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["2x2x2", "--ring", "F3"], "--ring F3 is not played; choose F2 or Z"),
        (["4x4x4"], "format 4x4x4 over F2 has factors of 65536 vectors and the player affords 4096"),
        (["2x2x2", "--games", "0"], "--games 0 must be at least 1"),
        (["2x2x2", "--candidates", "65"], "candidates is 65; a node holds at most 64"),
        (["2x2x2", "--hits", "2"], "--hits 2.0 must lie between 0 and 1"),
        (["2x2x2", "--scale", "huge"], "--scale"),
        (["2x2x2", "--budget", "soon"], "soon"),
        (["2x2x2", "--budget", "soon", "--rounds", "1"], "soon"),
        (["2x2x2", "--save", "nan"], "--save nan is no time between checkpoints"),
        (["2x2x2", "--save", "-1"], "--save -1.0 is no time between checkpoints"),
        (["2x2x2", "--target", "9"], "--target 9 must be at most 8"),
        (["2x2x2", "--target", "0"], "--target 0 must be at least 1"),
        (["2x2x2", "--repair", "-1"], "--repair -1 must be at least 0"),
        (["2x2x2", "--repair", str(1 << 62)], "--repair 4611686018427387904 must be at most"),
        (["2x2x2", "--games", "100000000"], "free; lower --games, --simulations, --candidates, --channels or --batch"),
        (["2x2x2", "--batch", "100000000"], "GB of memory: trees 0.187 MB, network in play 1.74 MB, in training"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, words, message):
    done = cli("train", *words)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("name", ["curve.jsonl", "lock", "weights.npz"])
def test_a_pipe_in_the_folder_is_refused(cli, tmp_path, name):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / name)
    done = cli("train", "1x1x2", *SMALL, "--rounds", 1, "--out", tmp_path / "run")
    assert done.code == 1 and f"{name} is no regular file; take it away" in done.err


def test_after_kill_9_it_goes_on(home, tmp_path):
    out = tmp_path / "run"
    limits = ["--target", "1", "--out", str(out), "--save", "0"]
    words = ["train", "1x1x2", *map(str, SMALL), *limits, "--rounds"]
    command = [sys.executable, "-m", "subcubic", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SUBCUBIC_CATALOG": str(home / "catalog")}
    running = subprocess.Popen([*command, "100000"], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    curve, deadline = out / "curve.jsonl", time.monotonic() + 200
    while not (curve.exists() and len(curve.read_text().splitlines()) > 1) and time.monotonic() < deadline:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.2)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    (out / "checkpoints" / "rounds" / "2000.orbax-checkpoint-tmp" / "default").mkdir(parents=True)
    with curve.open("a") as file:
        file.write(json.dumps({**curve_of(out)[-1], "round": 1000}) + '\n{"round"')
    again = subprocess.run([*command, "1"], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "going on after round" in again.stderr, again.stderr
    assert again.returncode == 5
    (number,) = (int(word) for word in re.findall(r"going on after round (\d+)", again.stderr))
    assert [line["round"] for line in curve_of(out)] == list(range(1, number + 1))
    assert (out / "curve.svg").exists()
    assert not list(out.rglob("*tmp*")) and "WARNING" not in again.stderr
