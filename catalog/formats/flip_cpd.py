"""The arrays of flip-cpd (Khoruzhii, Gelss, Pokutta 2025, arXiv 2511.10786), one scheme a row. C is row-major.

Rational schemes are int64 pairs of numerator and denominator in blocks U, V, W, each [r, entries]. Pools over F2 and F3
are uint64 words, per term one (a bit for each entry) or two (the bits of ones, then of twos) for u, v and w. Neither
states its sizes: they are found by the test of ``catalog.formats.readings``. Arrays of other shapes are read as
AlphaTensor's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isqrt, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.formats import alphatensor
from catalog.formats.draft import Draft
from catalog.formats.errors import Flaw
from catalog.formats.factors import LARGEST
from catalog.formats.npy import MAGIC, array_of
from catalog.formats.readings import is_plausible
from catalog.scheme import Factor, Ring

KIND = "flip-cpd npy"
# A word has 64 bits, so no factor has more entries.
_WORD = 64
_LONGEST_DENOMINATOR = 1 << 30


def accepts(data: bytes) -> bool:
    """Whether this is a file of one numpy array."""
    return data.startswith(MAGIC)


def loads(data: bytes) -> list[Draft | Flaw]:
    """One draft for each row, or what is wrong with it.

    Raises:
        ValueError: the array is damaged.
    """
    array = array_of(data)
    other = not isinstance(array, np.ndarray) or array.ndim > 2 or array.dtype.kind not in "iu"
    if other or array.dtype.itemsize < 8 or not array.size:
        return alphatensor.drafts(array, "numpy array", "")
    rows = np.atleast_2d(array)
    read = _modular if array.dtype.kind == "u" else _rational
    return [read(row, f"[{index}]" if len(rows) > 1 else "") for index, row in enumerate(rows)]


def _rational(row: NDArray[Any], name: str) -> Draft | Flaw:
    if row.size % 2 or not row.size or row.size > LARGEST:
        return Flaw(KIND, name, f"a row of {row.size} numbers is no list of fractions for U, V and W")
    numerators, denominators = row[::2].astype(np.int64), row[1::2].astype(np.int64)
    if denominators.min() < 1 or denominators.max() > _LONGEST_DENOMINATOR:
        return Flaw(KIND, name, "a denominator is not in 1..2**30")
    try:
        candidates = [_split(numerators, denominators, sizes, name) for sizes in _sizes(row.size // 2)]
    except ValueError as error:
        return Flaw(KIND, name, str(error))
    if not candidates:
        return Flaw(KIND, name, f"{row.size // 2} coefficients fit no product of matrices")
    return _likeliest(candidates)


def _sizes(count: int) -> Iterator[tuple[int, int, int]]:
    """Sizes for which ``count`` coefficients make a rank between the least and the standard one, cubes first."""
    sizes = sorted(product(range(1, _WORD + 1), repeat=3), key=lambda s: len(set(s)))
    for m, k, n in sizes:
        entries = m * k, k * n, m * n
        if max(entries) <= _WORD and count % sum(entries) == 0:
            if max(entries) <= count // sum(entries) <= m * k * n:
                yield m, k, n


def _split(
    numerators: NDArray[np.int64], denominators: NDArray[np.int64], sizes: tuple[int, int, int], name: str
) -> Draft:
    m, k, n = sizes
    entries = m * k, k * n, m * n
    rank = numerators.size // sum(entries)
    factors: list[Factor] = []
    commons = []
    start = 0
    for count in entries:
        block = slice(start, start + count * rank)
        common = lcm(*(int(d) for d in np.unique(denominators[block])))
        if common > _LONGEST_DENOMINATOR or int(abs(numerators[block]).max()) >= 1 << 32:
            raise ValueError("its fractions are too large")
        factors.append((numerators[block] * (common // denominators[block])).reshape(rank, count).T)
        commons.append(common)
        start += count * rank
    u, v, w = factors
    return Draft(KIND, (u, v, w), (commons[0], commons[1], commons[2]), sizes, name=name)


def _modular(row: NDArray[Any], name: str) -> Draft | Flaw:
    """Words of one scheme; a row that fits both rings is decided by the test, since F3 has no entry 1 and 2 at once."""
    words = row.astype(np.uint64)
    candidates = []
    if words.size and words.size % 6 == 0 and not (words[::2] & words[1::2]).any():
        ones, twos = (words[half::2].reshape(-1, 3).T for half in (0, 1))
        candidates.append(_unpacked([_bits(a) + 2 * _bits(b) for a, b in zip(ones, twos, strict=True)], Ring.F3, name))
    if words.size and words.size % 3 == 0:
        candidates.append(_unpacked([_bits(column) for column in words.reshape(-1, 3).T], Ring.F2, name))
    drafts = [draft for draft in candidates if draft is not None]
    if not drafts:
        return Flaw(KIND, name, f"a row of {words.size} words is no scheme over F2 or F3")
    return _likeliest(drafts)


def _likeliest(drafts: list[Draft]) -> Draft:
    """The first draft of which a reading may be exact, else the first. A single one is not tested: pools are large."""
    return drafts[0] if len(drafts) == 1 else next((draft for draft in drafts if is_plausible(draft)), drafts[0])


def _bits(words: NDArray[np.uint64]) -> NDArray[Any]:
    """Bits of words as a factor [64, r], the lowest first; int8, since a pool has many."""
    return (words >> np.arange(_WORD, dtype=np.uint64)[:, None] & np.uint64(1)).astype(np.int8)


def _unpacked(factors: list[NDArray[Any]], ring: Ring, name: str) -> Draft | None:
    """The draft, whose sizes follow from the highest bits, since every entry occurs in an exact scheme."""
    used = [np.flatnonzero(factor.any(axis=1)) for factor in factors]
    if not all(rows.size for rows in used):
        return None
    a, b, c = (int(rows[-1]) + 1 for rows in used)
    if isqrt(a * b * c) ** 2 != a * b * c or a * c % b or a * b % c or b * c % a:
        return None
    sizes = isqrt(a * c // b), isqrt(a * b // c), isqrt(b * c // a)
    if (sizes[0] * sizes[1], sizes[1] * sizes[2], sizes[0] * sizes[2]) != (a, b, c):
        return None
    u, v, w = factors
    return Draft(KIND, (u[:a].copy(), v[:b].copy(), w[:c].copy()), sizes=sizes, ring=ring, name=name)
