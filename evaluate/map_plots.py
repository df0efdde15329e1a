"""Maps over sizes as pictures: speed, error, and the cost model beside measurements. Needs Matplotlib (extra ``plot``).

The colours diverge from 1 and differ for colour-blind readers; in grey a loss is told by its hatching.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate.boundary import Boundary, boundaries
from evaluate.device_model import DeviceModel
from evaluate.maps import OPERANDS_TEXT, Cell, Row, SizeMap, error_maps, speed_maps

_DIVERGING, _SEQUENTIAL = "PuOr", "cividis_r"
_SPAN = (0.05, 0.25)  # least and greatest distance from 1 that a scale of colours has
_HATCH, _HATCH_COLOUR = "///", "0.6"
_DARK = 0.45  # luminance below which a label is white
_MARKS = {"faster": "o", "no difference": "s", "slower": "X"}
_MEANING = {"faster": "measured gain", "no difference": "interval touches 1", "slower": "measured loss"}


def speed_map(rows: Iterable[Row]) -> Any:
    """The best measured ratio of each shape, see ``evaluate.maps.speed_maps``; one panel below the other.

    Losses are hatched, gains whose interval lies above 1 are bold, and ``=`` marks an interval that touches 1.

    Args:
        rows: of results, of one device.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row is a timed scheme.
    """
    maps = speed_maps(rows)
    if not maps:
        raise ValueError("none of the rows is a timed scheme, so there is no map of speed; measure some on 7 pairs")
    ratios = [cell.value for cell in _all(maps)]
    note = "baseline time / time; bold: faster; hatched: slower; =: the 95 % interval touches 1; empty: not measured"
    return _heat_maps(maps, _diverging(ratios), "best ratio to the vendor's GEMM", note, _ratio_text)


def error_map(rows: Iterable[Row]) -> Any:
    """The largest error factor of each shape, see ``evaluate.maps.error_maps``.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: no row has an error.
    """
    from matplotlib.colors import LogNorm

    maps = error_maps(rows)
    if not maps:
        raise ValueError("none of the rows of a scheme has an error, so there is no map of errors")
    top = max(2.0, *(cell.value for cell in _all(maps)))
    title = "error over that of the vendor's GEMM"
    note = "relative Frobenius error against FP64, both on the same operands; empty: not measured"
    return _heat_maps(maps, (LogNorm(1, top), _SEQUENTIAL), title, note, lambda cell: f"x{cell.value:.1f}")


def predicted_map(
    plans: Sequence[Plan],
    device: DeviceModel,
    depths: Sequence[int],
    rows: Iterable[Row] = (),
    *,
    dtype: str = "bf16",
    operands: str = "variable",
    **options: Any,
) -> Any:
    """The cost model's ratio over M and N, one panel for each K, with the boundary where the ratio is 1.

    Measured shapes lie on top: a circle is a gain, a cross a loss, a square an interval that touches 1.

    Args:
        plans: at each shape the best of them counts.
        device: where.
        depths: sizes K.
        rows: measured on such a device, as of ``evaluate.maps.newest``.
        dtype: of the matrices.
        operands: one of ``evaluate.variants.OPERANDS``.
        **options: further ones of ``evaluate.boundary.boundaries``.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: there is no K, or as ``evaluate.model.predict``.
    """
    from matplotlib.figure import Figure

    if not depths:
        raise ValueError("a predicted map needs at least one K; give some depths")
    panels = boundaries(plans, device, depths, rows, dtype=dtype, operands=operands, **options)
    scale = _diverging([float(each) for panel in panels for each in panel.ratios.flat])
    figure = Figure(figsize=(3.1 * len(panels) + 1.2, 4.2), layout="constrained")
    across = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    seen: dict[str, Any] = {}
    for axes, panel in zip(across, panels, strict=True):
        image = _boundary(axes, panel, scale, seen)
    across[0].set_ylabel("N")
    figure.suptitle(f"cost model of {device.name}: {dtype}, {OPERANDS_TEXT[operands]}")
    figure.colorbar(image, ax=list(across), label="predicted ratio to the vendor's GEMM", extend="both", pad=0.01)
    if seen:
        figure.legend(list(seen.values()), list(seen), loc="outside lower center", ncols=len(seen), fontsize="small")
    return figure


def _boundary(axes: Any, panel: Boundary, scale: tuple[Any, str], seen: dict[str, Any]) -> Any:
    """One panel; marks that it has are added to ``seen`` by their meaning."""
    places = np.arange(len(panel.sizes))
    image = axes.imshow(panel.ratios, norm=scale[0], cmap=scale[1], origin="lower", aspect="auto", interpolation="none")
    low, high = float(panel.ratios.min()), float(panel.ratios.max())
    if low < 1:
        _hatched(axes.contourf(places, places, panel.ratios, levels=[low - 1, 1], colors="none", hatches=[_HATCH[:-1]]))
    if low < 1 < high:
        axes.contour(places, places, panel.ratios, levels=[1], colors="black", linewidths=1.6)
    for m, n, cell in panel.points:
        x, y = (np.interp(np.log2(size), np.log2(panel.sizes), places) for size in (m, n))
        style = {"marker": _MARKS[cell.verdict], "color": "white", "edgecolors": "black", "s": 60, "zorder": 3}
        seen.setdefault(_MEANING[cell.verdict], axes.scatter(x, y, **style))
        axes.annotate(
            f"{cell.value:.2f}", (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=7, **_halo()
        )
    ticks = [place for place, size in enumerate(panel.sizes) if size & (size - 1) == 0] or list(places)
    labels = [str(panel.sizes[place]) for place in ticks]
    axes.set_xticks(ticks, labels, rotation=45, fontsize="small")
    axes.set_yticks(ticks, labels, fontsize="small")
    axes.set(title=f"K = {panel.k}", xlabel="M")
    return image


def _heat_maps(maps: Sequence[SizeMap], scale: tuple[Any, str], title: str, note: str, text: Any) -> Any:
    """All panels, one below the other, with cells of one size and one scale of colours."""
    from matplotlib.figure import Figure

    wide = max(4, *(len(one.columns) for one in maps))
    lines = [len(one.lines) for one in maps]
    cell = 0.42 if wide > 12 else 0.62  # inches
    size = (3.2 + cell * wide, 1.1 + 0.27 * sum(lines) + 0.85 * len(maps))
    figure = Figure(figsize=size, layout="constrained")
    down = figure.subplots(len(maps), 1, squeeze=False, gridspec_kw={"height_ratios": lines})[:, 0]
    for axes, one in zip(down, maps, strict=True):
        values = np.array([[np.nan if each is None else each.value for each in line] for line in one.cells])
        image = axes.imshow(values, norm=scale[0], cmap=scale[1], aspect="auto", interpolation="none")
        if text is _ratio_text:
            _hatch_losses(axes, one)
        for i, line in enumerate(one.cells):
            for j, each in enumerate(line):
                if each is not None:
                    _label(axes, i, j, each, image, text)
        axes.set_xticks(range(len(one.columns)), [str(size) for size in one.columns], rotation=90 if wide > 12 else 0)
        axes.set_yticks(range(len(one.lines)), one.lines)
        axes.tick_params(labelsize="small", length=0)
        axes.set(xlim=(-0.5, wide - 0.5), ylabel=one.y)
        axes.set_xlabel(one.x, loc="left")
        axes.spines[:].set_visible(False)
        axes.set_title(one.title, fontsize="medium", loc="left")
    bar = figure.colorbar(
        image, ax=list(down), pad=0.01, aspect=30, extend="both" if text is _ratio_text else "neither"
    )
    if text is not _ratio_text:
        bar.set_ticks([2**power for power in range(int(np.log2(scale[0].vmax)) + 1)], minor=False)
        bar.ax.yaxis.set_major_formatter("x{x:g}")
        bar.ax.yaxis.set_minor_locator(_no_ticks())
    figure.suptitle(title)
    figure.supxlabel(note, fontsize="small")
    return figure


def _label(axes: Any, i: int, j: int, cell: Cell, image: Any, text: Any) -> None:
    red, green, blue, _ = image.cmap(image.norm(cell.value))
    dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < _DARK
    weight = "bold" if cell.verdict == "faster" and text is _ratio_text else "normal"
    style = {"ha": "center", "va": "center", "fontsize": 7, "color": "white" if dark else "black", "weight": weight}
    axes.text(j, i, text(cell), **style).set_in_layout(False)  # inside the axes, and the layout of many takes seconds


def _hatch_losses(axes: Any, one: SizeMap) -> None:
    """One path around all runs of losses: a map of a thousand cells stays small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    runs = []
    for i, line in enumerate(one.cells):
        lost = [each is not None and each.verdict == "slower" for each in line]
        for (left, right), is_lost in _runs(lost):
            if is_lost:
                corners = [(left, i - 0.5), (right, i - 0.5), (right, i + 0.5), (left, i + 0.5), (left, i - 0.5)]
                runs.append(Path(np.add(corners, (-0.5, 0)), closed=True))
    if runs:
        around = Path.make_compound_path(*runs)
        axes.add_patch(PathPatch(around, fill=False, hatch=_HATCH, edgecolor=_HATCH_COLOUR, linewidth=0))


def _runs(values: Sequence[bool]) -> list[tuple[tuple[int, int], bool]]:
    """Runs of equal values: where each begins, where the next one does, and the value."""
    found, begin = [], 0
    for value, group in groupby(values):
        end = begin + len(list(group))
        found.append(((begin, end), value))
        begin = end
    return found


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _ratio_text(cell: Cell) -> str:
    return f"{cell.value:.2f}{' =' if cell.verdict == 'no difference' else ''}"


def _diverging(ratios: Sequence[float]) -> tuple[Any, str]:
    """A scale that is white at 1 and reaches as far to both sides."""
    from matplotlib.colors import Normalize

    span = min(max(abs(each - 1) for each in ratios), _SPAN[1])
    span = max(span, _SPAN[0])
    return Normalize(1 - span, 1 + span), _DIVERGING


def _hatched(contours: Any) -> None:
    contours.set_edgecolor(_HATCH_COLOUR)
    contours.set_linewidth(0)


def _halo() -> dict[str, Any]:
    """A white edge around text that lies on colours."""
    from matplotlib.patheffects import withStroke

    return {"path_effects": [withStroke(linewidth=2, foreground="white")]}


def _all(maps: Sequence[SizeMap]) -> list[Cell]:
    return [cell for one in maps for line in one.cells for cell in line if cell is not None]
