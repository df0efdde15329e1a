"""Straight-line programs for Yacas as Kemper writes them: ``P1 := (a11 + a12) * b11; ... c11 := P1 + P5;``.

A statement defines a product of a sum in a and a sum in b, an entry of C as a sum of products, or a common sum of
either kind; C is not transposed. Statements that only test the program, such as ``Simplify(...)``, are skipped. Files
over F2 say "mod 2" in a comment (https://github.com/a1880/matrix-multiplication).
"""

from __future__ import annotations

import re

from catalog.formats.draft import Draft
from catalog.formats.errors import shown
from catalog.formats.factors import sparse_factor
from catalog.formats.products import Form, Value, index_of, parse
from catalog.formats.text_common import blanked, draft_of, line_at, require_ring, sizes_of, stated_ring, text_of
from catalog.formats.text_products import sum_text
from catalog.scheme import Ring, Scheme

_COMMENT = re.compile(r"#[^\n]*")
_START = re.compile(rb"^[ \t]*[A-Za-z]\w*[ \t]*:=[^;\n]*[ab]\d", re.MULTILINE | re.IGNORECASE)
_STATEMENT = re.compile(r"([A-Za-z]\w*(?:\[\s*\d+\s*,\s*\d+\s*\]|,\d+)?)\s*:=\s*(.*)", re.DOTALL)
_ENTRY = re.compile(r"[abc](?=[\[_]?\d)", re.IGNORECASE)
# Of all sums together: common sums of common sums can grow without bound.
_COEFFICIENTS = 1 << 23


def accepts(data: bytes) -> bool:
    """Whether one of its first lines defines something by entries of a or b."""
    return _START.search(data[: 1 << 20]) is not None


def loads(data: bytes) -> list[Draft]:
    """The scheme, with common sums put in where they are used.

    Raises:
        ValueError: a statement is damaged, uses what is not yet defined, or defines something twice.
    """
    program = _Program()
    text = blanked(text_of(data), _COMMENT)
    start = 0
    while start < len(text):
        end = text.find(";", start)
        end = len(text) if end < 0 else end
        statement = text[start:end].strip()
        if statement and ":=" in statement:
            try:
                program.take(statement)
            except ValueError as error:
                at = start + len(text[start:end]) - len(text[start:end].lstrip())
                raise ValueError(f"line {line_at(text, at)}: {error}") from None
        start = end + 1
    return [program.draft(stated_ring(data))]


class _Program:
    """The statements so far: the two sums of every product, the entries of C, and what each name stands for."""

    def __init__(self) -> None:
        self._names: dict[str, Value] = {}
        self._products: list[tuple[Form, Form]] = []
        self._outputs: dict[int, Form] = {}
        self._shapes = {letter: [0, 0] for letter in "abc"}
        self._size = 0

    def take(self, statement: str) -> None:
        found = _STATEMENT.fullmatch(statement)
        if not found:
            raise ValueError(f"{shown(statement)} is no definition")
        name, expression = found[1].lower(), found[2]
        value = parse(expression, self._value_of)
        kinds = "".join(sorted(value.forms))
        if kinds not in ("a", "b", "ab", "p"):
            raise ValueError(f"{shown(name)} is neither a product of a sum in a and one in b nor a sum of either")
        self._size += sum(map(len, value.forms.values()))
        if self._size > _COEFFICIENTS:
            raise ValueError(f"all sums together have more than {_COEFFICIENTS} coefficients")
        if _ENTRY.match(name):
            self._output(name, value)
            return
        if name in self._names:
            raise ValueError(f"{shown(name)} is defined twice")
        if kinds == "ab":
            self._products.append((value.form("a"), value.forms["b"]))
            value = Value(1, {"p": {len(self._products) - 1: 1}})
        self._names[name] = value

    def _output(self, name: str, value: Value) -> None:
        letter, row, column = index_of(name)
        if letter != "c" or "p" not in value.forms:
            # An entry of C that is one product, written out.
            if letter != "c" or len(value.forms) != 2:
                raise ValueError(f"{shown(name)} is no entry of c that is a sum of products")
            self._products.append((value.form("a"), value.forms["b"]))
            value = Value(1, {"p": {len(self._products) - 1: 1}})
        key = self._key(letter, row, column)
        if key in self._outputs:
            raise ValueError(f"{shown(name)} is defined twice")
        self._outputs[key] = value.form("p")

    def _value_of(self, name: str) -> Value:
        known = self._names.get(name.lower())
        if known is not None:
            return known
        if not _ENTRY.match(name):
            raise ValueError(f"{shown(name)} is used before it is defined")
        letter, row, column = index_of(name)
        if letter == "c":
            key = row << 8 | column
            if key not in self._outputs:
                raise ValueError(f"{shown(name)} is used before it is defined")
            return Value(1, {"p": self._outputs[key]})
        return Value(1, {letter: {self._key(letter, row, column): 1}})

    def _key(self, letter: str, row: int, column: int) -> int:
        shape = self._shapes[letter]
        shape[0], shape[1] = max(shape[0], row), max(shape[1], column)
        return row << 8 | column

    def draft(self, ring: Ring | None) -> Draft:
        if not self._products or not self._outputs:
            raise ValueError("it defines no product or no entry of c")
        a, b, c = ((shape[0], shape[1]) for shape in self._shapes.values())
        sizes = sizes_of(a, b, c)
        if len(self._outputs) != c[0] * c[1]:
            raise ValueError(f"it defines {len(self._outputs)} of the {c[0] * c[1]} entries of c")
        columns: list[Form] = [{} for _ in self._products]
        for key, form in self._outputs.items():
            for term, entry in form.items():
                columns[term][key] = entry
        factors = []
        for terms, shape in (([x for x, _ in self._products], a), ([y for _, y in self._products], b), (columns, c)):
            flat = [
                {((key >> 8) - 1) * shape[1] + (key & 255) - 1: entry for key, entry in term.items()} for term in terms
            ]
            factors.append(sparse_factor(flat, shape[0] * shape[1]))
        return draft_of("straight-line program", factors, sizes=sizes, ring=ring)


def dumps(scheme: Scheme) -> bytes:
    """The program; a denominator divides the entries of C.

    Raises:
        ValueError: the scheme is over F3, a size has two digits, or a sum is empty.
    """
    require_ring(scheme, "a straight-line program", Ring.F2, Ring.Z, Ring.Q)
    m, k, n = scheme.format
    if max(m, k, n) > 9:
        raise ValueError(f"a straight-line program has one digit for an index, too few for {scheme.format}; use json")
    a = [f"a{i // k + 1}{i % k + 1}" for i in range(m * k)]
    b = [f"b{i // n + 1}{i % n + 1}" for i in range(k * n)]
    width = len(str(scheme.rank))
    products = [f"P{term + 1:0{width}d}" for term in range(scheme.rank)]
    lines = [f"# Matrix multiplication{' (mod 2!)' if scheme.ring is Ring.F2 else ''} for {scheme.format}", ""]
    for name, u, v in zip(products, scheme.U.T.tolist(), scheme.V.T.tolist(), strict=True):
        lines.append(f"{name} := ({sum_text(u, a)}) * ({sum_text(v, b)});")
    lines.append("")
    for entry, row in enumerate(scheme.W.tolist()):
        text = sum_text(row, products)
        lines.append(
            f"c{entry // n + 1}{entry % n + 1} := "
            + (f"({text})/{scheme.denominator};" if scheme.denominator > 1 else f"{text};")
        )
    if any(" 0;" in line or "(0)" in line for line in lines):
        raise ValueError("a product or an entry of C is zero and a straight-line program has no zero; use json")
    return ("\n".join(lines) + "\n").encode()
