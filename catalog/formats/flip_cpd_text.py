"""The text form of flip-cpd: products ``m1 = (a1 - a4)(1/2b1 + b4)``, then outputs ``c1 = m1 - 2m5``.

Entries are numbered from 1, row by row; C is row-major.
"""

from __future__ import annotations

import re

from catalog.formats.draft import Draft, Entry
from catalog.formats.factors import factor_from_sparse
from catalog.formats.numbers import entry_of
from catalog.scheme import Factor

KIND = "flip-cpd text"
_PRODUCT = re.compile(r"m(\d{1,6}) *= *\(([^()]*)\) *\*? *\(([^()]*)\)")
_OUTPUT = re.compile(r"c(\d{1,4}) *= *(.*)")
_TERM = re.compile(r" *([+-]?) *(\d{1,18}(?:/\d{1,18})?)? *\*? *([abm])(\d{1,6})")
_HEAD_BYTES = 4096


def accepts(data: bytes) -> bool:
    """Whether the first line is a product, and one of the first has an entry with a single number, such as a1."""
    lines = [line.strip() for line in data[:_HEAD_BYTES].decode("ascii", "replace").splitlines()]
    first = next((line for line in lines if line and line[0] != "#"), "")
    return _PRODUCT.fullmatch(first) is not None and re.search(r"\b[\d/]*[ab][1-9]\b", "\n".join(lines)) is not None


def loads(data: bytes) -> list[Draft]:
    """The one draft of a file.

    Raises:
        ValueError: a line is neither a product nor an output, or a number is missing or stands twice.
    """
    products: dict[int, tuple[dict[int, Entry], dict[int, Entry]]] = {}
    outputs: dict[int, dict[int, Entry]] = {}
    for number, line in enumerate(data.decode("ascii").splitlines(), 1):
        text = line.strip()
        if not text or text[0] == "#":
            continue
        try:
            if found := _PRODUCT.fullmatch(text):
                _put(products, int(found[1]), (_sum(found[2], "a"), _sum(found[3], "b")))
            elif found := _OUTPUT.fullmatch(text):
                _put(outputs, int(found[1]), _sum(found[2], "m"))
            else:
                raise ValueError("it is neither a product m1 = (...)(...) nor an output c1 = ...")
        except ValueError as error:
            raise ValueError(f"line {number}, {text[:40]!r}: {error}") from None
    for name, found_numbers in (("m", products), ("c", outputs)):
        if not found_numbers or max(found_numbers) != len(found_numbers):
            raise ValueError(f"its {name} are not numbered from 1 without gaps")
    rank = len(products)
    in_order = [products[number] for number in range(1, rank + 1)]
    rows = [outputs[number] for number in range(1, len(outputs) + 1)]
    factors = [
        _factor([left for left, _ in in_order]),
        _factor([right for _, right in in_order]),
        _factor(rows, rank),
    ]
    (u, du), (v, dv), (w, dw) = factors
    return [Draft(KIND, (u.T, v.T, w), (du, dv, dw))]


def _put(found: dict, number: int, value: object) -> None:
    if number in found or number < 1:
        raise ValueError(f"the number {number} stands twice or is no number from 1 on")
    found[number] = value


def _sum(text: str, letter: str) -> dict[int, Entry]:
    """Coefficients by number, of a sum of variables of one letter; "0" is the empty sum."""
    total: dict[int, Entry] = {}
    at = 0
    if text.strip() == "0":
        return total
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if not term or term[3] != letter or int(term[4]) < 1 or (at and not term[1]):
            raise ValueError(f"{text[at : at + 20].strip()!r} is no term in {letter}")
        value = entry_of(term[2] or "1")
        number = int(term[4]) - 1
        total[number] = total.get(number, 0) + (-value if term[1] == "-" else value)
        at = term.end()
    if not at:
        raise ValueError("a sum is empty")
    return total


def _factor(rows: list[dict[int, Entry]], width: int = 0) -> tuple[Factor, int]:
    """Sums as the rows of a matrix, as wide as the largest number or ``width``."""
    width = max([width, *(max(row, default=-1) + 1 for row in rows)])
    return factor_from_sparse(
        (len(rows), width), {(i, j): value for i, row in enumerate(rows) for j, value in row.items()}
    )
