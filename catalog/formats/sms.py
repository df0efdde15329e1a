"""The triples of PLinOpt (Dumas, Pernet, Sedoglavic): sparse matrices L [r, mk], R [r, kn] and P [mn, r].

C is row-major. A matrix is text: a line ``rows columns R``, lines ``i j value`` counted from 1, and ``0 0 0`` at its
end. The three stand in one file or in three, whose names then differ in one letter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from catalog.formats.draft import Draft, Entry
from catalog.formats.factors import LARGEST, factor_from_sparse
from catalog.formats.numbers import entry_of

KIND = "PLinOpt sms"
_HEADER = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+[A-Z]\s*")
_HEAD_BYTES = 4096
# Files of one folder that are looked at when a triple has no names that tell.
_MOST_BESIDE = 100


@dataclass
class _Matrix:
    """A sparse matrix: rows, columns, and its entries that are not zero, counted from 0."""

    shape: tuple[int, int]
    entries: dict[tuple[int, int], Entry] = field(default_factory=dict)


def accepts(data: bytes) -> bool:
    """Whether the first line that is no comment is the heading of a sparse matrix."""
    lines = data[:_HEAD_BYTES].decode("ascii", "replace").splitlines()
    first = next((line for line in lines if line.strip() and line.lstrip()[0] not in "#%"), "")
    return _HEADER.fullmatch(first) is not None


def loads(data: bytes) -> list[Draft]:
    """The draft of three matrices, in the order L, R, P or with P at another place if the shapes say so.

    Raises:
        ValueError: a matrix is malformed, or there are not three that fit.
    """
    matrices = _matrices(data.decode("ascii"))
    if len(matrices) != 3:
        raise ValueError(
            f"it holds {len(matrices)} matrices of a PLinOpt triple; put the files of L, R and P side by side under "
            "names that differ in that letter, or name all three"
        )
    a, b, c = matrices
    for left, right, post in ((a, b, c), (a, c, b), (b, c, a)):
        if left.shape[0] == right.shape[0] == post.shape[1]:
            factors, denominators = zip(
                *(factor_from_sparse(x.shape, x.entries) for x in (left, right, post)), strict=True
            )
            u, v, w = factors
            return [Draft(KIND, (u.T, v.T, w), denominators)]
    shapes = ", ".join("x".join(map(str, matrix.shape)) for matrix in matrices)
    raise ValueError(f"matrices of {shapes} are no triple: L and R need as many rows as P has columns")


def is_part(path: Path) -> bool:
    """Whether a file holds a matrix of a triple; False where it cannot be read."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return accepts(file.read(_HEAD_BYTES))
    except OSError:
        return False


def triple_of(path: Path) -> tuple[Path, ...] | None:
    """The files of L, R and P of which a file is one, by names that differ in this letter, else the only three here."""
    name = path.name
    for at in reversed([i for i, letter in enumerate(name) if letter in "LRPlrp"]):
        letters = "LRP" if name[at].isupper() else "lrp"
        files = tuple(path.with_name(f"{name[:at]}{letter}{name[at + 1 :]}") for letter in letters)
        if all(is_part(file) for file in files):
            return files
    beside = sorted(file for file in islice(path.parent.iterdir(), _MOST_BESIDE) if is_part(file))
    return tuple(beside) if len(beside) == 3 and path in beside else None


def together(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Files grouped by scheme: those of a triple together, in the order of the first of them, all others alone."""
    groups: dict[tuple[Path, ...], None] = {}
    lonely = []
    for path in paths:
        triple = triple_of(path) if is_part(path) else (path,)
        if triple is None:
            lonely.append(path)
        else:
            groups.setdefault(triple)
    if len(lonely) == 3:
        groups.setdefault(tuple(lonely))
    else:
        groups.update({(path,): None for path in lonely})
    return list(groups)


def _matrices(text: str) -> list[_Matrix]:
    found: list[_Matrix] = []
    matrix: _Matrix | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0][0] in "#%":
            continue
        if matrix is None:
            header = _HEADER.fullmatch(line)
            if not header or not 0 < int(header[1]) * int(header[2]) <= LARGEST:
                raise ValueError(f"line {number} is no heading of a matrix: {line.strip()[:40]!r}")
            matrix = _Matrix((int(header[1]), int(header[2])))
            continue
        if len(words) != 3 or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words[:2]):
            raise ValueError(f"line {number} is not of the form i j value: {line.strip()[:40]!r}")
        row, column = int(words[0]), int(words[1])
        if row == column == 0:
            found.append(matrix)
            matrix = None
        elif not (1 <= row <= matrix.shape[0] and 1 <= column <= matrix.shape[1]):
            raise ValueError(
                f"line {number} names the entry {row}, {column} of a {matrix.shape[0]}x{matrix.shape[1]} matrix"
            )
        else:
            place = row - 1, column - 1
            matrix.entries[place] = matrix.entries.get(place, 0) + entry_of(words[2])
    if matrix is not None:
        raise ValueError("it is cut off: a matrix has no line 0 0 0 at its end")
    return found
