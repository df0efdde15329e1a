"""Nested lists of Mathematica, ``{{A, B, C}, ...}`` with matrices as lists of rows: one triple a term.

Kauers and Moosbauer publish schemes so; C is transposed there, an n x m matrix. Lines break anywhere, entries may be
p/q and ``(* comments *)`` are skipped.
"""

from __future__ import annotations

import re
from array import array

import numpy as np

from catalog.formats.draft import Draft
from catalog.formats.errors import shown
from catalog.formats.factors import Numbers
from catalog.formats.text_common import blanked, draft_of, line_at, require_ring, sizes_of, text_of, written
from catalog.scheme import MAX_DIMENSION, Ring, Scheme

# An unclosed comment reaches to the end, so that the search stays linear.
_COMMENT = re.compile(r"\(\*(?:.*?\*\)|.*\Z)|\\\n", re.DOTALL)
# No token begins with blanks: looking for what follows them would take time quadratic in their number.
# A row of numbers is one token.
_TOKEN = re.compile(r"\{([^{}]*)\}|\S")
_START = re.compile(rb"\s*(?:\(\*.*?\*\)\s*)*(?:[A-Za-z]\w*\s*=\s*)?\{\s*\{\s*\{\s*\{\s*[-+\d.]", re.DOTALL)
_NAMED = re.compile(r"\s*[A-Za-z]\w*\s*=")
_DEPTH = 4
_LEVELS = ("terms", "matrices of a term", "rows of a matrix", "entries of a row")


def accepts(data: bytes) -> bool:
    """Whether it begins with four opening braces and a number."""
    return _START.match(data[: 1 << 16].removeprefix(b"\xef\xbb\xbf")) is not None


def loads(data: bytes) -> list[Draft]:
    """The scheme.

    Raises:
        ValueError: the braces do not nest as terms of three matrices of one size each, or an entry is no number.
    """
    text = blanked(text_of(data), _COMMENT)
    reader = _Lists()
    named = _NAMED.match(text)
    where = named.end() if named else 0
    try:
        for found in _TOKEN.finditer(text, where):
            where = found.start()
            reader.take(found[0], found[1])
        reader.finish()
    except ValueError as error:
        raise ValueError(f"line {line_at(text, where)}: {error}") from None
    a, b, c = ((reader.expected[2, mode], reader.expected[3, mode]) for mode in range(3))
    rank = reader.counts[0]
    factors = [
        reader.numbers.factor(np.frombuffer(codes, dtype=np.int32).reshape(rank, -1).T) for codes in reader.codes
    ]
    return [draft_of("Mathematica lists", factors, sizes=sizes_of(a, b, c))]


class _Lists:
    """The state of a reader of four nested levels; no list is ever kept, only the codes of its numbers.

    Attributes:
        codes: of the numbers of A, B and C.
        counts: of elements of the list that is open at each level.
        expected: of elements at a level of each matrix, as first seen.
    """

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.codes = [array("i") for _ in range(3)]
        self.counts = [0] * _DEPTH
        self.expected: dict[tuple[int, int], int] = {(1, 0): 3}
        self._depth = 0
        self._ready = True  # for an element, as at the start of a list and after a comma
        self._ended = False

    def take(self, token: str, row: str | None) -> None:
        if self._ended:
            if token != ";":
                raise ValueError(f"unexpected {shown(token)} after the last brace")
        elif row is not None:
            if self._depth != _DEPTH - 1:
                raise ValueError(f"a row of numbers {self._depth + 1} braces deep; they stand {_DEPTH} deep")
            self._element()
            mode = self.counts[1] - 1
            cells = row.split(",", MAX_DIMENSION)
            self.codes[mode].extend(self.numbers.row(cells))
            self._expect(_DEPTH - 1, mode, len(cells))
        elif token == "{":
            if self._depth == _DEPTH - 1:
                raise ValueError(f"{shown(token)} in a row of numbers, or more than {_DEPTH} nested braces")
            if self._depth:
                self._element()
            self.counts[self._depth] = 0
            self._depth += 1
            self._ready = True
        elif token == "," and self._depth and not self._ready:
            self._ready = True
        elif token == "}" and self._depth and not self._ready:
            self._close()
        else:
            raise ValueError(f"unexpected {shown(token)}")

    def finish(self) -> None:
        if not self._ended:
            raise ValueError("it ends within a list")

    def _element(self) -> None:
        """Count one more element of the open list."""
        level = self._depth - 1
        if not self._ready:
            raise ValueError("a comma is missing")
        self.counts[level] += 1
        if level == 1 and self.counts[1] > 3:
            raise ValueError("a term of more than three matrices")
        self._ready = False

    def _close(self) -> None:
        self._depth -= 1
        level = self._depth
        if level:
            self._expect(level, self.counts[1] - 1 if level > 1 else 0, self.counts[level])
        self._ended = not level

    def _expect(self, level: int, mode: int, count: int) -> None:
        expected = self.expected.setdefault((level, mode), count)
        if count != expected:
            raise ValueError(f"{count} {_LEVELS[level]} where there are {expected} elsewhere")


def dumps(scheme: Scheme) -> bytes:
    """The scheme with C transposed, one term a line.

    Raises:
        ValueError: the scheme is over F2 or F3.
    """
    require_ring(scheme, "a list of matrices", Ring.Z, Ring.Q)
    u, v, w = (written(scheme, mode) for mode in range(3))
    m, k, n = scheme.format
    lines = []
    for term in range(scheme.rank):
        blocks = (
            [[u[i * k + j][term] for j in range(k)] for i in range(m)],
            [[v[i * n + j][term] for j in range(n)] for i in range(k)],
            [[w[i * n + j][term] for i in range(m)] for j in range(n)],
        )
        braced = ("{" + ", ".join("{" + ", ".join(row) + "}" for row in block) + "}" for block in blocks)
        lines.append("{" + ", ".join(braced) + "}")
    return ("{" + ",\n ".join(lines) + "}\n").encode()
