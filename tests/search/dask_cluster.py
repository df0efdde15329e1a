"""A real Dask scheduler and workers, processes of their own on the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


class Cluster:
    """Starts what is asked for; everything ends with ``close``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers, self.started = folder, [], 0
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        self.address = self._wait(lambda: json.loads(self.file.read_text())["address"])

    def add_worker(self, sources: Path | None = None) -> None:
        """Start a worker, with the sources in a folder or those of this checkout; it joins within seconds."""
        self.started += 1
        name = ("--name", str(self.started), "--local-directory", str(self.folder))
        self.workers.append(
            self._start("dask_worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", *name, sources=sources)
        )

    def kill_worker(self) -> int:
        """SIGKILL the oldest worker; returns its exit code."""
        return kill(self.workers.pop(0))

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            kill(process)

    def _start(self, module: str, *options: str, sources: Path | None = None) -> subprocess.Popen:
        path = [str(sources)] * (sources is not None) + [entry for entry in sys.path if entry]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(self.file), *options]
                + ["--no-dashboard"],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def _wait(self, ask):
        deadline = time.monotonic() + 60
        while True:
            try:
                return ask()
            except (OSError, ValueError):
                assert time.monotonic() < deadline and self.scheduler.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)


def kill(process: subprocess.Popen) -> int:
    process.kill()
    return process.wait()
