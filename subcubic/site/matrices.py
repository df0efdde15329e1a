"""Pictures of the factor matrices U, V, W as SVG text: sign by colour and by mark, other sizes written out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from catalog.formulas import entry_names
from catalog.scheme import Factor, Scheme

# Pixels of a coefficient.
_CELL = 12
_LABEL = 7
_TOP = 14
# Marks come from two patterns with the period of a cell, so that one path draws all coefficients of a sign.
PATTERNS = Markup(
    '<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="plus" width="1" height="1" y="-.5" patternUnits="userSpaceOnUse"><path class="positive" '
    'd="M0 0h1v1H0z"/><path d="M.25 .5h.5M.5 .25v.5"/></pattern>'
    '<pattern id="minus" width="1" height="1" y="-.5" patternUnits="userSpaceOnUse"><path class="negative" '
    'd="M0 0h1v1H0z"/><path d="M.25 .5h.5"/></pattern></defs></svg>'
)


def pictures(scheme: Scheme) -> Iterator[tuple[str, Markup]]:
    """Name and picture of U, V and W: a row per matrix entry, a column per product.

    The pictures need ``PATTERNS`` once in the page.
    """
    _, k, n = scheme.format
    for name, labels, columns, factor, denominator in zip(
        "UVW", entry_names(scheme.format), (k, n, n), scheme.factors, scheme.denominators, strict=True
    ):
        yield name, _picture(name, labels, columns, factor, denominator)


def _picture(name: str, labels: list[str], columns: int, factor: Factor, denominator: int) -> Markup:
    """One matrix; bands set the rows of the matrix that is multiplied apart."""
    height, width = factor.shape
    left = _LABEL * max(map(len, labels)) + 6
    one, middle = factor == denominator, left + _CELL // 2
    minus = factor == -denominator
    others = (factor != 0) & ~one & ~minus
    line = _snake(height, width)
    parts = [f'<path class="band" d="{_bands(height, width, columns)}"/>']
    for paint, chosen in (
        ('stroke="url(#plus)"', one),
        ('stroke="url(#minus)"', minus),
        ('class="positive"', others & (factor > 0)),
        ('class="negative"', others & (factor < 0)),
    ):
        if chosen.any():
            parts.append(f'<path {paint} d="{line}" stroke-dasharray="{_dashes(chosen)}"/>')
    values = [
        _value(middle + x * _CELL, _TOP + y * _CELL + 9, _text(Fraction(int(factor[y, x]), denominator)))
        for y, x in np.argwhere(others).tolist()
    ]
    every = 5 if width <= 30 else 10
    ticks = [f'<text x="{middle + x * _CELL}">{x + 1}</text>' for x in range(width) if x == 0 or (x + 1) % every == 0]
    names = [f'<text y="{_TOP + y * _CELL + 9}">{labels[y]}</text>' for y in range(0, height, columns)]
    written = f'<g class="values">{"".join(values)}</g>' if values else ""
    count = int((factor != 0).sum())
    told = f"{name}, {height} rows, {width} columns, {count} not zero"
    size = f'width="{left + width * _CELL}" height="{_TOP + height * _CELL}"'
    return Markup(
        f'<svg class="matrix" {size} role="img" aria-label="{told}">'
        f'<g transform="translate({left} {_TOP}) scale({_CELL}) translate(0 .5)">{"".join(parts)}</g>'
        f'<g class="ticks" transform="translate(0 10)">{"".join(ticks)}</g>'
        f'<g class="names" transform="translate({left - 4})">{"".join(names)}</g>'
        f"{written}</svg>"
    )


def _snake(height: int, width: int) -> str:
    """A line through all cells: the first row from left to right, the second from right to left, and so on."""
    turns = "".join("v1H0" if y % 2 else f"v1h{width}" for y in range(1, height))
    return f"M0 0h{width}{turns}"


def _dashes(chosen: NDArray[np.bool_]) -> str:
    """Dashes that cover the chosen cells of the snake, and no other: half as many bytes as a stroke for each.

    The step of one unit to the next row is never covered.
    """
    rows = chosen.astype(np.int8)
    rows[1::2] = rows[1::2, ::-1]
    # A cell before the first row and one for the step after each row are empty.
    line = np.concatenate([[0], np.pad(rows, ((0, 0), (0, 1))).ravel()])
    edges = np.flatnonzero(np.diff(line))
    lengths = np.diff(edges, append=line.size - 1).tolist()
    # A pattern begins with a dash, here of no length, and ends with a gap.
    return f"0 {int(edges[0])} {' '.join(map(str, lengths))}"


def _value(x: int, y: int, text: str) -> str:
    narrow = f' textLength="{_CELL - 1}" lengthAdjust="spacingAndGlyphs"' if len(text) > 2 else ""
    return f'<text x="{x}" y="{y}"{narrow}>{text}</text>'


def _bands(height: int, width: int, columns: int) -> str:
    """Every second row of the matrix that is multiplied, which takes ``columns`` rows here."""
    return "".join(f"M0 {y - 0.5:g}h{width}v{min(columns, height - y)}H0z" for y in range(0, height, 2 * columns))


def _text(value: Fraction) -> str:
    return f"{'+' if value > 0 else chr(0x2212)}{abs(value)}"
