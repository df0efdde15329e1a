"""Run folders: what a search leaves on disk so that it can be listed, stopped and resumed after a kill.

A run folder holds ``config.toml`` (the resolved options), ``status.json`` (replaced atomically), ``checkpoint.npz``
(replaced atomically) and ``progress.jsonl``; a file named ``stop`` asks the search to end at its next block. Its size
is bounded: only the progress file grows, and every other line between its first and its last goes when it passes
PROGRESS_BYTES, so that it still spans the whole search.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from catalog.files import reason, write_durably

PROGRESS_BYTES = 4 << 20
# Name under which a checkpoint holds the hash of the rest.
_SEAL = "sha256"
_NEEDED = ("format", "ring", "method", "target", "keep", "seed", "catalog")


def _sealed(state: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of names, types, shapes and values."""
    hashed = hashlib.sha256()
    for name in sorted(state):
        array = np.ascontiguousarray(state[name])
        hashed.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return hashed.hexdigest()


def runs_folder() -> Path:
    """$SUBCUBIC_RUNS, else the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("SUBCUBIC_RUNS") or Path(state) / "subcubic" / "runs")


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name: the UTC second it began and a few random digits."""
        return self.path.name

    @classmethod
    def create(cls, config: Mapping[str, Any]) -> Run:
        """Make a new run folder with its resolved configuration."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        run = cls(runs_folder() / f"{stamp}-{uuid.uuid4().hex[:6]}")
        with run._writing():
            run.path.mkdir(parents=True)
        run.write_config(config)
        return run

    @classmethod
    def find(cls, name: str) -> Run:
        """The run with this name or unambiguous prefix.

        Raises:
            LookupError: no run, or more than one, has it.
        """
        found = [run for run in all_runs() if run.name.startswith(name)]
        if len(found) != 1:
            how_many = f"{len(found)} runs have names that begin" if found else "no run has a name that begins"
            raise LookupError(f"{how_many} with {name!r}; `subcubic runs list` shows them all")
        return found[0]

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Keep the resolved options, with which the run can go on."""
        self._replace("config.toml", _toml(config).encode())

    def config(self) -> dict[str, Any]:
        """The options that the run was started with.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.path / "config.toml"
        try:
            config = tomllib.loads(path.read_text())
            missing = [key for key in _NEEDED if key not in config]
            if missing:
                raise ValueError(f"it lacks {', '.join(missing)}")
            return config
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}); start the search anew") from None

    def summary(self) -> dict[str, Any]:
        """Options and status for a listing; a run whose options are damaged is shown as such."""
        try:
            return {**self.config(), **self.status()}
        except ValueError:
            return {"status": "damaged"}

    def status(self) -> dict[str, Any]:
        """The last status written; a run whose process is gone while ``running`` is reported as ``killed``."""
        try:
            status = json.loads((self.path / "status.json").read_text())
            if not isinstance(status["pid"], int) or not isinstance(status["status"], str):
                raise ValueError
        except FileNotFoundError:
            status = {"status": "running", "pid": None}
        except (OSError, ValueError, TypeError, KeyError):
            status = {"status": "damaged", "pid": None}
        if status["status"] == "running" and not _alive(status.get("pid"), status.get("started")):
            status["status"] = "killed"
        return status

    def write_status(self, **facts: Any) -> None:
        """Replace the status atomically."""
        mine = {"pid": os.getpid(), "started": _started(os.getpid()), "updated": time.time()}
        self._replace("status.json", json.dumps({**mine, **facts}).encode())

    def log(self, **facts: Any) -> None:
        """Append one JSON line to the progress file; every other one after the first goes when it grows too long."""
        path = self.path / "progress.jsonl"
        with self._writing():
            with path.open("a") as file:
                file.write(json.dumps(facts) + "\n")
            if path.stat().st_size > PROGRESS_BYTES:
                lines = path.read_text().splitlines(keepends=True)
                self._replace(path.name, "".join(lines[:1] + lines[:0:-2][::-1]).encode())

    def progress(self) -> list[str]:
        """The lines of the progress file, oldest first; one that a kill cut off is left out."""
        path = self.path / "progress.jsonl"
        return [line for line in path.read_text().splitlines() if _is_object(line)] if path.exists() else []

    def write_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint atomically: a kill leaves the old one or the new one."""
        arrays: dict[str, Any] = {key: np.asarray(value) for key, value in state.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **(arrays | {_SEAL: np.array(_sealed(arrays))}))
        self._replace("checkpoint.npz", buffer.getvalue())

    def checkpoint(self) -> dict[str, np.ndarray] | None:
        """The last checkpoint, or None when there is none yet.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.path / "checkpoint.npz"
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                state = {key: arrays[key] for key in arrays.files if key != _SEAL}
                # The kernels follow what stands in these arrays without looking.
                if str(arrays[_SEAL]) != _sealed(state):
                    raise ValueError("its SHA-256 differs from what was written")
                return state
        except Exception as error:
            raise ValueError(f"checkpoint {path} is damaged ({error}); delete it to restart the run") from None

    def ask_to_stop(self) -> None:
        """Ask the run's process to end at its next block."""
        (self.path / "stop").touch()

    @contextmanager
    def only_here(self) -> Iterator[None]:
        """Keep any other process from working on this run.

        Raises:
            ValueError: another process does.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / "lock")
        with self._writing():
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise ValueError(f"run {self.name} is at work in another process; stop it first") from None
        try:
            yield
        finally:
            lock.release()

    def asked_to_stop(self) -> bool:
        """Whether somebody asked this run to end."""
        return (self.path / "stop").exists()

    def clear_stop(self) -> None:
        """Forget an earlier request to stop."""
        (self.path / "stop").unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes) -> None:
        with self._writing():
            write_durably(self.path / name, content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say where and what to do when the folder cannot be written."""
        try:
            yield
        except OSError as error:
            raise OSError(
                f"cannot write the run folder {self.path}: {reason(error)}; make room or name another place in "
                "$SUBCUBIC_RUNS (what the catalog holds is safe)"
            ) from None


def all_runs() -> list[Run]:
    """Every run folder, oldest first."""
    folder = runs_folder()
    return [Run(p) for p in sorted(folder.iterdir()) if (p / "config.toml").is_file()] if folder.is_dir() else []


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _alive(pid: int | None, started: str | None) -> bool:
    """Whether the process that wrote a status still runs; its start tells it from a later one with the same number."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return started is None or started == _started(pid)


def _started(pid: int) -> str | None:
    """When a process began, in ticks since this boot of the machine, or None where /proc does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{boot}/{ticks}"


def _toml(config: Mapping[str, Any]) -> str:
    """Flat TOML of strings, numbers, booleans and lists of strings; None is left out."""
    # JSON's spelling of these types is also TOML's.
    return "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in config.items() if value is not None
    )
