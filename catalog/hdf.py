"""HDF5 as a byte format: one-dimensional datasets and text attributes to bytes and back.

HDF5 never touches the disk here. Files are built in memory and written by ``catalog.files``, so that a full disk is
an ordinary error and no lock of the HDF5 library is needed on network file systems; they are parsed only after
their SHA-256 was checked, so that the library never sees damaged bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Datasets = dict[str, NDArray[Any]]

# Elements of one chunk; the unit of compression and of the Fletcher checksum.
_CHUNK = 1 << 16
# Deflate makes 1032 bytes of one at best; a dataset without chunks can state any size.
_RATIO = 1100


def pack(
    datasets: Mapping[str, NDArray[Any]], attributes: Mapping[str, str], userblock: int = 0, small: bool = True
) -> bytes:
    """An HDF5 file that HDF5 1.10 and later can read, every dataset with a Fletcher-32 checksum.

    Args:
        datasets: name to one-dimensional array of a plain or compound dtype.
        attributes: name to text, attached to the root group.
        userblock: bytes at the front that HDF5 leaves alone; 0 or a power of two from 512.
        small: whether to compress.
    """
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("earliest", "v110"), userblock_size=userblock) as file:
        file.attrs.update(attributes)
        for name, values in datasets.items():
            file.create_dataset(
                name,
                data=values,
                maxshape=(None,),
                chunks=(min(max(len(values), 1), _CHUNK),),
                compression="gzip" if small else None,
                fletcher32=True,
            )
    return buffer.getvalue()


def unpack(data: bytes) -> tuple[Datasets, dict[str, str]]:
    """The datasets and attributes of a file made by ``pack``.

    Raises:
        ValueError: the bytes are no such file.
    """
    import h5py

    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            attributes = {name: str(value) for name, value in file.attrs.items()}
            return _whole(file, _RATIO * len(data)), attributes
    except (OSError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"not a readable HDF5 file: {error}") from None


def _whole(file: Any, most: int) -> Datasets:
    """All datasets. Nothing outside of the file is read for one, and none may be larger than the file can hold.

    Raises:
        ValueError: the file has something else than datasets of one dimension in itself.
    """
    import h5py

    found: Datasets = {}
    for name in file:
        here = isinstance(file.get(name, getlink=True), h5py.HardLink)
        dataset = file[name] if here else None
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1 or dataset.external or dataset.is_virtual:
            raise ValueError(f"{name[:40]!r} is no dataset of one dimension in this file")
        if dataset.dtype.hasobject:  # of a later version at best; a small file can hold one such value many times
            continue
        most -= dataset.nbytes
        if most < 0:
            raise ValueError(f"{name[:40]!r} states {len(dataset)} elements, more than the file can hold")
        found[name] = dataset[:]
    return found


def json_bytes(value: Any) -> NDArray[np.uint8]:
    """A JSON document as a dataset of its UTF-8 bytes."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def json_value(dataset: NDArray[np.uint8]) -> Any:
    """The inverse of ``json_bytes``.

    Raises:
        ValueError: the bytes are no JSON.
    """
    try:
        return json.loads(dataset.tobytes(), parse_constant=_refused)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _refused(name: str) -> None:
    raise ValueError(f"its JSON has {name}, which is no number of JSON")
