"""What a listing asks of the index, answered on its columns: which schemes, in what order, and how many of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.bounds import best_known
from catalog.index import Index
from catalog.scheme import Format, Ring

# What a listing can be sorted by; the first of them is the natural order.
SORTS = ("format", "rank", "gap", "additions", "cse", "growth", "planes", "speed", "created")
_RINGS = [ring.value.encode() for ring in Ring]


@dataclass(frozen=True)
class Query:
    """Which schemes are wanted.

    Attributes:
        format: only schemes of this format, in any order of the roles.
        ring: only schemes over this ring.
        ternary: only schemes over Z with coefficients in {-1, 0, 1}.
        holding: also schemes over Z, which hold over every ring.
        max_rank: only schemes of at most this rank.
        max_gap: only schemes at most so far above the best known rank.
        text: only schemes whose source or method contains it, or whose id begins with it, whatever the case.
        sort: one of ``SORTS``; ties go by format, ring, rank, planes, additions after CSE and id.
        reverse: the worst first; what has no value of what is sorted by stays last.
    """

    format: Format | None = None
    ring: Ring | None = None
    ternary: bool = False
    holding: bool = False
    max_rank: int | None = None
    max_gap: int | None = None
    text: str = ""
    sort: str = SORTS[0]
    reverse: bool = False


def select(index: Index, query: Query, speeds: Mapping[str, float] | None = None) -> NDArray[np.int64]:
    """Places in the index of the schemes that are wanted, in the order that is wanted.

    Args:
        index: of a catalog.
        query: what is wanted.
        speeds: measured ratio to the vendor's GEMM by id, for the order ``speed``.

    Raises:
        ValueError: there is no such order.
    """
    if query.sort not in SORTS:
        raise ValueError(f"cannot sort by {query.sort!r}; choose one of {', '.join(SORTS)}")
    table = index.table
    wanted = np.ones(len(table), dtype=bool)
    if query.format is not None:
        wanted &= (np.sort(table["format"], axis=1) == np.array(query.format.sorted)).all(axis=1)
    if query.ring is not None:
        rings = [query.ring.value, *([Ring.Z.value] if query.holding else [])]
        wanted &= np.isin(table["ring"], np.array(rings, dtype="S2"))
    if query.ternary:
        wanted &= table["ternary"] > 0
    if query.max_rank is not None:
        wanted &= table["rank"] <= query.max_rank
    if query.text:
        wanted &= _said(index, query.text)
    found = np.flatnonzero(wanted)
    gaps = _gaps(table[found]) if query.max_gap is not None or query.sort == "gap" else np.zeros(0)
    if query.max_gap is not None:
        near = gaps <= query.max_gap
        found, gaps = found[near], gaps[near]
    key = _key(index, found, query.sort, gaps, speeds or {})
    order = _order(table[found], key)
    if query.reverse:
        order = order[::-1]
        if key is not None and key.dtype.kind == "f":  # what has no value is not the worst: it stays last
            has = np.isfinite(key[order])
            order = np.concatenate([order[has], order[~has]])
    return found[order]


def _said(index: Index, text: str) -> NDArray[np.bool_]:
    """Where a text occurs in source or method, or begins an id."""
    small = text.lower()
    has = np.array([small in word.lower() for word in index.words], dtype=bool)
    found: NDArray[np.bool_] = np.char.startswith(index.table["id"], small.encode(errors="surrogatepass"))
    return found | has[index.texts["source"]] | has[index.texts["method"]] if len(has) else found


def _gaps(table: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks above the best known ones; infinite where none is known."""
    sizes, rings = table["format"].astype(np.int64), _rings(table)
    codes = ((sizes[:, 0] * 128 + sizes[:, 1]) * 128 + sizes[:, 2]) * 16 + rings * 2 + (table["ternary"] > 0)
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    known = [
        best_known(Format(*sizes[i].tolist()), list(Ring)[rings[i]], ternary=bool(table["ternary"][i])) for i in first
    ]
    best = np.array([-np.inf if one is None else one for one in known], dtype=np.float64)
    return table["rank"] - best[which] if len(table) else np.zeros(0)


def _rings(table: NDArray[Any]) -> NDArray[np.int64]:
    """Places of the rings in the order of ``Ring``."""
    return np.argmax(table["ring"][:, None] == np.array(_RINGS, dtype="S2"), axis=1) if len(table) else np.zeros(0, int)


def _key(
    index: Index, found: NDArray[np.int64], sort: str, gaps: NDArray[np.float64], speeds: Mapping[str, float]
) -> NDArray[Any] | None:
    """What is sorted by first, the best smallest; None for the natural order."""
    table = index.table[found]
    if sort == "gap":
        return gaps
    if sort == "speed":  # what was never measured comes last
        return np.array([-speeds.get(identity.decode(), -np.inf) for identity in table["id"].tolist()])
    if sort == "planes":
        return table["planes"].sum(axis=1)
    if sort == "cse":
        return table["additions_cse"]
    if sort == "created":
        return np.array(index.words, dtype=object)[index.texts["created"][found]].astype(str)
    return table[sort] if sort in ("rank", "additions", "growth") else None


def _order(table: NDArray[Any], key: NDArray[Any] | None) -> NDArray[np.int64]:
    """Places in the order of a key and of what ties go by, which is packed into one number: sorting takes longest."""
    sizes = np.sort(table["format"], axis=1).astype(np.int64)
    packed = ((sizes[:, 0] * 128 + sizes[:, 1]) * 128 + sizes[:, 2]) * 4 + _rings(table)
    packed = (packed << 19) + table["rank"]  # 64^3 at most
    packed = (packed << 20) + np.minimum(table["planes"].sum(axis=1, dtype=np.int64), (1 << 20) - 1)
    # Eight digits of an id tell apart whatever else is equal, and numbers are sorted faster than texts.
    digits = np.ascontiguousarray(table["id"]).view(">u8").reshape(-1, 8)[:, 0].astype(np.uint64)
    return np.lexsort([digits, table["additions_cse"], packed, *([] if key is None else [key])])
