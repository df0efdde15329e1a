"""The folder of a site: whole or not at all, and never in place of somebody's files."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from catalog.errors import CatalogError
from catalog.files import TEMPORARY_PREFIX, reason

# Says that a folder is a site of ours, and what stands in it at the top.
MARKER = "site.json"
KIND = "subcubic catalog site"
# How names begin in the folders of a site.
_SCHEMES = re.compile(r"\d+x\d+x\d+[-.]")
_NAMES = {
    "assets": re.compile(r"(site|schemes)\.\w+$"),
    "files": _SCHEMES,
    "formats": _SCHEMES,
    "schemes": _SCHEMES,
}
# From linux/fcntl.h and linux/fs.h.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# End of the name that an old site has for the moment between two renames.
_ASIDE = "-old"


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of ``folder`` when the block ends well and is removed when not.

    A process killed at any moment leaves the old site as it was, or the new one, and perhaps a hidden folder beside it
    that the next call removes. After a power cut a new site may lack files; build it again.

    Raises:
        ValueError: there is something at ``folder`` that is no site of ours.
        OSError: no folder can be made there.
    """
    target = folder.resolve()
    _require_ours(target)
    beside = f"{TEMPORARY_PREFIX}{target.name}-"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for leftover in sorted(target.parent.glob(f"{_literal(beside)}*"), reverse=True):
            if leftover.name.endswith(_ASIDE) and not target.exists():
                leftover.rename(target)
            else:
                _sweep(leftover)
        fresh = target.with_name(f"{beside}{secrets.token_hex(8)}")
        fresh.mkdir()
    except OSError as error:
        raise OSError(f"cannot make a site at {folder}: {reason(error)}; choose another place") from None
    descriptor = os.open(fresh, os.O_RDONLY)
    try:
        # As long as it is held, no other process takes the folder for a leftover.
        with suppress(OSError):  # there are file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield fresh
        _require_ours(target)
        _swap(fresh, target)
    except OSError as error:
        if isinstance(error, CatalogError) or not str(error.filename or fresh).startswith(str(fresh)):
            raise
        raise OSError(f"cannot write the site {folder}: {reason(error)}; make room or choose another place") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        os.close(descriptor)


def mark(folder: Path, facts: dict[str, Any]) -> None:
    """Sign a finished folder as a site of ours."""
    names = sorted({MARKER, *(entry.name for entry in folder.iterdir())})
    document = {"schema_version": 1, "kind": KIND, **facts, "holds": names}
    (folder / MARKER).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _require_ours(target: Path) -> None:
    """Refuse to replace anything but an empty folder and a site with nothing of anybody else in it.

    Raises:
        ValueError: as said.
    """
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise ValueError(f"{target} is no folder; name another one for the site")
    found = {entry.name for entry in target.iterdir()}
    if not found:
        return
    holds = None
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if (target / MARKER).is_file():  # a pipe would keep its reader for ever
            document = json.loads((target / MARKER).read_text(encoding="utf-8"))
            holds = set(document["holds"]) if document["kind"] == KIND else None
    if holds is None:
        raise ValueError(
            f"{target} holds other files and is no site that this command made, so it stays as it is; name a new or "
            "empty folder"
        )
    if strangers := sorted(found - holds) or list(_beside_pages(target)):
        raise ValueError(f"{target} also holds {strangers[0]!r}, which is not of the site; move it and try again")


def _beside_pages(target: Path) -> Iterator[str]:
    """What stands in the folders of a site under names that no page, download or asset has."""
    for folder, ours in _NAMES.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from (f"{folder}/{name}" for name in sorted(os.listdir(target / folder)) if not ours.match(name))


def _swap(fresh: Path, target: Path) -> None:
    """Put ``fresh`` in place of ``target``, which ends up under the other name where there was one."""
    if not target.exists():
        fresh.rename(target)
        return
    if _exchange(fresh, target):
        return
    # Without an exchange in one step there is a moment in which no site has the name.
    aside = fresh.with_name(f"{fresh.name}{_ASIDE}")
    target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step, if the system and the file system can."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return False
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0


def _sweep(leftover: Path) -> None:
    """Remove the folder of a process that was killed; one that still runs holds its lock."""
    try:
        descriptor = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(leftover, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _literal(name: str) -> str:
    """A name as a pattern that only it fits."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
