"""Maple triads of Sedoglavic's catalogue of fast matrix multiplication (https://fmm.univ-lille.fr, ``*_tensor.mpl``).

``Tensor:=TriadSet([Triad([Matrix(n,m,[[..],..]),Matrix(m,p,..),Matrix(p,n,..)]),...]):`` after definitions of A, B, C
and before a line that checks them; the third matrix is that of C transposed.
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

_PARAMETER = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_COMMENT = re.compile(r"#[^\n]*|\\\n")
_TENSOR = re.compile(r"\bTensor\s*:=")
# No token begins with blanks: looking for what follows them would take time quadratic in their number.
# A row of a matrix is one token.
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|\[[^\[\]()]*\]|\S")


def accepts(data: bytes) -> bool:
    """Whether one of its first lines defines a Tensor, the name that the catalogue gives it."""
    return re.search(rb"\bTensor\s*:=", data[: 1 << 20]) is not None


def loads(data: bytes) -> list[Draft]:
    """The scheme.

    Raises:
        ValueError: there is no set of triads, a matrix has another size than it says, or an entry is no number.
    """
    text = blanked(text_of(data), _COMMENT)
    found = _TENSOR.search(text)
    if not found:
        raise ValueError("it defines no Tensor")
    reader = _Triads(text, found.end())
    try:
        reader.whole()
    except ValueError as error:
        raise ValueError(f"line {line_at(text, reader.position)}: {error}") from None
    factors = [
        reader.numbers.factor(np.frombuffer(codes, dtype=np.int32).reshape(reader.rank, -1).T) for codes in reader.codes
    ]
    a, b, c = reader.shapes
    return [draft_of("Maple triads", factors, sizes=sizes_of(a, b, c))]


class _Triads:
    """Walks over the tokens once, with loops for every list, so that no nesting can exhaust the stack."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._next = start
        self.position = start
        self.token = ""
        self.numbers = Numbers()
        self.codes = [array("i") for _ in range(3)]
        self.shapes: list[tuple[int, int]] = []
        self.rank = 0
        self._advance()

    def _advance(self) -> None:
        found = _TOKEN.search(self._text, self._next)
        self.position, self._next = found.span() if found else (self._next, len(self._text))
        self.token = found[0] if found else ""

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if self.token != token:
                raise ValueError(f"{shown(self.token) if self.token else 'the end'} where '{token}' must stand")
            self._advance()

    def _more(self) -> bool:
        """Whether the list goes on; its end is left to the caller."""
        if self.token == ",":
            self._advance()
            return True
        return False

    def whole(self) -> None:
        if self.token != "TriadSet":
            raise ValueError(f"the Tensor is {shown(self.token)}, a placeholder and no TriadSet of numbers")
        self._expect("TriadSet", "(", "[")
        while not self.rank or self._more():
            self._expect("Triad", "(", "[")
            for mode in range(3):
                if mode:
                    self._expect(",")
                self._matrix(mode)
            self._expect("]", ")")
            self.rank += 1
        self._expect("]", ")")

    def _matrix(self, mode: int) -> None:
        self._expect("Matrix", "(")
        stated = (self._size(), self._size()) if self.token != "[" else None
        self._expect("[")
        rows, width = 0, 0
        while not rows or self._more():
            row = self._row()
            self.codes[mode].extend(row)
            rows += 1
            if rows > 1 and len(row) != width:
                raise ValueError(f"a row of {len(row)} entries after rows of {width}")
            width = len(row)
        self._expect("]", ")")
        shape = (rows, width)
        if stated not in (None, shape):
            raise ValueError(f"a matrix of {rows} x {width} entries says that it has {stated[0]} x {stated[1]}")
        if len(self.shapes) <= mode:
            self.shapes.append(shape)
        if self.shapes[mode] != shape:
            raise ValueError(f"a matrix of {rows} x {width} entries; that of the first triad has another size")

    def _size(self) -> int:
        token = self.token
        if not token.isdecimal() or len(token) > 4:
            raise ValueError(f"{shown(token)} is no size of a matrix")
        self._advance()
        self._expect(",")
        return int(token)

    def _row(self) -> list[int]:
        if len(self.token) < 2:
            raise ValueError(f"{shown(self.token) if self.token else 'the end'} where a row of numbers must stand")
        cells = self.token[1:-1].split(",", MAX_DIMENSION)
        for cell in cells:
            parameter = _PARAMETER.search(cell)
            if parameter:
                raise ValueError(f"the entry {shown(parameter[0])} is a parameter; only schemes of numbers can be read")
        row = self.numbers.row(cells)
        self._advance()
        return row


def dumps(scheme: Scheme) -> bytes:
    """The scheme as the catalogue writes it: definitions, the set of triads, and a line that Maple expands to zero.

    Raises:
        ValueError: the scheme is over F2 or F3.
    """
    require_ring(scheme, "a set of triads", Ring.Z, Ring.Q)
    m, k, n = scheme.format
    u, v, w = (written(scheme, mode) for mode in range(3))

    def matrix(rows: list[list[str]]) -> str:
        return f"Matrix({len(rows)}, {len(rows[0])}, [{','.join('[' + ','.join(row) + ']' for row in rows)}])"

    def named(letter: str, rows: int, columns: int) -> str:
        return matrix([[f"{letter}_{i}_{j}" for j in range(1, columns + 1)] for i in range(1, rows + 1)])

    triads = [
        ", ".join(
            (
                matrix([[u[i * k + j][term] for j in range(k)] for i in range(m)]),
                matrix([[v[i * n + j][term] for j in range(n)] for i in range(k)]),
                matrix([[w[i * n + j][term] for i in range(m)] for j in range(n)]),
            )
        )
        for term in range(scheme.rank)
    ]
    # <X, A> is the trace of X^T A; the sum of <X, A> <Y, B> Z^T over all triads is the product A.B.
    part = "LinearAlgebra:-Trace(LinearAlgebra:-Transpose(op([1,i,1,{0}],Tensor)).{1})"
    check = (
        f"map(expand,A.B-add({part.format(1, 'A')}*{part.format(2, 'B')}"
        f"*LinearAlgebra:-Transpose(op([1,i,1,3],Tensor)),i=1..{scheme.rank}));"
    )
    lines = [
        f"A:={named('A', m, k)}:",
        f"B:={named('B', k, n)}:",
        f"C:={named('C', n, m)}:",
        f"Tensor:=TriadSet([{', '.join(f'Triad([{triad}])' for triad in triads)}]):",
        check,
    ]
    return ("\n".join(lines) + "\n").encode()
