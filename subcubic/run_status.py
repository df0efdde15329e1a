"""The status of a run as its process last wrote it, and whether that process still lives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

# What JSON has no words for, or what no status has.
UNREADABLE = (OSError, ValueError, TypeError, KeyError, RecursionError)
_MOST_PID = 1 << 31


def read_status(path: Path) -> dict[str, Any]:
    """The last status written; one that cannot be read has ``damage``, a sentence about it.

    A file that is not there yet is that of a run which has just begun. A run whose process is gone while ``running``
    is reported as ``killed``.
    """
    try:
        status = _checked(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        status = {"status": "running", "pid": None}
    except UNREADABLE as error:
        why = " ".join(str(error).split()) or type(error).__name__
        status = {
            "status": "damaged",
            "pid": None,
            "damage": f"{path} is damaged ({why}); `runs resume` writes it anew",
        }
    if status["status"] == "running" and not _alive(status["pid"], status.get("started")):
        status["status"] = "killed"
    return status


def _checked(status: Any) -> dict[str, Any]:
    """A status with the types that its readers rely on.

    Raises:
        TypeError, KeyError, ValueError: it has others.
    """
    if not isinstance(status, dict):
        raise TypeError("it is no object")
    # A bool is an int for isinstance; kill takes 0 and what is below for groups of processes.
    if type(status["pid"]) is not int or not 0 < status["pid"] < _MOST_PID:
        raise ValueError(f"its pid {str(status['pid'])[:40]} is no process")
    for key, types in (("status", str), ("started", str), ("id", str), ("rank", int), ("seconds", (int, float))):
        value = status.get(key)
        if isinstance(value, bool) or not isinstance(value, types) and (key == "status" or value is not None):
            raise TypeError(f"its {key} {str(value)[:40]!r} is of another type")
    return status


def _alive(pid: int | None, began: str | None) -> bool:
    """Whether the process that wrote a status still runs; its start tells it from a later one with the same number."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return began is None or began == started(pid)


def started(pid: int) -> str | None:
    """When a process began, in ticks since this boot of the machine, or None where /proc does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        # The name of a program, which comes before, may be of any bytes.
        ticks = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{boot}/{ticks}"
