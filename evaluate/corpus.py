"""A text that every Python has: the sources of its standard library, as bytes, in a trained and a held-out part."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
_HELD_OUT = 20  # one file of so many
_SEPARATOR = b"\0"  # after every file; no source has it


@dataclass(frozen=True)
class Corpus:
    """The bytes of many files.

    Attributes:
        trained: [..] uint8, files joined in the order of their names.
        held_out: [..] uint8, likewise, of other files.
        sha256: of the names and contents of all files, in hexadecimal.
        files: their number.
        held_out_files: how many of them are held out.
        source: what it is, in words.
    """

    trained: Bytes
    held_out: Bytes
    sha256: str
    files: int
    held_out_files: int
    source: str

    def facts(self) -> dict[str, Any]:
        """What a document says of it."""
        sizes = {"bytes": len(self.trained) + len(self.held_out), "held_out_bytes": len(self.held_out)}
        counts = {"files": self.files, "held_out_files": self.held_out_files}
        return {"source": self.source, "sha256": self.sha256, **sizes, **counts}


def standard_library(folder: Path | None = None) -> Corpus:
    """The .py files of the running Python's standard library, without tests and installed packages.

    A file is held out by the hash of its name, so that another version of Python holds out the same files.

    Args:
        folder: where they are; by default where this Python says.

    Raises:
        LookupError: too few sources are there.
    """
    root = folder or Path(sysconfig.get_path("stdlib"))
    names = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if not _LEFT_OUT.intersection(path.relative_to(root).parts)
    )
    digest = hashlib.sha256()
    parts: dict[bool, list[bytes]] = {False: [], True: []}
    for name in names:
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        parts[_held_out(name)].append(content + _SEPARATOR)
    if not all(parts.values()):
        raise LookupError(
            f"{root} has {len(names)} sources of Python's standard library, too few to train on and to hold out; use a "
            "Python that has them as files"
        )
    trained, held_out = (np.frombuffer(b"".join(parts[key]), np.uint8) for key in (False, True))
    source = f"standard library of Python {platform.python_version()}, *.py without tests"
    return Corpus(trained, held_out, digest.hexdigest(), len(names), len(parts[True]), source)


def windows(text: Bytes, length: int, most: int) -> Bytes:
    """Sequences side by side, each with the byte after it.

    Args:
        text: [..] uint8.
        length: of a sequence.
        most: sequences that are wanted, spread evenly over the text if it has more.

    Returns:
        [S, length + 1] uint8, S at most ``most``.

    Raises:
        ValueError: the text is shorter than one sequence.
    """
    count = (len(text) - 1) // length
    if count < 1:
        raise ValueError(f"a text of {len(text)} bytes has no sequence of {length + 1}; use a smaller context")
    chosen = np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
    return text[chosen[:, None] * length + np.arange(length + 1)]


def drawn(text: Bytes, length: int, count: int, rng: np.random.Generator) -> Bytes:
    """Sequences from random places, each with the byte after it: [count, length + 1] uint8."""
    starts = rng.integers(0, len(text) - length, count)
    return text[starts[:, None] + np.arange(length + 1)]


def _held_out(name: str) -> bool:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()) % _HELD_OUT == 0
