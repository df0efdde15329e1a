"""A search that stores is killed at random moments: nothing stored is lost, the catalog is clean, resume works."""

import json
import os
import random
import signal
import subprocess
import sys
import time

from catalog.store import Catalog

KILLS = int(os.environ.get("SUBCUBIC_KILLS", "6"))  # `make fuzz` sets 60
SEARCH = ("search", "2x3x3", "--ring", "F2", "--keep", "100000", "--budget", "120s", "--workers", "1")


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "subcubic", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def reported(folder):
    """Ids that the run said were stored; a line cut by the kill says nothing."""
    found = []
    for line in (folder / "progress.jsonl").read_text().splitlines() if (folder / "progress.jsonl").exists() else []:
        try:
            found.append(json.loads(line).get("stored"))
        except ValueError:
            continue
    return [identity for identity in found if identity]


def test_kill_9_loses_nothing_and_the_run_goes_on(home):
    rng = random.Random(7)
    stored, run = [], None
    for turn in range(KILLS):
        process = start(
            *(SEARCH if run is None else ("runs", "resume", run.name)), *("--seed", "3")[: 2 * (run is None)]
        )
        deadline = time.monotonic() + 60
        progress = None
        while progress is None or not progress.exists():  # until the search has begun to store
            assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
            folders = sorted((home / "runs").glob("2*"))
            progress = folders[0] / "progress.jsonl" if folders else None
            time.sleep(0.01)
        if turn:
            time.sleep(1.0)
        time.sleep(rng.uniform(0.0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        run = progress.parent
        stored = reported(run)
    assert stored
    report = Catalog().fsck()
    assert report.bad == ()
    assert {row.id for row in Catalog().rows()} >= set(stored)
    out, _ = start("runs", "list", "--json").communicate()
    assert json.loads(out)["runs"][0]["status"] == "killed"


def test_ctrl_c_once_saves_and_resume_goes_on(home):
    process = start("search", "3x3x3", "--ring", "F2", "--target", "20", "--budget", "120s", "--seed", "3", "--json")
    status = None
    while status is None or "rank" not in status.read_text():
        status = next((home / "runs").glob("2*/status.json"), None)
        time.sleep(0.01)
    time.sleep(1.5)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - begun < 5
    first = json.loads(out)
    assert first["status"] == "interrupted" and first["rank"] <= 26
    assert Catalog().get(first["id"]).scheme.rank == first["rank"]
    again = start("runs", "resume", first["run"], "--budget", f"{first['seconds'] + 1:.1f}s", "--json")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 5, err
    second = json.loads(out)
    assert second["steps"] > first["steps"] and second["rank"] <= first["rank"]
