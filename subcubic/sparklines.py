"""Curves over time as lines of text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

_WIDTH = 60
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
Sample = dict[str, Any]


def curves(
    points: Sequence[Sample],
    rows: Sequence[tuple[str, str, Callable[[Sequence[float]], float]]],
    bars: str | None = None,
) -> list[str]:
    """A line of text for each curve, and one with the time that they span.

    Args:
        points: with their seconds, in the order of time, at least one.
        rows: of each curve the title, the key of its values, which a point may lack, and the summary of some of them.
        bars: eight characters from low to high; None for those that stdout can show.
    """
    bars = bars or (_BARS if "utf" in (sys.stdout.encoding or "").lower() else _PLAIN_BARS)
    begin, end = points[0]["seconds"], points[-1]["seconds"]
    lines = []
    for title, key, summary in rows:
        values = [(point["seconds"], point[key]) for point in points if point.get(key) is not None]
        if values:
            low, high = min(value for _, value in values), max(value for _, value in values)
            curve = sparkline(values, begin, end, min(_WIDTH, len(points)), summary, bars)
            lines.append(f"{title:>13}  {curve}  now {_short(values[-1][1])}, {_short(low)}..{_short(high)}")
    return [*lines, f"{'time':>13}  {begin:.0f} s to {end:.0f} s"]


def sparkline(
    values: Sequence[tuple[float, float]],
    begin: float,
    end: float,
    width: int,
    summary: Callable[[Sequence[float]], float],
    bars: str = _BARS,
) -> str:
    """Values over time as a row of bars of equal spans; a span without a value repeats the one before.

    Args:
        values: time and value, in the order of time.
        begin: time at the left end.
        end: time at the right end.
        width: number of bars.
        summary: of the values of one span.
        bars: from low to high.
    """
    spans: list[list[float]] = [[] for _ in range(width)]
    for seconds, value in values:
        spans[min(width - 1, max(0, int(width * (seconds - begin) / max(end - begin, 1e-9))))].append(value)
    low = min(value for _, value in values)
    step = (max(value for _, value in values) - low) / (len(bars) - 1) or 1.0
    text, before = "", " "
    for span in spans:
        before = bars[round((summary(span) - low) / step)] if span else before
        text += before
    return text


def _short(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
