"""Scheme files: our own JSON and npz, and the public formats. A file's kind is told by its content, never by its name.

Our own files state their convention, and whether such a scheme is right is for ``verify``. A foreign file gives a
``Draft``, whose convention is found by verification in ``catalog.formats.readings``.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Literal

from catalog.files import reason, write_durably
from catalog.formats import (
    alphaevolve,
    alphatensor,
    flip_cpd,
    flip_cpd_text,
    json_format,
    npz_format,
    perminov,
    sms,
    text_bini,
    text_brent,
    text_coefficients,
    text_flip_graph,
    text_maple,
    text_mathematica,
    text_products,
    text_straight_line,
)
from catalog.formats.draft import Draft
from catalog.formats.errors import Flaw, FormatError
from catalog.formats.packed import unpacked
from catalog.formats.readings import read_draft
from catalog.formats.sms import together
from catalog.scheme import Scheme
from catalog.verify import NotExactError

__all__ = [
    "Draft",
    "Flaw",
    "FormatError",
    "Kind",
    "UnknownFormatError",
    "read",
    "read_all",
    "read_draft",
    "together",
    "write",
]

Kind = Literal["json", "npz"]

MAX_BYTES = 64 << 20

# Each has ``accepts(data)``, which looks at the content and is cheap, and ``loads(data)``, a list of drafts or of what
# is wrong with them. The first that accepts a file reads it; our own come first.
READERS: tuple[ModuleType, ...] = (
    perminov,
    alphatensor,
    flip_cpd,
    alphaevolve,
    sms,
    flip_cpd_text,
    text_maple,
    text_bini,
    text_brent,
    text_mathematica,
    text_straight_line,
    text_flip_graph,
    text_coefficients,
    text_products,
)


class UnknownFormatError(FormatError):
    """A file has the form of no scheme file at all."""


def read(path: str | Path) -> Scheme:
    """Read a file of one scheme, of any kind. A scheme in our own formats need not be exact.

    Raises:
        FormatError: the file cannot be read, is of no known kind, is damaged, or holds several schemes.
        NotExactError: no reading of a foreign file is exact.
    """
    (group,) = together([Path(path)])
    found = read_all(*group)
    if len(found) > 1:
        names = ", ".join(item.name for item in found[:3] if not isinstance(item, Scheme))
        raise FormatError(f"{path} holds {len(found)} schemes ({names}, ...); `subcubic catalog import` takes them all")
    (item,) = found
    if isinstance(item, Scheme):
        return item
    if isinstance(item, Flaw):
        raise FormatError(f"{path} is not a valid scheme file: {item.reason}")
    try:
        return read_draft(item)[0]
    except NotExactError:
        raise
    except ValueError as error:
        raise FormatError(f"{path} is not a valid scheme file: {error}") from None


def read_all(*paths: Path) -> list[Draft | Scheme | Flaw]:
    """What a file holds, or the three files of one triple that ``together`` has put into a group.

    Returns:
        For each scheme in the file a Scheme if the file is our own, a Draft if not, or what is wrong with it.

    Raises:
        UnknownFormatError: the file is of no known kind.
        FormatError: the file cannot be read or is damaged.
    """
    try:
        data = b"\n".join(unpacked(_bytes(path), MAX_BYTES) for path in paths)
        return _read(data)
    except UnknownFormatError:
        raise UnknownFormatError(
            f"{paths[0]} is not a scheme file: its content is none of the formats that can be read; "
            "`subcubic catalog import --help` names them"
        ) from None
    except FormatError:
        raise
    except Exception as error:  # whatever a damaged archive makes its reader raise
        said = " ".join(str(error).split())[:400] or type(error).__name__
        raise FormatError(f"{paths[0]} is not a valid scheme file: {said}") from None


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            raise FormatError(f"{path} is no regular file; copy its content to one")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise FormatError(f"{path} has {size} bytes, more than the {MAX_BYTES} that a scheme file may have")
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None


def _read(data: bytes) -> list[Draft | Scheme | Flaw]:
    own = npz_format if data.startswith(b"PK") else json_format if data.lstrip()[:1] == b"{" else None
    if own is not None and own.accepts(data):
        return [own.loads(data)]
    refused: ValueError | None = None
    for reader in READERS:
        if reader.accepts(data):
            try:
                return list(reader.loads(data))
            except ValueError as error:  # a first row of one format can look like the heading of another
                refused = refused or error
    if refused is not None:
        raise refused
    if own is not None:
        return [own.loads(data)]  # says what one of ours would need
    raise UnknownFormatError


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
