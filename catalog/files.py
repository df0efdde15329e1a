"""Durable files: bytes appear under their final name completely or not at all, and stay there after a power cut."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

TEMPORARY_PREFIX = ".writing-"


def write_durably(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: new temporary file, fsync, rename over the final name, fsync of the folder.

    A process killed at any moment leaves at most a temporary file whose name starts with ``TEMPORARY_PREFIX``. A link
    stays a link. A device or a pipe is refused: the rename would put a file in place of /dev/null.

    Raises:
        OSError: the place cannot be written or is full; what stood under ``path`` before is untouched.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # also of Ctrl-C, since nobody sweeps a folder that is no catalog's
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def cache_folder() -> Path:
    """Where compiled code is kept: $SUBCUBIC_CACHE, else subcubic/ in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("SUBCUBIC_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "subcubic"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system can do that.

    Raises:
        OSError: the folder's names could not be written to the disk.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no fsync of folders; their renames are as durable as they can be.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """What went wrong, in the words of the operating system and in lower case, to be built into a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
