"""The cells of AlphaEvolve's notebook (Novikov et al. 2025), as text or in the notebook itself. C is transposed.

A cell assigns ``decomposition_245 = (np.array([[...]], dtype=np.float32), ...)``. Only this shape is read; nothing is
evaluated.
"""

from __future__ import annotations

import json
import re

from catalog.formats.draft import Draft
from catalog.formats.errors import Flaw
from catalog.formats.factors import LARGEST, factor_from
from catalog.formats.numbers import ComplexError

KIND = "AlphaEvolve cell"
_BEGIN = re.compile(r"(\w{1,80})\s*=\s*\(\s*(?=(?:np|jnp|numpy)\.array\()")
_ARRAY = re.compile(r"[\s,]*(?:np|jnp|numpy)\.array\(\s*\[([^()]*)\]\s*(?:,\s*dtype\s*=\s*[\w.]+\s*)?,?\s*\)")
_ROW = re.compile(r"[\s,]*\[([^\[\]]*)\]")
_END = re.compile(r"[\s,]*\)")
_SIGN = re.compile(r"(?<=[\d.jJ])[+-]")


def accepts(data: bytes) -> bool:
    """Whether the text, or a notebook, assigns a tuple of numpy arrays."""
    return b".array(" in data and (b"decomposition" in data or b'"cells"' in data or _begins(data))


def loads(data: bytes) -> list[Draft | Flaw]:
    """One draft for each assignment, or what is wrong with it.

    Raises:
        ValueError: the file is no text or no notebook.
    """
    text = data.decode("utf-8")
    if text.lstrip()[:1] == "{":
        text = _cells(text)
    found = [_read(text, match) for match in _BEGIN.finditer(text)]
    if not found:
        raise ValueError("it assigns no tuple of three arrays; cells look like x = (np.array(...), ...)")
    return found


def _begins(data: bytes) -> bool:
    return _BEGIN.search(data[:4096].decode("utf-8", "replace")) is not None


def _cells(text: str) -> str:
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it is no notebook: it has no cells")
    sources = [cell.get("source") for cell in cells if isinstance(cell, dict)]
    return "\n".join(
        "".join(part for part in source if isinstance(part, str)) if isinstance(source, list) else str(source)
        for source in sources
    )


def _read(text: str, match: re.Match[str]) -> Draft | Flaw:
    name, at = match[1], match.end()
    try:
        factors = []
        for _ in "UVW":
            array = _ARRAY.match(text, at)
            if not array:
                raise ValueError("it does not have three arrays of numbers")
            factors.append(factor_from(_rows(array[1])))
            at = array.end()
        if not _END.match(text, at):
            raise ValueError("it has more than three arrays, or is cut off")
    except ValueError as error:
        return Flaw(KIND, name, str(error))
    u, v, w = factors
    return Draft(KIND, (u[0], v[0], w[0]), (u[1], v[1], w[1]), name=name)


def _rows(text: str) -> list[list[object]]:
    rows: list[list[object]] = []
    at = 0
    while row := _ROW.match(text, at):
        cells = row[1].split(",")
        rows.append([_number(cell) for cell in (cells if cells[-1].strip() else cells[:-1])])
        at = row.end()
    if text[at:].strip(" \n\t\r,"):
        raise ValueError(f"{text[at : at + 40].strip()!r} stands where a row of numbers should be")
    if sum(map(len, rows)) > LARGEST:
        raise ValueError(f"an array has more than {LARGEST} numbers")
    return rows


def _number(text: str) -> object:
    """A number as numpy prints it, ``-0.5``, ``0.`` or ``0.5 -0.5j``, as what ``entry_of`` takes."""
    word = "".join(text.split())
    if word[-1:] not in "jJ" or not word:
        return word
    signs = [at.start() for at in _SIGN.finditer(word) if word[at.start() - 1] not in "eE"]
    imaginary = word[signs[-1] if signs else 0 : -1]
    if imaginary.strip("+-0."):
        raise ComplexError
    return word[: signs[-1]] if signs else "0"
