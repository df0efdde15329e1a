"""Members of zip archives, unpacked up to a limit whatever sizes the archive states."""

from __future__ import annotations

import io
import zipfile
import zlib

# The largest archive that is unpacked: a compressed file of a few kB can claim to hold terabytes.
LARGEST = 1 << 28
# What reading a damaged archive raises.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, MemoryError, RuntimeError)
# The two that numpy writes. The others are unpacked by Python in one piece, however large that is.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PIECE = 1 << 20


def opened(data: bytes) -> zipfile.ZipFile:
    """The archive, if what its members state is within the limit.

    Raises:
        ValueError: it would unpack to too much.
        zipfile.BadZipFile: it is none.
    """
    archive = zipfile.ZipFile(io.BytesIO(data))
    size = sum(member.file_size for member in archive.infolist())
    if size > LARGEST:
        raise ValueError(f"it would unpack to {size} bytes; the limit is {LARGEST}")
    return archive


def content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, never more than it states.

    Raises:
        ValueError: it is compressed in a way that no writer of arrays uses.
        One of ``DAMAGE``: it is damaged, or holds more than it states.
    """
    if member.compress_type not in _METHODS:
        raise ValueError(f"it is compressed by method {member.compress_type}; arrays are stored or deflated")
    # Read in one piece, a deflated member is unpacked to 2 GiB before its stated size counts.
    with archive.open(member) as file:
        return b"".join(iter(lambda: file.read(_PIECE), b""))
