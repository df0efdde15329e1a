import os
import subprocess
import sys

import numpy as np
import pytest

from subcubic.runs import PROGRESS_BYTES, Run, all_runs


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_RUNS", str(tmp_path / "runs"))


def test_a_run_gives_back_its_configuration_and_checkpoint():
    config = {"format": "2x3x4", "ring": "Z", "method": "flips", "target": 20, "keep": 1, "catalog": "/c \U0001f600"}
    config |= {"budget_s": 1.5, "seed": 3, "store": True, "start": ["a", "b"], "steps": None}
    run = Run.create(config)
    assert Run.find(run.name[:-2]).config() == {key: value for key, value in config.items() if value is not None}
    assert run.checkpoint() is None
    run.write_checkpoint({"masks": np.arange(5, dtype=np.uint64), "steps": 7})
    state = run.checkpoint()
    assert state["masks"].tolist() == [0, 1, 2, 3, 4] and int(state["steps"]) == 7
    assert not [path.name for path in run.path.iterdir() if path.name.startswith(".")]


def test_a_dead_process_is_reported_as_killed():
    run = Run.create({"format": "2x2x2"})
    run.write_status(status="running", rank=8)
    assert run.status()["status"] == "running"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    run.write_status(status="running", rank=8, pid=dead.pid)
    assert run.status()["status"] == "killed"
    run.write_status(status="found", pid=dead.pid)
    assert run.status()["status"] == "found"


def test_a_damaged_checkpoint_is_one_sentence():
    run = Run.create({"format": "2x2x2"})
    (run.path / "checkpoint.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match="damaged.*delete it to restart"):
        run.checkpoint()


def test_the_progress_file_is_bounded():
    run = Run.create({"format": "2x2x2"})
    path = run.path / "progress.jsonl"
    path.write_text('{"old": 1}\n' * (PROGRESS_BYTES // 11 + 1))
    run.log(rank=7)
    assert path.stat().st_size < 0.6 * PROGRESS_BYTES
    assert path.read_text().endswith('{"rank": 7}\n')


def test_unknown_and_ambiguous_names_are_refused():
    Run.create({"format": "2x2x2"})
    Run.create({"format": "2x2x2"})
    assert len(all_runs()) == 2
    with pytest.raises(LookupError, match="2 runs have"):
        Run.find("20")
    with pytest.raises(LookupError, match="no run"):
        Run.find("nothing")


def test_a_failed_replace_keeps_the_old_checkpoint(monkeypatch):
    run = Run.create({"format": "2x2x2"})
    run.write_checkpoint({"steps": 1})

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="cannot write the run folder .*no space left on device; make room"):
        run.write_checkpoint({"steps": 2})
    assert int(run.checkpoint()["steps"]) == 1


def test_odd_status_files_are_shown_as_damaged():
    run = Run.create({"format": "2x2x2"})
    for content in ("[]", "null", "{}", '{"status": "running", "pid": "a"}', "{"):
        (run.path / "status.json").write_text(content)
        assert run.status()["status"] == "damaged"
        assert run.summary()["status"] == "damaged"


def test_two_processes_cannot_work_on_one_run():
    run = Run.create({"format": "2x2x2"})
    with run.only_here(), pytest.raises(ValueError, match="at work in another process"), run.only_here():
        pass


@pytest.mark.parametrize("name", ["0/0/value", "0/0/links", "rounds", "0/owed"])
def test_a_checkpoint_that_was_changed_is_refused(cli, home, name):
    run = cli("search", "3x3x3", "--ring", "F2", "--target", 20, "--steps", 20_000, "--json").json["run"]
    path = home / "runs" / run / "checkpoint.npz"
    with np.load(path) as arrays:
        state = {key: arrays[key] for key in arrays.files}
    state[name] = np.zeros_like(state[name]) - 1 if name == "rounds" else np.zeros_like(state[name]) + 7
    np.savez(path, **state)
    refused = cli("runs", "resume", run, "--steps", 90_000)
    assert refused.code == 1 and "is damaged (its SHA-256 differs" in refused.err and "delete it" in refused.err


@pytest.mark.parametrize(
    "content",
    [
        *(f'{{"status": "running", "pid": {pid}}}' for pid in (10**30, -1, 0, "true", 1 << 31, "1.5")),
        *("[" * 100_000, "[]", "\x00", '{"status": "found", "pid": 1, "rank": [7]}'),
        '{"status": "found", "pid": 1, "seconds": {}}',
    ],
)
def test_a_damaged_status_is_named_and_hides_no_other_run(cli, home, content):
    config = {"format": "2x2x2", "ring": "F2", "method": "flips", "target": 7, "keep": 1, "seed": 0}
    config |= {"catalog": str(home / "catalog"), "steps": 1000}
    bad, good = Run.create(config), Run.create({**config, "format": "2x2x3"})
    good.write_status(status="budget")
    (bad.path / "status.json").write_text(content)
    listed = cli("runs", "list", "--json")
    assert listed.code == 0
    assert {row["run"]: row["status"] for row in listed.json["runs"]} == {bad.name: "damaged", good.name: "budget"}
    assert f"{bad.path / 'status.json'} is damaged" in listed.err and "`runs resume` writes it anew" in listed.err
    assert "damaged" in cli("runs", "show", bad.name).out
    stopped = cli("runs", "stop", bad.name)
    assert stopped.code == 1 and "its status is damaged" in stopped.err
    assert cli("runs", "stop", good.name).code == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("format", "5"), ("target", '"x"'), ("keep", "[1]"), ("seed", "nan"), ("start", "[5]"), ("x", "[")],
)
def test_a_damaged_configuration_is_named(cli, home, key, value):
    run = Run.create(
        {"format": "2x2x2", "ring": "F2", "method": "flips", "target": 7, "keep": 1, "seed": 0, "catalog": "c"}
    )
    path = run.path / "config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key} =")]
    path.write_text("\n".join([*lines, f"{key} = {value * (5000 if value == '[' else 1)}"]))
    refused = cli("runs", "resume", run.name)
    assert refused.code == 1 and f"{path} is damaged" in refused.err and "start the search anew" in refused.err
    assert f"{path} is damaged" in cli("runs", "list").err


def test_paths_come_back_whatever_their_characters(cli, home):
    config = {"format": "2x2x2", "ring": "F2", "method": "flips", "target": 7, "keep": 1, "seed": 0}
    odd = {**config, "catalog": '/a\x7f\x01\n"\\\u2028\x85 \u00fc'}
    assert Run.create(odd).config() == odd
    refused = cli("search", "2x2x2", "--ring", "F2", "--steps", 10, "--catalog", f"{home}/sur\udcff")
    assert refused.code == 2 and "is not UTF-8" in refused.err and "\\udcff" in refused.err
    assert len(all_runs()) == 1


def test_damaged_progress_is_left_out(cli):
    run = Run.create({"format": "2x2x2"})
    good = '{"seconds": 1.0, "rank": 8, "walk_rank": 8, "per_second": 5.0, "since_improvement_s": 0.5}\n'
    odd = '{"seconds": "x", "per_second": 1.0}\n{"seconds": 2, "rank": [], "per_second": 3}\n3\n' + "[" * 100_000
    (run.path / "progress.jsonl").write_bytes(good.encode() + b"\xff\xfe\n" + odd.encode() + b"\n")
    shown = cli("runs", "show", run.name)
    assert shown.code == 0 and "8 at 0.5 s" in shown.out
