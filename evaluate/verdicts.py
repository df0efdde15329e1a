"""Verdicts of trials, kept in memory and on disk, so that no process tries again what another has measured."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalog.files import cache_folder, write_durably
from evaluate.decision import Verdict

# The trial itself, kept out of the folder name: verdicts of another way to measure must not be mixed in.
_VERSION = 1
_SUFFIXES = (".py", ".cuh", ".h", ".c")


class Verdicts:
    """What was measured, by the facts that decide it.

    Args:
        folder: where they are kept; by default that of the cache. One small file each, written whole or not at all, so
            that processes need not wait for each other.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder() / "dispatch"
        self._known: dict[str, Verdict] = {}

    def get(self, facts: Mapping[str, Any]) -> Verdict | None:
        """The verdict for these facts; None if there is none, or if its file is damaged."""
        name = _name(facts)
        if name not in self._known:
            with suppress(OSError, ValueError, KeyError, TypeError):
                kept = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))["verdict"]
                self._known[name] = Verdict(**{**kept, "shape": tuple(kept["shape"])})
        return self._known.get(name)

    def put(self, facts: Mapping[str, Any], verdict: Verdict) -> None:
        """Keep a verdict; where the folder cannot be written, in memory only."""
        name = _name(facts)
        self._known[name] = verdict
        document = {"facts": facts, "verdict": asdict(verdict)}
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_durably(self.folder / f"{name}.json", (json.dumps(document, indent=1) + "\n").encode())


@functools.cache
def generator_hash() -> str:
    """A digest of all that decides the text of a kernel beside its scheme: the emitters and the device code."""
    import codegen

    root = Path(codegen.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _name(facts: Mapping[str, Any]) -> str:
    text = json.dumps({"version": _VERSION, **facts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
