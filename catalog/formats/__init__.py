"""Scheme files: our own JSON and npz. Reading parses and checks shapes; whether a scheme is right is for ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from catalog.files import reason, write_durably
from catalog.formats import json_format, npz_format
from catalog.formats.errors import FormatError
from catalog.scheme import Scheme

__all__ = ["FormatError", "Kind", "read", "write"]

Kind = Literal["json", "npz"]


MAX_BYTES = 64 << 20


def read(path: str | Path) -> Scheme:
    """Read a scheme file of any kind, told apart by its content. The scheme need not be exact.

    Raises:
        FormatError: the file cannot be read, is of no known kind or is damaged.
    """
    try:
        if not Path(path).is_file() and Path(path).exists() and not Path(path).is_dir():
            raise FormatError(f"{path} is no regular file; copy its content to one")
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise FormatError(f"{path} has {size} bytes, more than the {MAX_BYTES} that a scheme file may have")
        data = Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    try:
        if data.startswith(b"PK"):
            return npz_format.loads(data)
        if data.lstrip()[:1] == b"{":
            return json_format.loads(data)
    except Exception as error:  # whatever a damaged archive makes its reader raise
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise FormatError(f"{path} is not a valid scheme file: {said}") from None
    raise FormatError(f"{path} is not a scheme file: it holds neither JSON nor an npz archive")


def write(scheme: Scheme, path: str | Path, kind: Kind | None = None) -> Path:
    """Write a scheme file, whole or not at all, and return its path.

    Args:
        scheme: the scheme.
        path: the file; one that exists is replaced.
        kind: told by the suffix when None.

    Raises:
        FormatError: the kind is unknown or the file cannot be written.
    """
    path = Path(path)
    chosen = kind or path.suffix.lstrip(".").lower()
    if chosen not in ("json", "npz"):
        raise FormatError(
            f"cannot write {path}: {chosen or 'a name without suffix'} is no kind of scheme file; use json or npz"
        )
    data = json_format.dumps(scheme) if chosen == "json" else npz_format.dumps(scheme)
    try:
        write_durably(path, data)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {reason(error)}; choose another place or make room") from None
    return path
