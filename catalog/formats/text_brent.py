"""Kemper's listing of the Brent equations of a scheme, one a line, from which the scheme is read back.

``111212:   1* 0*-1 +[ 1* 1* 1]+ ...  = 1`` is the equation of A[1,1], B[1,2], C[1,2]: for every product its three
coefficients, in brackets where none is zero. Files over F2 write ``101 +[111]+ ...``. Every coefficient stands there
many times, and the reader refuses a file in which two of them differ.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np

from catalog.formats.draft import Draft
from catalog.formats.errors import shown
from catalog.formats.factors import Numbers
from catalog.formats.text_common import draft_of, numbered, require_ring, sizes_of, text_of
from catalog.scheme import Ring, Scheme

_EQUATION = re.compile(rb"^[ \t]*\d{6}:[^=\n]*=", re.MULTILINE)
_PIECE = re.compile(r"[\[\s]*(-?[\d./]+)\s*\*\s*(-?[\d./]+)\s*\*\s*(-?[\d./]+)[\]\s]*")
_MODULO_2 = re.compile(r"[\[\s]*([01])([01])([01])[\]\s]*")
_LARGEST = 64 << 20


def accepts(data: bytes) -> bool:
    """Whether one of its first lines is an equation with six indices."""
    return _EQUATION.search(data[: 1 << 20]) is not None


def loads(data: bytes) -> list[Draft]:
    """The scheme. Lines that are no equations, as those of statistics, are skipped.

    Raises:
        ValueError: an equation is damaged, two of them contradict each other, or an entry is in none.
    """
    numbers = Numbers()
    rows: tuple[dict[tuple[int, int], list[int]], ...] = ({}, {}, {})
    ring = None
    for count, line in numbered(text_of(data)):
        indices, colon, rest = line.partition(":")
        if not colon or len(indices) != 6 or not indices.isdecimal():
            continue
        try:
            modulo, triples = _triples(numbers, rest.partition("=")[0])
            if ring is not None and not modulo:
                raise ValueError("an equation over the integers after one mod 2")
            ring = Ring.F2 if modulo else None
            for mode in range(3):
                key = int(indices[2 * mode]), int(indices[2 * mode + 1])
                row = [triple[mode] for triple in triples]
                known = rows[mode].setdefault(key, row)
                if known != row:
                    raise ValueError(f"the coefficients of {'ABC'[mode]}{key} are not those of an equation before")
        except ValueError as error:
            raise ValueError(f"line {count}: {error}") from None
    shapes = [(max(r for r, _ in table), max(c for _, c in table)) for table in rows if table]
    if len(shapes) < 3:
        raise ValueError("it holds no Brent equation")
    factors = []
    for table, (height, width), letter in zip(rows, shapes, "ABC", strict=True):
        keys = list(product(range(1, height + 1), range(1, width + 1)))
        if len(table) != len(keys):
            raise ValueError(f"only {len(table)} of the {len(keys)} entries of {letter} are in an equation")
        factors.append(numbers.factor(np.array([table[key] for key in keys], dtype=np.int32)))
    if len({factor.shape[1] for factor, _ in factors}) > 1:
        raise ValueError("its equations have several numbers of products")
    return [draft_of("Brent equations", factors, sizes=sizes_of(*shapes), ring=ring)]


def _triples(numbers: Numbers, text: str) -> tuple[bool, list[tuple[int, int, int]]]:
    """Whether the equation is one mod 2, and the codes of the three coefficients of each product."""
    triples = []
    modulo = "*" not in text
    # A bracket may stand without blanks beside the sign: "]+[" and "]+ ".
    for piece in text.split("+"):
        found = (_MODULO_2 if modulo else _PIECE).fullmatch(piece)
        if not found:
            raise ValueError(f"{shown(piece.strip())} is no product of three coefficients")
        a, b, c = (numbers[coefficient] for coefficient in found.groups())
        triples.append((a, b, c))
    return modulo, triples


def dumps(scheme: Scheme) -> bytes:
    """All m*k * k*n * m*n equations.

    Raises:
        ValueError: the scheme is over F3, has denominators or a size of two digits, or the file would be too large.
    """
    require_ring(scheme, "a listing of Brent equations", Ring.F2, Ring.Z, Ring.Q)
    m, k, n = scheme.format
    if scheme.denominator > 1:
        raise ValueError("a listing of Brent equations holds integers and the scheme has denominators; use json")
    if max(scheme.format) > 9:
        raise ValueError(
            f"a listing of Brent equations has one digit for an index, too few for {scheme.format}; use json"
        )
    if scheme.format.volume**2 * (scheme.rank * 12 + 16) > _LARGEST:
        raise ValueError(f"the Brent equations of {scheme} take more than {_LARGEST} bytes; use json")
    modulo = scheme.ring is Ring.F2
    u, v, w = (factor.tolist() for factor in scheme.factors)
    lines = []
    for i, j, p, q, s, t in product(range(m), range(k), range(k), range(n), range(m), range(n)):
        triples = zip(u[i * k + j], v[p * n + q], w[s * n + t], strict=True)
        texts = []
        for triple in triples:
            text = ("" if modulo else "*").join(f"{entry}" if modulo else f"{entry:2d}" for entry in triple)
            texts.append(f"[{text}]" if all(triple) else f" {text} ")
        value = int(i == s and j == p and q == t)
        lines.append(f"{i + 1}{j + 1}{p + 1}{q + 1}{s + 1}{t + 1}: {'+'.join(texts)} = {value}")
    return ("\n".join(lines) + "\n").encode()
