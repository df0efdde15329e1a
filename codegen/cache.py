"""Where built files are kept: a folder of content-addressed files that is bounded in size."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from catalog.files import sync_folder

SCRATCH_PREFIX = "build-"
MAX_BYTES = 512 << 20
# A younger file is never removed: a process that was just handed its path may not have opened it yet.
MIN_AGE_S = 24 * 3600.0
_OURS = re.compile(r"[0-9a-f]{32}\.(so|bin|cubin|log)")


def publish(made: Path, place: Path) -> None:
    """Move a finished file into the cache so that ``place`` holds either nothing or all of it, also after a power cut.

    Raises:
        OSError: the place cannot be written.
    """
    with open(made, "rb") as file:
        os.fsync(file.fileno())
    os.replace(made, place)
    sync_folder(place.parent)


def digest_of(made: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(made.read_bytes()).hexdigest()


def intact(made: Path, log: Path) -> str | None:
    """What a log says after its first line, the digest of the file it belongs to; None if the two do not fit.

    A damaged library would end the process that loads it, so it is built anew instead.
    """
    try:
        digest, _, said = log.read_text(encoding="utf-8").partition("\n")
        return said if digest == digest_of(made) else None
    except (OSError, UnicodeDecodeError):
        return None


def used(*files: Path) -> None:
    """Make files the youngest, since they were asked for; in a cache that cannot be written they keep their age."""
    for file in files:
        with suppress(OSError):
            os.utime(file)


def trim(folder: Path) -> None:
    """Remove the least recently used built files beyond ``MAX_BYTES`` and what killed builders left behind.

    Several processes may do this at once; a file that one of them has removed is no error for the others.
    """
    now = time.time()
    files = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):
            facts = entry.stat()
            old = now - facts.st_mtime > MIN_AGE_S
            if _OURS.fullmatch(entry.name):
                files.append((facts.st_mtime, facts.st_size, old, entry))
            elif old and entry.name.startswith(SCRATCH_PREFIX) and entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
    total = 0
    for _, size, old, path in sorted(files, reverse=True):
        total += size
        if old and total > MAX_BYTES:
            with suppress(OSError):
                path.unlink()
