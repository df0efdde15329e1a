"""A module run on something in a process of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE = 180.0  # seconds for one process


@dataclass(frozen=True)
class Ended:
    """A process that has ended.

    Attributes:
        status: of its end.
        printed: to stdout and stderr.
        written: to the file for what it found; None if there is none.
    """

    status: int
    printed: str
    written: str | None


def apart(module: str, given: Any, under: Sequence[str] = ()) -> Ended:
    """Run ``python -m module GIVEN OUT``.

    Args:
        module: of this checkout, or on the path.
        given: is pickled to the file GIVEN.
        under: a command that runs it, and its options.

    Raises:
        OSError: it cannot be run.
        subprocess.TimeoutExpired: it did not end.
        UnicodeDecodeError: what it wrote is no text.
    """
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with tempfile.TemporaryDirectory() as folder:
        there, out = Path(folder, "given"), Path(folder, "out.json")
        there.write_bytes(pickle.dumps(given))
        words = [*under, sys.executable, "-m", module, str(there), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, env=environment, cwd=root)
        written = out.read_text(encoding="utf-8") if out.exists() else None
    return Ended(done.returncode, done.stdout + done.stderr, written)
