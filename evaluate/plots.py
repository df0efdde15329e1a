"""Speed and error as pictures. Needs Matplotlib (extra ``plot``)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catalog.files import write_durably
from evaluate.maps import error_of, supported, types_text
from evaluate.timing import verdict

Row = Mapping[str, Any]
# Dark to light, told apart by colour-blind readers and in grey; markers repeat the distinction.
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
_MARKERS = "osD^vP"


def speed(rows: Sequence[Row]) -> Any:
    """Ratio to the baseline against size, with 95 % intervals; one line per scheme, levels, dtype and path.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row has a ratio.
    """
    timed = [row for row in rows if row.get("ratio") is not None]
    if not timed:
        raise ValueError("none of the rows was timed, so there is no speed to plot")
    figure, axes = _axes("size (MNK)^(1/3)", "baseline time / time")
    for label, line, style in _lines(timed):
        ratios = [row["ratio"] for row in line]
        low, high = ([abs(row[key] - row["ratio"]) for row in line] for key in ("ratio_low", "ratio_high"))
        axes.errorbar([_size(row) for row in line], ratios, yerr=[low, high], label=label, capsize=3, **style)
    axes.axhline(1, color="0.6", linewidth=0.8)
    return _finished(figure, axes)


def error(rows: Sequence[Row]) -> Any:
    """Relative Frobenius error of scheme and baseline against size, both axes logarithmic.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row has an error.
    """
    known = [row for row in rows if row.get("error_fro")]
    if not known:
        raise ValueError("none of the rows has an error, so there is nothing to plot")
    figure, axes = _axes("size (MNK)^(1/3)", "relative Frobenius error")
    for label, line, style in _lines(known):
        sizes = [_size(row) for row in line]
        axes.plot(sizes, [row["error_fro"] for row in line], label=label, **style)
        plain = {**style, "marker": "", "linestyle": ":"}
        axes.plot(sizes, [row["baseline_error_fro"] for row in line], label=f"{label}, baseline", **plain)
    axes.set_yscale("log")
    return _finished(figure, axes)


def error_against_speed(rows: Sequence[Row]) -> Any:
    """The error factor over the vendor's against the ratio, one mark for each row, by dtype and type of planes.

    Bars are the 95 % intervals of the ratio; a mark is filled where its interval lies above 1, which is left of the
    band of losses.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row is a timed scheme with an error.
    """
    known = [row for row in rows if supported(row) and error_of(row)]
    if not known:
        raise ValueError("none of the rows is a timed scheme with an error, so there is nothing to plot")
    figure, axes = _axes("baseline time / time", "error over that of the vendor's GEMM")
    axes.set(xscale="linear", title="error against speed")
    groups: dict[str, list[Row]] = {}
    for row in known:
        groups.setdefault(types_text(row), []).append(row)
    for number, (label, group) in enumerate(sorted(groups.items())):
        colour, marker = _COLOURS[number % 6], _MARKERS[number % 6]
        for row in group:
            bar = [[abs(row[key] - row["ratio"])] for key in ("ratio_low", "ratio_high")]
            fill = colour if verdict(row) == "faster" else "white"
            axes.errorbar(
                row["ratio"],
                error_of(row),
                xerr=bar,
                color=colour,
                marker=marker,
                markersize=5,
                markerfacecolor=fill,
                linewidth=0.7,
            )
        axes.plot([], [], linestyle="", color=colour, marker=marker, label=label)
    axes.plot([], [], linestyle="", color="0.3", marker="o", markerfacecolor="white", label="no gain")
    left = min(0.95, axes.get_xlim()[0])
    axes.axvspan(left, 1, color="0.93", zorder=0)
    axes.axvline(1, color="0.4", linewidth=0.8)
    axes.set_xlim(left=left)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("x{x:g}")
    return _finished(figure, axes)


def targets(rows: Sequence[Row]) -> Any:
    """Median and 90th percentile of the time to a rank, one line of dots for every target of a search benchmark.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row is a time to a target.
    """
    from matplotlib.figure import Figure

    timed = [row for row in rows if row.get("kind") == "time_to_target" and row.get("median_s")]
    if not timed:
        raise ValueError("none of the rows is a time to a target, so there is nothing to plot")
    timed.sort(key=lambda row: row["median_s"], reverse=True)
    figure = Figure(figsize=(7, 1.2 + 0.26 * len(timed)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(timed))
    medians, slow = [row["median_s"] for row in timed], [row["p90_s"] for row in timed]
    axes.hlines(places, medians, slow, color="0.7", zorder=1)
    axes.scatter(medians, places, color=_COLOURS[1], marker=_MARKERS[0], label="median", zorder=2)
    axes.scatter(slow, places, color=_COLOURS[2], marker=_MARKERS[1], label="90th percentile", zorder=2)
    axes.set_yticks(places, [f"{row['format']}:{row['rank']} {row['ring']}, {_hits(row)}" for row in timed])
    axes.set_xscale("log")
    axes.set_xlabel("seconds to the rank")
    return _finished(figure, axes)


def save_svg(figure: Any, path: Path) -> Path:
    """Write a figure as SVG with text as text; the same figure gives the same bytes.

    Raises:
        OSError: the file cannot be written; what stood there before is untouched.
    """
    from matplotlib import rc_context

    # Every text of the file repeats the list of fonts.
    picture = io.BytesIO()  # so that an older picture stays where the disk is full
    fonts = ["DejaVu Sans", "Arial"]
    with rc_context({"svg.hashsalt": "subcubic", "svg.fonttype": "none", "font.sans-serif": fonts}):
        figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    write_durably(path, picture.getvalue())
    return path


def _hits(row: Row) -> str:
    return f"{row['engine'].removesuffix(' numba')} {row['hits']}/{row['seeds']}"


def _axes(x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.set_xscale("log", base=2)
    return figure, axes


def _lines(rows: Sequence[Row]) -> list[tuple[str, list[Row], dict[str, str]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        label = f"{row['format']}:{row['rank']}, {row['levels']} level{'s' if row['levels'] > 1 else ''}, "
        groups.setdefault(f"{label}{row['dtype']} ({row['path']})", []).append(row)
    return [
        (label, sorted(group, key=_size), {"color": _COLOURS[i % 6], "marker": _MARKERS[i % 6], "linestyle": "-"})
        for i, (label, group) in enumerate(groups.items())
    ]


def _size(row: Row) -> float:
    return float(row["M"] * row["N"] * row["K"]) ** (1 / 3)


def _finished(figure: Any, axes: Any) -> Any:
    axes.grid(True, which="both", color="0.9", linewidth=0.5)
    axes.legend(fontsize="small")
    return figure
