"""Plots of measurements as SVG text: speed and error against size, told apart by colour and by mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2

from markupsafe import Markup, escape

from subcubic.site.measured import COLUMNS, Measured

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 40
# Outlines around (0, 0), as many as there are colours in the style sheet.
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-4-4h8v8h-8z",
    "M0-5L5 4H-5z",
    "M0-5.5L5.5 0 0 5.5-5.5 0z",
    "M-5-4H5L0 5z",
    "M-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
)


@dataclass(frozen=True)
class Plot:
    """A picture and what its marks mean.

    Attributes:
        title: what is plotted.
        svg: the picture.
        legend: (mark, label) pairs.
    """

    title: str
    svg: Markup
    legend: tuple[tuple[Markup, str], ...]


def speed(rows: Sequence[Measured]) -> Plot | None:
    """Baseline time over ours against size, with 95 % intervals; None where nothing was timed."""
    timed = [row for row in rows if row.ratio]
    return _plot(
        "Speed: baseline time over ours; above the line we are faster",
        timed,
        lambda row: row.ratio or (1.0, 1.0, 1.0),
        steps=lambda low, high: [i / 10 for i in range(floor(low * 10), ceil(high * 10) + 1)],
        one=True,
    )


def error(rows: Sequence[Measured]) -> Plot | None:
    """Relative Frobenius error over that of the baseline against size; None where no error is known."""
    known = [row for row in rows if row.error]
    return _plot(
        "Error: relative Frobenius error over that of the baseline",
        known,
        lambda row: (row.error or 1.0,) * 3,
        steps=lambda low, high: [2.0**i for i in range(floor(log2(low)), ceil(log2(high)) + 1)],
        one=False,
    )


def _plot(
    title: str,
    rows: Sequence[Measured],
    value: Callable[[Measured], tuple[float, float, float]],
    steps: Callable[[float, float], list[float]],
    one: bool,
) -> Plot | None:
    """Points over a logarithmic axis of sizes; ``steps`` gives the marks of the other axis, ``one`` a line at 1."""
    if not rows:
        return None
    values = [value(row) for row in rows]
    low, high = min(v[1] for v in values), max(v[2] for v in values)
    marks = steps(min(low, 1.0), max(high, 1.0))
    if len(marks) == 1:
        marks = [marks[0], marks[0] * 2]
    even = not one
    first, last = floor(log2(min(row.size for row in rows))), ceil(log2(max(row.size for row in rows)))
    last = max(last, first + 1)

    def x(size: float) -> float:
        return _LEFT + 16 + (log2(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT - 32)

    def y(number: float) -> float:
        place = _scale(number, even) - _scale(marks[0], even)
        share = place / (_scale(marks[-1], even) - _scale(marks[0], even))
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    every = max(1, len(marks) // 8)
    parts = []
    for number in marks[::every]:
        line = "one" if number == 1 else "grid"
        parts.append(f'<path class="{line}" d="M{_LEFT} {y(number):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{y(number) + 4:.1f}">{number:g}</text>')
    if one and 1.0 not in marks[::every] and marks[0] <= 1 <= marks[-1]:
        parts.append(f'<path class="one" d="M{_LEFT} {y(1.0):.1f}H{_WIDTH - _RIGHT}"/>')
    for power in range(first, last + 1):
        parts.append(f'<text class="x" x="{x(2.0**power):.1f}" y="{_HEIGHT - _BOTTOM + 18}">{2**power}</text>')
    parts.append(f'<text class="x" x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 4}">size, cube root of M N K</text>')
    types = sorted({row.types for row in rows})
    for row, (middle, bottom, top) in zip(rows, values, strict=True):
        number = types.index(row.types) % len(_MARKS)
        place = f"{x(row.size):.1f}"
        told = ", ".join(f"{head} {cell}" for head, cell in zip(COLUMNS, row.cells, strict=True) if cell != "-")
        bar = f'<path class="bar" d="M{place} {y(bottom):.1f}V{y(top):.1f}"/>' if bottom < top else ""
        parts.append(
            f'<g class="series{number}{" gains" if row.gains else ""}"><title>{escape(told)}</title>{bar}'
            f'<path transform="translate({place} {y(middle):.1f})" d="{_MARKS[number]}"/></g>'
        )
    svg = Markup(
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}; '
        f'{len(rows)} rows, all of them in the table below">{"".join(parts)}</svg>'
    )
    return Plot(title, svg, tuple((_key(i % len(_MARKS)), name) for i, name in enumerate(types)))


def _scale(number: float, even: bool) -> float:
    return log2(number) if even else number


def _key(number: int) -> Markup:
    return Markup(
        f'<svg class="plot key" width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true">'
        f'<g class="series{number} gains"><path d="{_MARKS[number]}"/></g></svg>'
    )
