"""A scheme as a numpy archive. Never unpickles."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from catalog.formats.archive import DAMAGE, content, opened
from catalog.formats.errors import SCHEMA_VERSION, require_denominators, require_version
from catalog.scheme import Format, Ring, Scheme

_NAMES = ("schema_version", "format", "ring", "denominators", "U", "V", "W")


def dumps(scheme: Scheme) -> bytes:
    """The archive: schema_version, format [3], ring (text), denominators [3], U, V, W in the smallest integer type."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        schema_version=np.int64(SCHEMA_VERSION),
        format=np.array(scheme.format, dtype=np.int64),
        ring=np.array(scheme.ring.value),
        denominators=np.array(scheme.denominators, dtype=np.int64),
        U=_narrow(scheme.U),
        V=_narrow(scheme.V),
        W=_narrow(scheme.W),
    )
    return buffer.getvalue()


def accepts(data: bytes) -> bool:
    """Whether a numpy archive is one of ours."""
    return b"schema_version.npy" in data


def loads(data: bytes) -> Scheme:
    """The inverse of ``dumps``.

    Raises:
        ValueError: the archive is damaged, lacks an array, or an array does not fit.
    """
    try:
        with opened(data) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            arrays = {name: _array(content(archive, members[name])) for name in _NAMES if name in members}
    except (*DAMAGE, SyntaxError) as error:
        raise ValueError(
            f"it is cut off or damaged ({error or type(error).__name__}); copy or export it again"
        ) from None
    missing = [name for name in _NAMES if name not in arrays]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    require_version(_integers(arrays, "schema_version", 1)[0])
    ring = arrays["ring"]
    if ring.dtype.kind != "U" or ring.ndim != 0:
        raise ValueError("ring must be one text")
    for name in "UVW":
        if arrays[name].dtype.kind not in "iu":
            raise ValueError(f"{name} must hold integers, not {arrays[name].dtype}")
    m, k, n = _integers(arrays, "format", 3)
    denominators = _integers(arrays, "denominators", 3)
    require_denominators(denominators)
    return Scheme(
        Format(m, k, n).checked(),
        Ring(str(ring)),
        *(arrays[name] for name in "UVW"),
        denominators=tuple(denominators),
    )


def _array(data: bytes) -> np.ndarray:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _integers(arrays: dict[str, Any], name: str, count: int) -> list[int]:
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.size != count:
        raise ValueError(f"{name} must hold {count} integer{'s' * (count > 1)}")
    return [int(value) for value in array.ravel()]


def _narrow(factor: np.ndarray) -> np.ndarray:
    peak = max(-int(factor.min(initial=0)) - 1, int(factor.max(initial=0)))
    return factor.astype(next(t for t in (np.int8, np.int16, np.int32, np.int64) if peak <= np.iinfo(t).max))
