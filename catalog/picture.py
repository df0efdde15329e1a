"""A picture of the factor matrices U, V, W: sign by colour and by mark, size by shade."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import numpy as np

from catalog.files import reason, write_durably
from catalog.formulas import entry_names
from catalog.scheme import Scheme

# Blue and orange are told apart with every common kind of colour blindness, and in grey by the marks.
_COLOURS = ["#b35806", "#ffffff", "#2166ac"]
# Inches of the longest factor matrix; a wider picture would pass the limits of image formats.
_LARGEST = 100.0
_SUFFIXES = (".png", ".svg", ".pdf")


def plot(scheme: Scheme, path: str | Path) -> Path:
    """Draw U, V, W one above the other, a row per matrix entry and a column per product; return the path.

    Positive coefficients are blue with a plus, negative ones orange with a minus; others than 1 and -1 are written out.

    Args:
        scheme: the scheme.
        path: a .png, .svg or .pdf file; one that exists is replaced.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: the suffix is another one, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"cannot draw {path}: its suffix must be one of {', '.join(_SUFFIXES)}")
    try:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError(
            "drawing needs matplotlib, which is not installed; install the extra `plot` (pip install '.[plot]')"
        ) from None
    heights = [len(factor) for factor in scheme.factors]
    cell = min(0.26, _LARGEST / max(scheme.rank, *heights))
    figure = Figure(figsize=(1.2 + cell * scheme.rank, 1.6 + cell * sum(heights)), layout="constrained")
    figure.suptitle(f"{scheme.format}, rank {scheme.rank} over {scheme.ring}")
    axes = figure.subplots(3, 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    colours = LinearSegmentedColormap.from_list("sign", _COLOURS)
    for axis, name, labels, factor, denominator in zip(
        axes, "UVW", entry_names(scheme.format), scheme.factors, scheme.denominators, strict=True
    ):
        # Shades by the square root, so that a few large coefficients do not make the ones invisible.
        shade = np.sign(factor) * np.sqrt(np.abs(factor.astype(np.float64)))
        peak = float(np.abs(shade).max(initial=1.0))
        axis.imshow(shade, cmap=colours, vmin=-1.4 * peak, vmax=1.4 * peak, aspect="auto", interpolation="nearest")
        for entry, term in np.argwhere(factor):
            mark = _mark(Fraction(int(factor[entry, term]), denominator))
            axis.text(term, entry, mark, ha="center", va="center", fontsize=9 if len(mark) == 1 else 5)
        axis.set_yticks(range(len(labels)), labels, fontsize=7)
        axis.set_xticks(range(scheme.rank), [str(term + 1) for term in range(scheme.rank)], fontsize=6)
        axis.set_ylabel(name)
    axes[-1].set_xlabel("product")
    picture = io.BytesIO()  # so that an older picture stays where the disk is full
    figure.savefig(picture, dpi=150, format=path.suffix[1:].lower())
    try:
        write_durably(path, picture.getvalue())
    except OSError as error:
        raise ValueError(f"cannot draw {path}: {reason(error)}; choose another place or make room") from None
    return path


def _mark(value: Fraction) -> str:
    if abs(value) == 1:
        return "+" if value > 0 else "\N{MINUS SIGN}"
    return f"{'+' if value > 0 else chr(0x2212)}{abs(value)}"
