"""Kemper's "Bini" matrices: ``Bini n m p R``, a line that names the columns, and one row a product.

``k ; Gamma ; Alpha ; Beta`` holds the coefficients of product k in C, A and B, each row-major; the line that begins
with "product" says their order. Files over F2 say "mod 2" in a comment
(https://github.com/a1880/matrix-multiplication).
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from catalog.formats.draft import Draft
from catalog.formats.errors import shown
from catalog.formats.factors import Numbers, require_cells
from catalog.formats.text_common import content_lines, draft_of, numbered, require_ring, stated_ring, text_of
from catalog.scheme import Format, Ring, Scheme

_NAMES = ("alpha", "beta", "gamma")
_ORDER = ("gamma", "alpha", "beta")


def accepts(data: bytes) -> bool:
    """Whether the first line begins with the word Bini."""
    first = content_lines(data, 1)
    return bool(first) and re.match(rb"Bini\s+\d", first[0]) is not None


def loads(data: bytes) -> list[Draft]:
    """The scheme.

    Raises:
        ValueError: a row has too few or too many numbers, or a product is missing or given twice.
    """
    numbers = Numbers()
    sizes = (0, 0, 0)
    rank = 0
    order: tuple[str, ...] = _ORDER
    rows: dict[str, dict[int, NDArray[np.int32]]] = {name: {} for name in _NAMES}
    entries: dict[str, int] = {}
    for count, line in numbered(text_of(data)):
        content = line.partition("#")[0].split()
        if not content:
            continue
        try:
            if content[0] == "Bini":
                if rank:
                    raise ValueError("a second line 'Bini n m p R'")
                sizes, rank = _header(content[1:])
                entries = dict(
                    zip(_NAMES, (sizes[0] * sizes[1], sizes[1] * sizes[2], sizes[0] * sizes[2]), strict=True)
                )
                require_cells(max(entries.values()), rank)
            elif content[0].lower() == "product":
                order = tuple(word.lower() for word in content[1:])
                if sorted(order) != sorted(_NAMES):
                    raise ValueError(f"the columns are {shown(' '.join(content[1:]))} and not Gamma Alpha Beta")
            elif not rank:
                raise ValueError("a row before the line 'Bini n m p R'")
            else:
                _row(numbers, line.partition("#")[0], order, entries, rank, rows)
        except ValueError as error:
            raise ValueError(f"line {count}: {error}") from None
    if len(rows["alpha"]) != rank or not rank:
        raise ValueError(f"it has {len(rows['alpha'])} products where its first line says {rank}")
    factors = [numbers.factor(np.array([rows[name][term] for term in range(rank)]).T) for name in _NAMES]
    return [draft_of("Bini matrices", factors, sizes=sizes, ring=stated_ring(data))]


def _header(words: list[str]) -> tuple[tuple[int, int, int], int]:
    if len(words) != 4 or not all(word.isdecimal() and len(word) < 9 for word in words) or int(words[3]) < 1:
        raise ValueError("the line must be 'Bini n m p R' with sizes and a rank")
    m, k, n = Format(*(int(word) for word in words[:3])).checked()
    return (m, k, n), int(words[3])


def _row(
    numbers: Numbers,
    line: str,
    order: tuple[str, ...],
    entries: dict[str, int],
    rank: int,
    rows: dict[str, dict[int, NDArray[np.int32]]],
) -> None:
    product, *parts = line.split(";")
    if len(parts) != 3 or not product.strip().isdecimal():
        raise ValueError("a row must be the number of a product and three groups of numbers, with ';' between them")
    term = int(product) - 1 if len(product) < 20 else -1
    if not 0 <= term < rank or term in rows["alpha"]:
        raise ValueError(f"the product {shown(product.strip())} is given twice or lies outside 1..{rank}")
    for name, part in zip(order, parts, strict=True):
        cells = part.split()
        if len(cells) != entries[name]:
            raise ValueError(f"{len(cells)} numbers of {name.capitalize()} and not {entries[name]}")
        rows[name][term] = np.array([numbers[cell] for cell in cells], dtype=np.int32)


def dumps(scheme: Scheme) -> bytes:
    """The scheme, C not transposed.

    Raises:
        ValueError: the scheme is over F3 or has denominators.
    """
    require_ring(scheme, "a file of Bini matrices", Ring.F2, Ring.Z, Ring.Q)
    if scheme.denominator > 1:
        raise ValueError("a file of Bini matrices holds integers and the scheme has denominators; use json")
    lines = ["# Bini matrices (mod 2!)" if scheme.ring is Ring.F2 else "# Bini matrices"]
    lines += [f"Bini {scheme.m} {scheme.k} {scheme.n} {scheme.rank}", "", "product Gamma Alpha Beta"]
    columns = [factor.T.tolist() for factor in (scheme.W, scheme.U, scheme.V)]
    for term in range(scheme.rank):
        groups = (" ".join(f"{entry:2d}" for entry in column[term]) for column in columns)
        lines.append(f"{term + 1} ; " + " ; ".join(groups))
    return ("\n".join(lines) + "\n").encode()
