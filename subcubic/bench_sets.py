"""Named sets of measurements: what the README's tables and the targets of the kernels are read from.

``hopper`` is everything; ``hopper-planes`` and so on are its parts, so that a machine lent for minutes can take one at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from subcubic.bench_schemes import Schemes
from subcubic.errors import UsageError
from subcubic.output import note

if TYPE_CHECKING:
    from evaluate.cases import Case

# Pairs of windows: bursts scatter by 0.3 %, settled windows by 2 to 3 % but last longer.
_PAIRS = {"burst": 15, "steady": 7}
_PLAIN, _WINOGRAD = "classical-1x1x1", "winograd"
# Rank over volume, the least first among what has good planes.
_BEST = (("winograd", 2), ("4x4x2", 1), ("4x2x4", 1), ("3x3x3", 1), ("3x2x3", 1), ("4x4x4", 1))
_LONG = 32768  # one launch lasts longer than a burst


@dataclass(frozen=True)
class Line:
    """One row to be measured.

    Attributes:
        scheme: a reference to it, see ``subcubic.reference``.
        size: M = N = K.
        dtype: of the matrices.
        operands: of ``evaluate.variants.OPERANDS``.
        regime: burst or steady.
        path: "fused", "cuda" or "cublas".
        plane_dtype: of the planes, or "input".
        levels: of recursion.
        overlap: whether planes are made by the same launch, while products run that need none.
        turned: whether the cheapest member of the scheme's orbit is measured in its place.
        pairs: of windows; None means what suits the regime.
    """

    scheme: str
    size: int
    dtype: str = "bf16"
    operands: str = "variable"
    regime: str = "burst"
    path: str = "fused"
    plane_dtype: str = "input"
    levels: int = 1
    overlap: bool = False
    turned: bool = False
    pairs: int | None = None


def set_lines(name: str) -> list[Line]:
    """The lines of a set or of one of its parts.

    Raises:
        UsageError: there is no such set.
    """
    parts = _hopper()
    names = ["hopper", *(f"hopper-{part}" for part in parts)]
    if name not in names:
        raise UsageError(f"unknown set {name!r}; choose one of {', '.join(names)}")
    chosen = parts.values() if name == "hopper" else [parts[name.removeprefix("hopper-")]]
    return list(dict.fromkeys(line for part in chosen for line in part))


def set_cases(
    lines: Sequence[Line], name: str, known: Schemes, *, pairs: int | None, **settings: Any
) -> Iterator[Case]:
    """The cases of lines; those of a scheme that the catalog does not have are left out, with a note.

    Args:
        lines: what to measure.
        name: of the set, for the rows.
        known: where the schemes are found.
        pairs: of windows; None means what suits the regime.
        **settings: further fields of ``evaluate.cases.Settings``.
    """
    from evaluate.cases import Case, Settings
    from evaluate.variants import Variant, has_planes

    missing: set[str] = set()
    for line in lines:
        if line.scheme in missing:
            continue
        try:
            plan, facts = known.plan(line.scheme, line.levels, line.operands if line.turned else "")
        except LookupError as error:
            note(f"left out: {error}")
            missing.add(line.scheme)
            continue
        plane_dtype = line.dtype if line.plane_dtype == "input" or not has_planes(plan) else line.plane_dtype
        product_dtype = "fp32" if line.path == "fused" else line.dtype
        options = (("overlap", 1),) if line.overlap else ()
        variant = Variant(line.dtype, line.path, line.operands, plane_dtype, product_dtype, options=options)
        windows = pairs or line.pairs or _PAIRS[line.regime]
        # Clocks under load are read where they have settled, of one dtype: it takes two seconds.
        load = line.regime == "steady" and line.dtype == "bf16"
        how = Settings(pairs=windows, regime=line.regime, set=name, load=load, **settings)
        yield Case(plan, (line.size,) * 3, variant, how, facts)


def _hopper() -> dict[str, list[Line]]:
    """The parts in the order of their weight, should the time end before the set does."""
    from evaluate.timing import PAIRS

    return {
        "plain": [line for dtype in ("bf16", "fp16") for line in _both(_PLAIN, (4096, 8192, 16384, _LONG), dtype)],
        "planes": _each_dtype("planes_given"),
        "variable": _each_dtype("variable"),
        "constant": _each_dtype("b_constant"),
        "overlap": [
            line
            for mode in ("variable", "b_constant")
            for line in _both(_WINOGRAD, (8192, 16384, _LONG), operands=mode, overlap=True)
        ],
        "best": [
            line
            for scheme, levels in _BEST
            for line in _both(scheme, (16384, _LONG), operands="b_constant", levels=levels, turned=True)
        ],
        "6144": [
            *_both(_PLAIN, (6144,)),
            *(
                line
                for mode in ("planes_given", "b_constant", "variable")
                for line in _both(_WINOGRAD, (6144,), operands=mode)
            ),
        ],
        "accuracy": [
            line
            for levels in (1, 2)
            for mode in ("planes_given", "b_constant", "variable")
            for line in _both(_WINOGRAD, (8192, 16384), operands=mode, plane_dtype="fp16", levels=levels)
            if line.regime == "burst"
        ],
        "wide": [
            line
            for dtype, size in (("fp32", 8192), ("fp64", 16384))
            for line in _both(_WINOGRAD, (size,), dtype, path="cuda", levels=2, pairs=PAIRS)
        ],
        "noise": [line for dtype in ("bf16", "fp16") for line in _both(_PLAIN, (8192,), dtype, path="cublas")],
    }


def _each_dtype(operands: str) -> list[Line]:
    sizes = (4096, 8192, 16384, _LONG)
    return [line for dtype in ("bf16", "fp16") for line in _both(_WINOGRAD, sizes, dtype, operands=operands)]


def _both(scheme: str, sizes: Sequence[int], dtype: str = "bf16", **options: Any) -> list[Line]:
    """Both regimes at each size, only settled clocks at the largest."""
    return [
        Line(scheme, size, dtype, regime=regime, **options)
        for size in sizes
        for regime in (("steady",) if size >= _LONG else ("burst", "steady"))
    ]
