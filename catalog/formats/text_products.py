"""One product of three sums a line, as Kauers and Moosbauer, symmetric-flips and Kemper's "tensor" files write it.

``(a11 + a22)*(b12 - 2*b21)*(c21)``; C is transposed there, so that a line is a term of the trace of A B C (Kauers and
Moosbauer, Flip graphs for matrix multiplication, 2022).
"""

from __future__ import annotations

import re
from functools import cache

from catalog.formats.draft import Draft, Entry
from catalog.formats.errors import shown
from catalog.formats.factors import sparse_factor
from catalog.formats.products import Form, Value, index_of, parse
from catalog.formats.text_common import (
    content_lines,
    draft_of,
    numbered,
    require_ring,
    sizes_of,
    stated_ring,
    text_of,
    transposed_order,
)
from catalog.scheme import Ring, Scheme

_LETTERS = "abc"
_START = re.compile(rb"[^=:;{}]*", re.DOTALL)
_ENTRY = re.compile(rb"(?<![A-Za-z])([abc])(?=[\[_]?\d)|(?<=\d)([abc])(?=[\[_]?\d)", re.IGNORECASE)
# A key holds the row and the column of an entry until the number of columns is known.
_COLUMNS = 256


def accepts(data: bytes) -> bool:
    """Whether the first line is a product in entries of a, b and c, and nothing else."""
    first = content_lines(data, 1)
    if not first or not _START.fullmatch(first[0]):
        return False
    return {(x or y).lower() for x, y in _ENTRY.findall(first[0])} == {b"a", b"b", b"c"}


def loads(data: bytes) -> list[Draft]:
    """The scheme, one term a line. Text after '#' is a comment; one that says "mod 2" sets the ring.

    Raises:
        ValueError: a line is no product of three sums, or the indices belong to no matrix product.
    """
    terms: dict[str, list[Form]] = {letter: [] for letter in _LETTERS}
    shapes = {letter: [0, 0] for letter in _LETTERS}

    @cache
    def value_of(name: str) -> Value:
        letter, row, column = index_of(name)
        if letter not in shapes:
            raise ValueError(f"{shown(name)} is no entry of a, b or c")
        shape = shapes[letter]
        shape[0], shape[1] = max(shape[0], row), max(shape[1], column)
        return Value(1, {letter: {row * _COLUMNS + column: 1}})

    for count, line in numbered(text_of(data)):
        content = line.partition("#")[0].rstrip(" \t,;")
        if not content:
            continue
        try:
            value = parse(content, value_of)
            if len(value.forms) < 3:
                raise ValueError(f"a product without {' and '.join(sorted(shapes.keys() - value.forms.keys()))}")
            scaled = Value(value.scale, {"c": value.forms["c"]}).form("c")
        except ValueError as error:
            raise ValueError(f"line {count}: {error}") from None
        for letter in _LETTERS:
            terms[letter].append(scaled if letter == "c" else value.forms[letter])
    if not terms["a"]:
        raise ValueError("it holds no product")
    sizes = sizes_of(*((shapes[letter][0], shapes[letter][1]) for letter in _LETTERS))
    factors = [
        sparse_factor([_flat(term, shapes[x][1]) for term in terms[x]], shapes[x][0] * shapes[x][1]) for x in _LETTERS
    ]
    return [draft_of("products of sums", factors, sizes=sizes, ring=stated_ring(data))]


def _flat(form: Form, columns: int) -> dict[int, Entry]:
    return {(key // _COLUMNS - 1) * columns + key % _COLUMNS - 1: entry for key, entry in form.items() if entry}


def dumps(scheme: Scheme) -> bytes:
    """The scheme as Kauers and Moosbauer write it: C transposed, one digit an index, one division at the end of a line.

    A scheme over F2 has no signs.

    Raises:
        ValueError: the scheme is over F3, a size has two digits, or a term is zero.
    """
    require_ring(scheme, "a file of products", Ring.F2, Ring.Z, Ring.Q)
    if max(scheme.format) > 9:
        raise ValueError(f"a file of products has one digit for an index, too few for {scheme.format}; use json")
    order = transposed_order(scheme)
    names = [
        [f"a{i // scheme.k + 1}{i % scheme.k + 1}" for i in range(scheme.m * scheme.k)],
        [f"b{i // scheme.n + 1}{i % scheme.n + 1}" for i in range(scheme.k * scheme.n)],
        [f"c{i // scheme.m + 1}{i % scheme.m + 1}" for i in range(scheme.n * scheme.m)],
    ]
    columns = [scheme.U.T.tolist(), scheme.V.T.tolist(), scheme.W[order].T.tolist()]
    below = f"/{scheme.denominator}" if scheme.denominator > 1 else ""
    lines = []
    for term in range(scheme.rank):
        parts = [sum_text(column[term], labels) for column, labels in zip(columns, names, strict=True)]
        if "0" in parts:
            raise ValueError(f"term {term} is zero and a file of products has no zero; use json")
        lines.append("*".join(f"({part})" for part in parts) + below)
    return ("\n".join(lines) + "\n").encode()


def sum_text(coefficients: list[int], names: list[str]) -> str:
    """Integers times names as a sum such as ``-a11 + 2*a12``; "0" where all are zero."""
    text = ""
    for entry, name in zip(coefficients, names, strict=True):
        if entry:
            sign = (" - " if entry < 0 else " + ") if text else ("-" if entry < 0 else "")
            text += sign + ("" if abs(entry) == 1 else f"{abs(entry)}*") + name
    return text or "0"
