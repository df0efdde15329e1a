"""Expressions in entries of A, B and C: sums, scalars, parentheses and products with or without '*'.

Every text format that writes formulas is read by this one grammar, a recursive descent with a bounded depth:

    sum     = [sign] term {sign term}
    term    = factor {["*"] factor | "/" factor}
    factor  = number | name | "(" sum ")" | sign factor

The value of an expression is a product of a scalar and linear forms, at most one for each letter. Nothing is evaluated
by Python, and no number passes through a float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from catalog.formats.draft import Entry
from catalog.formats.errors import shown
from catalog.formats.numbers import NUMBER, bounded, number
from catalog.scheme import MAX_DIMENSION

_TOKEN = re.compile(
    rf"(?P<number>{NUMBER}(?:[ij](?![\w]))?)"
    r"|(?P<name>[A-Za-z]+(?:\[\s*\d+\s*,\s*\d+\s*\]|_?\d+(?:[_,]\d+)?)?)"
    r"|(?P<mark>[-+*/()])|(?P<rest>\S)"
)
_INDICES = re.compile(r"([A-Za-z]+)(?:\[\s*(\d+)\s*,\s*(\d+)\s*\]|_?(\d+)[_,](\d+)|_?(\d+))")
# Real files nest three deep.
_DEPTH = 24

Form = dict[int, Entry]


@dataclass(frozen=True)
class Value:
    """A scalar times linear forms.

    Attributes:
        scale: the scalar.
        forms: for each letter the coefficients of its entries.
    """

    scale: Entry
    forms: dict[str, Form]

    def form(self, letter: str) -> Form:
        """The linear form of a letter with the scalar multiplied in."""
        if self.scale == 1:
            return self.forms[letter]
        return {key: bounded(self.scale * entry) for key, entry in self.forms[letter].items()}


def index_of(name: str) -> tuple[str, int, int]:
    """The letter in lower case, row and column, from 1, of a name such as a12, a1112, a[1,2], a_1_2 or a1,12.

    Raises:
        ValueError: the name has no two indices in 1..64, or its digits can be divided in two ways.
    """
    found = _INDICES.fullmatch(name)
    if not found:
        raise ValueError(f"{shown(name)} has no two indices")
    letter, *parts = found.groups()
    digits = parts[4]
    if digits is None:
        row, column = (part for part in parts if part is not None)
    elif len(digits) in (2, 4):
        row, column = digits[: len(digits) // 2], digits[len(digits) // 2 :]
    elif len(digits) == 1:
        raise ValueError(f"{shown(name)} has one index; an entry has a row and a column, for example {letter}12")
    else:
        raise ValueError(f"the indices of {shown(name)} can be divided in more than one way; write {letter}[1,12]")
    if max(len(row), len(column)) > 4 or not (1 <= int(row) <= MAX_DIMENSION and 1 <= int(column) <= MAX_DIMENSION):
        raise ValueError(f"{shown(name)} has an index outside 1..{MAX_DIMENSION}")
    return letter.lower(), int(row), int(column)


def parse(text: str, value_of: Callable[[str], Value]) -> Value:
    """The value of one expression.

    Args:
        text: the expression.
        value_of: what a name stands for; it raises ValueError for a name that it does not know.

    Raises:
        ValueError: the text is no expression, or its value is no product of linear forms.
    """
    return _Parser(text, value_of).whole()


class _Parser:
    def __init__(self, text: str, value_of: Callable[[str], Value]) -> None:
        self._tokens = _tokens(text)
        self._value_of = value_of
        self._depth = 0
        self._advance()

    def _advance(self) -> None:
        self._kind, self._text = next(self._tokens, ("end", ""))

    def whole(self) -> Value:
        value = self._sum()
        if self._kind != "end":
            raise ValueError(f"unexpected {shown(self._text)}")
        return value

    def _sum(self) -> Value:
        first = self._term()
        if self._text not in ("+", "-"):
            return first
        letters = tuple(first.forms)
        if len(letters) > 1:
            raise ValueError("a sum of products where a product of sums must stand")
        total: Form = dict(first.form(letters[0])) if letters else {}
        scalar = first.scale
        while self._text in ("+", "-"):
            sign = -1 if self._text == "-" else 1
            self._advance()
            value = self._term()
            if tuple(value.forms) != letters:
                raise ValueError(f"a sum of {_named(letters)} and {_named(tuple(value.forms))}")
            if not letters:
                scalar = bounded(scalar + sign * value.scale)
                continue
            for key, entry in value.form(letters[0]).items():
                total[key] = bounded(total.get(key, 0) + sign * entry)
        return Value(1, {letters[0]: total}) if letters else Value(scalar, {})

    def _term(self) -> Value:
        value = self._factor()
        while self._kind in ("number", "name") or self._text in ("*", "/", "("):
            divides = self._text == "/"
            if self._text in ("*", "/"):
                self._advance()
            factor = self._factor()
            if divides:
                if factor.forms:
                    raise ValueError("a division by more than a number")
                if factor.scale == 0:
                    raise ValueError("a division by zero")
                value = Value(bounded(Fraction(value.scale) / factor.scale), value.forms)
                continue
            twice = value.forms.keys() & factor.forms.keys()
            if twice:
                raise ValueError(f"two factors in {_named(tuple(twice))}")
            value = Value(bounded(value.scale * factor.scale), value.forms | factor.forms)
        return value

    def _factor(self) -> Value:
        kind, text = self._kind, self._text
        self._advance()
        if kind == "number":
            return Value(number(text), {})
        if kind == "name":
            return self._value_of(text)
        if text not in ("(", "-", "+"):
            raise ValueError(f"unexpected {shown(text)}" if text else "the expression ends too early")
        self._depth += 1
        if self._depth > _DEPTH:
            raise ValueError(f"it is nested more than {_DEPTH} deep")
        if text == "(":
            value = self._sum()
            if self._text != ")":
                raise ValueError("a '(' without its ')'")
            self._advance()
        else:
            # A sign binds less tightly than a product: -a11*b11 is -(a11*b11), which has the same value.
            inner = self._factor()
            value = Value(-inner.scale, inner.forms) if text == "-" else inner
        self._depth -= 1
        return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or "rest"
        if kind == "rest":
            raise ValueError(f"unexpected {shown(found[kind])}")
        yield kind, found[kind]


def _named(letters: tuple[str, ...]) -> str:
    return " ".join(letters) or "numbers"
