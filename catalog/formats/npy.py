"""Arrays in numpy's own file format (numpy.lib.format). Never unpickles: see ``catalog.formats.pickled``."""

from __future__ import annotations

import io
import warnings
from math import prod
from typing import Any

import numpy as np

from catalog.formats.pickled import loads as unpickled

MAGIC = b"\x93NUMPY"


def array_of(data: bytes) -> Any:
    """The array of a ``.npy`` file; one of objects as what ``pickled.loads`` makes of it.

    Raises:
        ValueError: it is damaged, or holds anything but numbers.
    """
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Python 2 wrote it
            shape, fortran, dtype = header(stream)
    except Exception as error:  # the header is text that numpy parses, and may make its parser raise anything
        raise ValueError(f"its header is damaged ({' '.join(str(error).split())[:80]})") from None
    raw = data[stream.tell() :]
    if dtype.hasobject:
        return unpickled(raw)
    # Numbers wider than Python's float would be rounded.
    if dtype.kind not in "biufc" or dtype.shape or dtype.itemsize > {"f": 8, "c": 16}.get(dtype.kind, 8):
        raise ValueError(f"it holds {str(dtype)[:40]}, not numbers")
    if len(raw) != prod(shape) * dtype.itemsize:
        raise ValueError(f"it is damaged: its header promises {prod(shape)} numbers and {len(raw)} bytes follow")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")
