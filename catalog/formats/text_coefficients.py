"""Coefficient matrices U, V and W as three blocks of rows with '#' lines between them (Benson and Ballard, 2015).

Rows are entries and columns are products; C is not transposed. A file with "eliminated" common sums has more rows in U
and V and more columns in W, for intermediate variables, and three more blocks after a line "# Substitution
information" that define them: sums of entries of A, of entries of B, and of products.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field

import numpy as np

from catalog.formats.draft import Draft, Entry
from catalog.formats.errors import shown
from catalog.formats.factors import Codes, Numbers, sparse_factor
from catalog.formats.text_common import content_lines, draft_of, pieces, require_ring, stated_ring, text_of, written
from catalog.scheme import Factor, Ring, Scheme

# The parameter of an approximate scheme: a letter, a power, and 'i' for the inverse, as in -x2i.
_PARAMETER = re.compile(r"-*(?:\d+\*?)?[a-z]\d*i?")
_CELL = re.compile(rb"[-+]?(?:[\d.]+(?:/\d+|[eE][-+]?\d+)?|-*(?:\d+\*?)?[a-z]\d*i?)")
_SUBSTITUTION = re.compile(r"#\s*substitution", re.IGNORECASE)
# The most additions that putting in intermediate variables may take.
_STEPS = 1 << 24


@dataclass
class _Block:
    """The rows between two lines that begin with '#'.

    Attributes:
        line: the number of the line before it.
        width: of every row.
        codes: of all coefficients, row after row.
    """

    line: int
    width: int = 0
    codes: array = field(default_factory=lambda: array("i"))

    def matrix(self) -> Codes:
        """The codes as [rows, width]."""
        return np.frombuffer(self.codes, dtype=np.int32).reshape(-1, max(self.width, 1))


def accepts(data: bytes) -> bool:
    """Whether it begins with a row of numbers or parameters and has at least two lines that begin with '#'."""
    first = content_lines(data, 1)
    if not first or data.count(b"\n#") < 2:
        return False
    return all(_CELL.fullmatch(cell) for cell in first[0][:4096].split()[: -1 if len(first[0]) > 4096 else None])


def loads(data: bytes) -> list[Draft]:
    """The scheme; intermediate variables are put in where they are used.

    Raises:
        ValueError: the scheme is approximate, there are not three blocks, or their sizes do not fit.
    """
    numbers = Numbers()
    blocks = [_Block(0)]
    substituted = 0
    for count, line in enumerate(text_of(data).split("\n"), 1):
        line = line.strip()
        if line.startswith("#"):
            # The rows before it end a block. An empty block is a heading, except among the substitutions.
            if blocks[-1].width or substituted:
                blocks.append(_Block(count))
            if _SUBSTITUTION.match(line):
                if substituted:
                    raise ValueError(f"line {count}: a second line of substitution information")
                substituted = len(blocks)
        elif line:
            _add_row(blocks[-1], numbers, line, count)
    if not blocks[-1].width and not substituted:
        blocks.pop()
    plain, extra = (blocks[: substituted - 1], blocks[substituted - 1 :]) if substituted else (blocks, [])
    if len(plain) != 3 or len(extra) > 3:
        raise ValueError(f"it has {len(plain)} blocks of coefficients; U, V and W must be three, with '#' between them")
    if extra:
        factors = _eliminated(numbers, plain, extra + [_Block(0)] * (3 - len(extra)))
    else:
        factors = [numbers.factor(block.matrix()) for block in plain]
    ranks = {factor.shape[1] for factor, _ in factors}
    if len(ranks) > 1:
        raise ValueError(f"U, V and W have {', '.join(str(factor.shape[1]) for factor, _ in factors)} columns")
    return [draft_of("coefficient matrices", factors, ring=stated_ring(data))]


def _add_row(block: _Block, numbers: Numbers, line: str, count: int) -> None:
    before = len(block.codes)
    cells: list[str] = []
    try:
        for _, piece in pieces(line):
            cells = piece.split()
            block.codes.extend([numbers[cell] for cell in cells])
    except ValueError as error:
        for cell in cells:
            if _PARAMETER.fullmatch(cell):
                raise ValueError(
                    f"line {count}: the coefficient {shown(cell)} is a parameter, so the scheme is approximate "
                    "(of border rank) and not exact; only exact schemes can be read"
                ) from None
        raise ValueError(f"line {count}: {error}") from None
    width = len(block.codes) - before
    block.width = block.width or width
    if width != block.width:
        raise ValueError(f"line {count}: a row of {width} coefficients after rows of {block.width}")


def _eliminated(numbers: Numbers, plain: list[_Block], extra: list[_Block]) -> list[tuple[Factor, int]]:
    """U, V and W of a file with intermediate variables, without them."""
    factors = []
    for mode, name in enumerate("UVW"):
        line = max(plain[mode].line, extra[mode].line)
        whole = plain[mode].matrix() if mode < 2 else plain[mode].matrix().T
        sums = extra[mode].matrix()
        own = len(whole) - len(sums)
        if own < 1 or (len(sums) and sums.shape[1] != own):
            raise ValueError(
                f"line {line}: {len(sums)} substitutions of {sums.shape[1]} coefficients do not fit "
                f"{name}, which has {len(whole)} {'rows' if mode < 2 else 'columns'} with them"
            )
        # terms[j] holds column j of U and V, or row j of W, by own rows.
        terms: list[dict[int, Entry]] = []
        uses = [sum(1 for code in row.tolist() if numbers.known[code]) for row in whole[own:]]
        if sum(use * own for use in uses) > _STEPS:
            raise ValueError(f"line {line}: the substitutions of {name} are used too often")
        defined = [
            [(at, numbers.known[code]) for at, code in enumerate(row) if numbers.known[code]] for row in sums.tolist()
        ]
        for column in whole.T.tolist():
            term = {at: numbers.known[code] for at, code in enumerate(column[:own])}
            for code, meaning in zip(column[own:], defined, strict=True):
                for at, value in meaning if numbers.known[code] else ():
                    term[at] += numbers.known[code] * value
            terms.append(term)
        factor, denominator = sparse_factor(terms, own)
        factors.append((factor if mode < 2 else np.ascontiguousarray(factor.T), denominator))
    return factors


def dumps(scheme: Scheme) -> bytes:
    """The three matrices, C not transposed, with fractions p/q.

    Raises:
        ValueError: the scheme is over F2 or F3.
    """
    require_ring(scheme, "a file of coefficient matrices", Ring.Z, Ring.Q)
    blocks = ["\n".join(" ".join(row) for row in written(scheme, mode)) for mode in range(3)]
    return (f"# {scheme.format} rank {scheme.rank}\n" + "\n#\n".join(blocks) + "\n").encode()
