"""Perminov's ternary_flip_graph text: sizes and rank, then all numbers of U, V and W, term after term.

``n m p R`` and three lines of R*n*m, R*m*p and R*p*n numbers; a file of several schemes begins with their number; over
Q each number is a pair, numerator and denominator. C is transposed (Perminov, Fast matrix multiplication via ternary
meta flip graphs, 2025).
"""

from __future__ import annotations

import re
from array import array

import numpy as np

from catalog.formats.draft import Draft
from catalog.formats.factors import Codes, Numbers, require_cells
from catalog.formats.text_common import content_lines, draft_of, line_at, pieces, stated_ring, text_of, transposed_order
from catalog.scheme import Factor, Format, Ring, Scheme

_HEADER = re.compile(rb"[1-9]\d?[ \t]+[1-9]\d?[ \t]+[1-9]\d?[ \t]+[1-9]\d{0,7}")
_ROW = re.compile(rb"-?\d+(?:\s|$)")
_COMMENT = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_TOKEN = re.compile(r"\S+")


def accepts(data: bytes) -> bool:
    """Whether it begins with sizes and a rank, perhaps after a count, and goes on with a row of integers."""
    lines = content_lines(data, 3)
    if lines and re.fullmatch(rb"\d{1,8}", lines[0]):
        lines = lines[1:]
    if len(lines) < 2 or not _HEADER.fullmatch(lines[0]) or not _ROW.match(lines[1]):
        return False
    m, k, _, rank = map(int, lines[0].split())
    cells = len(lines[1].split())
    # A row of another format can look like a header; U follows it in one line, or broken where no '#' divides matrices.
    return cells in (m * k * rank, 2 * m * k * rank) or (cells < m * k * rank and b"\n#" not in data)


def loads(data: bytes) -> list[Draft]:
    """All schemes of the file. Lines may be broken anywhere; lines that begin with '#' are comments.

    Raises:
        ValueError: a number is none, or there are too few or too many of them.
    """
    text = _COMMENT.sub("", text_of(data))
    numbers = Numbers()
    read = array("i")
    for start, piece in pieces(text):
        try:
            read.extend([numbers[cell] for cell in piece.split()])
        except ValueError as error:
            wrong = next(found for found in _TOKEN.finditer(piece) if found[0] not in numbers)
            raise ValueError(f"line {line_at(text, start + wrong.start())}: {error}") from None
    codes = np.frombuffer(read, dtype=np.int32)
    several = len(text.lstrip().partition("\n")[0].split()) == 1
    ring = stated_ring(data)
    try:
        return _schemes(numbers, codes, several, 1, ring)
    except ValueError as plain:
        try:
            return _schemes(numbers, codes, several, 2, ring)
        except ValueError:
            raise plain from None


def _schemes(numbers: Numbers, codes: Codes, several: bool, width: int, ring: Ring | None) -> list[Draft]:
    """The schemes where each coefficient takes ``width`` numbers: 2 for pairs of numerator and denominator."""
    position = 0

    def whole(what: str) -> int:
        nonlocal position
        value = numbers.known[codes[position]] if position < len(codes) else "missing"
        if not isinstance(value, int) or not 1 <= value < 1 << 31:
            raise ValueError(f"{what} of {where} is {value}, which is no positive integer")
        position += 1
        return value

    where = "the file"
    count = whole("the number of schemes") if several else 1
    drafts = []
    for index in range(count):
        where = f"scheme {index + 1}"
        m, k, n = Format(*(whole(size) for size in ("n", "m", "p"))).checked()
        rank = whole("the rank")
        factors = []
        for entries in (m * k, k * n, n * m):
            require_cells(entries, rank)
            part = codes[position : position + width * entries * rank]
            if len(part) < width * entries * rank:
                raise ValueError(
                    f"scheme {index + 1} ends after {len(part)} numbers of a matrix where its header "
                    f"{m} {k} {n} {rank} asks for {entries} x {rank}"
                )
            position += len(part)
            factors.append(_factor(numbers, part.reshape(rank, entries, width)))
        name = f"{index + 1} of {count}" if count > 1 else ""
        drafts.append(draft_of("flip graph text", factors, sizes=(m, k, n), ring=ring, name=name))
    if position < len(codes):
        raise ValueError(f"{len(codes) - position} numbers are left after the last scheme")
    return drafts


def _factor(numbers: Numbers, part: Codes) -> tuple[Factor, int]:
    """[entries, r] numerators and their denominator from [r, entries, 1 or 2] codes."""
    if part.shape[2] == 1:
        factor, denominator = numbers.factor(part[:, :, 0].T)
        return factor, denominator
    pairs, inverse = np.unique(part.reshape(-1, 2), axis=0, return_inverse=True)
    quotients = Numbers()
    table = []
    for above, below in pairs.tolist():
        top, bottom = numbers.known[above], numbers.known[below]
        if not isinstance(top, int) or not isinstance(bottom, int) or bottom < 1:
            raise ValueError(f"{top} {bottom} is no pair of numerator and denominator")
        table.append(quotients[f"{top}/{bottom}"])
    codes = np.array(table, dtype=np.int32)[inverse.reshape(part.shape[:2])]
    return quotients.factor(codes.T)


def dumps(scheme: Scheme) -> bytes:
    """The scheme with C transposed; pairs of numerator and denominator if it has denominators.

    Over F3 the residue -1 is written as 2, as the program does. The file does not say its ring: the program is told.
    """
    mats = [scheme.U.T, scheme.V.T, scheme.W[transposed_order(scheme)].T]
    lines = [f"{scheme.m} {scheme.k} {scheme.n} {scheme.rank}"]
    for mat, denominator in zip(mats, scheme.denominators, strict=True):
        entries = (mat % 3 if scheme.ring is Ring.F3 else mat).ravel().tolist()
        if scheme.denominator == 1:
            lines.append(" ".join(map(str, entries)))
        else:
            lines.append(" ".join(f"{entry} {denominator}" for entry in entries))
    return ("\n".join(lines) + "\n").encode()
