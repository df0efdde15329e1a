"""The archives of AlphaTensor (Fawzi et al. 2022, Nature 610): a key such as "2,3,4" for three factor matrices.

Factors of equal sizes are stacked in one array [3, entries, r], others stand in an array of objects. C is transposed.
Integers, halves and eighths are mixed; nothing is rounded.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import numpy as np

from catalog.formats.archive import DAMAGE, content, opened
from catalog.formats.draft import Draft
from catalog.formats.errors import Flaw
from catalog.formats.factors import factor_from
from catalog.formats.npy import array_of

KIND = "AlphaTensor npz"
_SIZES = re.compile(r"(\d{1,2}),(\d{1,2}),(\d{1,2})")


def accepts(data: bytes) -> bool:
    """Whether this is an archive of arrays, and not our own."""
    if not data.startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (*DAMAGE, ValueError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names) and "schema_version.npy" not in names


def loads(data: bytes) -> list[Draft | Flaw]:
    """One draft for each key, or what is wrong with its array.

    Raises:
        ValueError: the archive is damaged or too large.
    """
    with opened(data) as archive:
        arrays: dict[str, Any] = {}
        flaws: list[Draft | Flaw] = []
        for member in archive.infolist():
            key = member.filename.removesuffix(".npy")
            try:
                arrays[key] = array_of(content(archive, member))
            except (*DAMAGE, ValueError) as error:
                flaws.append(Flaw(KIND, key, f"its array is damaged ({str(error)[:200] or type(error).__name__})"))
    for names in (("u", "v", "w"), ("U", "V", "W"), ("arr_0", "arr_1", "arr_2")):
        if arrays.keys() == set(names):
            return [*flaws, *drafts([arrays[name] for name in names], KIND, "")]
    return flaws + [draft for key, array in arrays.items() for draft in drafts(array, KIND, key)]


def drafts(array: Any, kind: str, name: str) -> list[Draft | Flaw]:
    """The drafts of an array of three factors, or of several such arrays stacked.

    Args:
        array: [3, entries, r], [schemes, 3, entries, r], or a list of three matrices.
        kind: of the file.
        name: of the scheme; if it is three numbers with commas, these are its sizes.
    """
    if isinstance(array, np.ndarray) and not array.size:  # its shape may promise any number of schemes of nothing
        return [Flaw(kind, name, "it holds no numbers")]
    if isinstance(array, np.ndarray) and array.ndim == 4:
        return [d for i, part in enumerate(array) for d in drafts(part, kind, f"{name}[{i}]")]
    try:
        if len(array) != 3:
            raise ValueError(f"it holds {len(array)} matrices, and a scheme has three")
        factors, denominators = zip(*(factor_from(part) for part in array), strict=True)
    except (ValueError, TypeError) as error:
        return [Flaw(kind, name, str(error))]
    found = _SIZES.fullmatch(name)
    sizes = (int(found[1]), int(found[2]), int(found[3])) if found else None
    return [Draft(kind, factors, denominators, sizes, name=name)]
