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
from subcubic.errors import UsageError
from subcubic.run_status import read_status, started

PROGRESS_BYTES = 4 << 20
# Name under which a checkpoint holds the hash of the rest.
_SEAL = "sha256"
_NEEDED = ("format", "ring", "method", "target", "keep", "seed", "catalog")
_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        ("format", "ring", "method", "executor", "walk", "diagonal", "symmetry", "weights", "device", "catalog"), str
    ),
    **dict.fromkeys(("target", "keep", "seed", "steps", "workers", "walkers"), int),
    **{"budget_s": (int, float), "start": list},
}


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
        """Make a new run folder with its resolved configuration.

        Raises:
            UsageError: an option cannot be written as text; nothing is made.
            OSError: the folder cannot be written.
        """
        _toml(config)
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
            raise LookupError(
                f"{how_many} with {name!r}; `subcubic runs list` shows them all; a training is named by its folder"
            )
        return found[0]

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Keep the resolved options, with which the run can go on."""
        self._replace("config.toml", _toml(config))

    def config(self) -> dict[str, Any]:
        """The options that the run was started with.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.path / "config.toml"
        try:
            config = tomllib.loads(path.read_text(encoding="utf-8"))
            missing = [key for key in _NEEDED if key not in config]
            if missing:
                raise ValueError(f"it lacks {', '.join(missing)}")
            for key, value in config.items():
                if key in _TYPES and (isinstance(value, bool) or not isinstance(value, _TYPES[key])):
                    raise ValueError(f"its {key} {str(value)[:40]} is of another type")
            if not all(isinstance(one, str) for one in config.get("start", [])):
                raise ValueError("its start is of another type")
            return config
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}); start the search anew") from None

    def summary(self) -> dict[str, Any]:
        """Options and status for a listing; what cannot be read is shown as damaged, with a sentence in ``damage``."""
        try:
            return {**self.config(), **self.status()}
        except (ValueError, OSError) as error:
            return {"status": "damaged", "damage": str(error)}

    def status(self) -> dict[str, Any]:
        """The last status written, see ``subcubic.run_status.read_status``."""
        return read_status(self.path / "status.json")

    def write_status(self, **facts: Any) -> None:
        """Replace the status atomically."""
        mine = {"pid": os.getpid(), "started": started(os.getpid()), "updated": time.time()}
        self._replace("status.json", json.dumps({**mine, **facts}).encode())

    def log(self, **facts: Any) -> None:
        """Append one JSON line to the progress file; every other one after the first goes when it grows too long."""
        path = self.path / "progress.jsonl"
        with self._writing():
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(facts) + "\n")
            if path.stat().st_size > PROGRESS_BYTES:
                lines = path.read_bytes().splitlines(keepends=True)
                self._replace(path.name, b"".join(lines[:1] + lines[:0:-2][::-1]))

    def progress(self) -> list[str]:
        """The lines of the progress file, oldest first; one that a kill cut off is left out."""
        path = self.path / "progress.jsonl"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return [line for line in text.splitlines() if _is_object(line)]

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
    except (ValueError, RecursionError):
        return False


def _toml(config: Mapping[str, Any]) -> bytes:
    """Flat TOML of strings, numbers, booleans and lists of strings; None is left out.

    Raises:
        UsageError: a string has no UTF-8, such as a path of other bytes.
    """
    lines = []
    for key, value in config.items():
        if value is not None:
            # JSON's spelling of these types is also TOML's, but for the delete character.
            text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            try:
                lines.append(f"{key} = {text}\n".encode())
            except UnicodeEncodeError:
                raise UsageError(
                    f"{key} {json.dumps(value)} is not UTF-8, so that no run could keep it; choose another"
                ) from None
    return b"".join(lines)
