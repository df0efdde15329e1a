"""JSON files of FastMatrixMultiplication (Perminov 2025, arXiv 2511.20317) and of MMC, which extends them.

C is transposed. ``u``, ``v``, ``w`` hold one row per term, of integers or of fractions as text. MMC adds ``fields``,
sparse rows ``u_sparse`` and complex entries ``[re, im]``. The addition-reduced form names intermediate sums, see
``catalog.formats.reduced``.
"""

from __future__ import annotations

import json
from typing import Any

from catalog.formats.draft import Draft, Entry
from catalog.formats.factors import LARGEST, factor_from, factor_from_sparse
from catalog.formats.numbers import entry_of
from catalog.formats.reduced import expanded
from catalog.scheme import MAX_DIMENSION, Factor, Ring

_MARKS = (b'"u"', b'"u_sparse"', b'"lineage"')


def accepts(data: bytes) -> bool:
    """Whether this is a JSON object with sizes ``n`` and factors in lower case."""
    return data.lstrip()[:1] == b"{" and b'"n"' in data and any(mark in data for mark in _MARKS)


def loads(data: bytes) -> list[Draft]:
    """The one draft of a document.

    Raises:
        ValueError: the document is no JSON, lacks a key, has no coefficients, or a value does not fit.
    """
    document = _parsed(data)
    kind = "MMC JSON" if "fields" in document or "u_sparse" in document else "Perminov JSON"
    sizes = document.get("n")
    if not isinstance(sizes, list) or len(sizes) != 3 or not all(type(s) is int for s in sizes):
        raise ValueError("n must be a list of three sizes")
    if not all(1 <= size <= MAX_DIMENSION for size in sizes):
        raise ValueError(f"n is {sizes}, and sizes must lie in 1..{MAX_DIMENSION}")
    if document.get("commutative") is True:
        raise ValueError("it is a commutative scheme, which cannot multiply matrices of blocks")
    m, k, n = sizes
    factors, denominators = zip(
        *(
            _factor(document, name, entries, name == "w")
            for name, entries in zip("uvw", (m * k, k * n, m * n), strict=True)
        ),
        strict=True,
    )
    stated = document.get("m")
    rank = factors[0].shape[1]
    if type(stated) is int and stated != rank:
        raise ValueError(f"it states {stated} terms and has {rank}")
    return [Draft(kind, factors, denominators, (m, k, n), _ring(document))]


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        # Decimals stay text, so that none is rounded.
        document = json.loads(data, parse_float=str, parse_constant=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document


def _ring(document: dict[str, Any]) -> Ring | None:
    """The finite field, where the file names one and nothing wider."""
    if document.get("z2") is True:
        return Ring.F2
    fields = document.get("fields")
    return Ring(fields[0]) if fields in (["F2"], ["F3"]) else None


def _factor(document: dict[str, Any], name: str, entries: int, outputs: bool) -> tuple[Factor, int]:
    """One factor, [entries, r], in any of the forms."""
    rows: Any
    sparse = document.get(f"{name}_sparse")
    if sparse is not None:
        factor, denominator = _from_sparse(name, sparse, entries, document.get("m"))
    else:
        rows = document.get(name)
        if not isinstance(rows, list) or not rows:
            what = "it is a stub that names how to make the scheme; import" if "lineage" in document else "give"
            raise ValueError(f"it has no coefficients {name}; {what} a file with u, v and w")
        if f"{name}_fresh" in document or any(
            isinstance(row, list) and row[:1] and isinstance(row[0], dict) for row in rows
        ):
            fresh = document.get(f"{name}_fresh", [])
            # Sums of the reduced form run over products for w, and over entries of A or B for u and v.
            width = len(document["u"]) if outputs and isinstance(document.get("u"), list) else entries
            matrix = expanded(name, fresh, rows, width)
            if outputs:
                return factor_from(matrix)
            rows = matrix
        factor, denominator = factor_from(rows)
    if factor.shape[1] != entries:
        raise ValueError(f"{name} has rows of {factor.shape[1]} entries; the sizes ask for {entries}")
    return factor.T, denominator


def _from_sparse(name: str, sparse: Any, entries: int, rank: Any) -> tuple[Factor, int]:
    """A factor [r, entries] from rows ``{"0": {"i": [indices], "c": [coefficients]}}``; others are zero."""
    if not isinstance(sparse, dict) or type(rank) is not int or not 0 < rank <= LARGEST // entries:
        raise ValueError(f"{name}_sparse must be an object of rows, and m their number")
    found: dict[tuple[int, int], Entry] = {}
    for key, row in sparse.items():
        if not key.isascii() or not key.isdigit() or len(key) > 9 or int(key) >= rank:
            raise ValueError(f"{name}_sparse has a row {key[:20]!r}; rows are numbered 0..{rank - 1}")
        if not isinstance(row, dict) or not isinstance(row.get("i"), list) or not isinstance(row.get("c"), list):
            raise ValueError(f"row {key} of {name}_sparse must have lists i and c")
        if len(row["i"]) != len(row["c"]):
            raise ValueError(f"row {key} of {name}_sparse has {len(row['i'])} indices and {len(row['c'])} coefficients")
        for index, coefficient in zip(row["i"], row["c"], strict=True):
            if type(index) is not int or not 0 <= index < entries:
                raise ValueError(f"row {key} of {name}_sparse has the index {index!r:.20}; there are {entries} entries")
            place = int(key), index
            found[place] = found.get(place, 0) + entry_of(coefficient)
    return factor_from_sparse((rank, entries), found)
