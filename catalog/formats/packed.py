"""Files packed by gzip or bzip2, unpacked up to a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib


def unpacked(data: bytes, limit: int) -> bytes:
    """The content of a packed file; other files as they are.

    Raises:
        ValueError: the file is damaged, cut off, or would unpack to more than ``limit`` bytes.
    """
    if data.startswith(b"\x1f\x8b"):
        packed: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=io.BytesIO(data))
    elif data.startswith(b"BZh"):
        packed = bz2.BZ2File(io.BytesIO(data))
    else:
        return data
    try:
        with packed:
            content = packed.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it cannot be unpacked ({error})") from None
    if len(content) > limit:
        raise ValueError(f"it would unpack to more than {limit} bytes, which a scheme file may have")
    return content
