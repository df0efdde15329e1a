"""Named sets of measurements: what the README's tables and the targets of the kernels are read from.

``hopper`` is everything; ``hopper-planes`` and so on are its parts, so that a machine lent for minutes can take one at
a time. ``squares``, ``llm960``, ``deepgemm`` and ``thin`` are sets of shapes, see ``evaluate.shapes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subcubic.bench_schemes import Schemes
from subcubic.errors import UsageError
from subcubic.output import note

if TYPE_CHECKING:
    from evaluate.cases import Case

# Pairs of windows: bursts scatter by 0.3 %, settled windows by 2 to 3 % but last longer.
_PAIRS = {"burst": 9, "steady": 7}
_PLAIN, _WINOGRAD = "classical-1x1x1", "winograd"
# Two of Winograd's products need no planes; with a constant B so do those whose factor of A is a block.
_PHASES = {"variable": (("overlap", 2),), "b_constant": (("overlap", 2), ("constant_b", 1))}
_NARROW, _WIDE = ((("pending_bits", bits),) for bits in (16, 32))
_KEYS = (
    *("id", "levels", "path", "dtype", "plane_dtype", "product_dtype", "M", "N", "K", "layout", "operands"),
    *("distribution", "seed", "regime"),
)
_SMALL = 512  # rows of A below which no scheme is measured: its blocks would not fill a tile
_LONG = 32768  # one launch lasts longer than a burst


@dataclass(frozen=True)
class Line:
    """One row to be measured.

    Attributes:
        scheme: a reference to it, see ``subcubic.reference``.
        size: M = N = K, or the three.
        dtype: of the matrices.
        operands: of ``evaluate.variants.OPERANDS``.
        regime: burst or steady.
        path: one of ``evaluate.variants.PATHS``.
        plane_dtype: of the planes, or "input".
        levels: of recursion.
        options: of the emitter, by name; with ``overlap`` planes are made by the same launch, while products run that
            need none.
        turned: whether the cheapest member of the scheme's orbit is measured in its place.
        pairs: of windows; None means what suits the regime.
    """

    scheme: str
    size: int | tuple[int, int, int]
    dtype: str = "bf16"
    operands: str = "variable"
    regime: str = "burst"
    path: str = "fused"
    plane_dtype: str = "input"
    levels: int = 1
    options: tuple[tuple[str, int], ...] = ()
    turned: bool = False
    pairs: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K."""
        return (self.size,) * 3 if isinstance(self.size, int) else self.size


def set_lines(name: str) -> list[Line]:
    """The lines of a set or of one of its parts.

    Raises:
        UsageError: there is no such set.
    """
    from evaluate.shapes import SETS

    if name in SETS:
        return _shapes(name)
    parts = _hopper()
    names = ["hopper", *(f"hopper-{part}" for part in parts), *SETS]
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
    from evaluate.variants import CHAINED_PATHS, Variant, has_planes

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
        product_dtype = "fp32" if line.path in CHAINED_PATHS else line.dtype
        variant = Variant(line.dtype, line.path, line.operands, plane_dtype, product_dtype, options=line.options)
        windows = pairs or line.pairs or _PAIRS[line.regime]
        # Clocks under load are read where they have settled, of one dtype: it takes two seconds.
        load = line.regime == "steady" and line.dtype == "bf16"
        how = Settings(pairs=windows, regime=line.regime, set=name, load=load, **settings)
        yield Case(plan, line.shape, variant, how, facts)


def unmeasured(found: Sequence[Case], folder: Path, device: str) -> list[Case]:
    """The cases that no document in a folder has a row of, measured on a device of this name."""
    from evaluate.cases import identity
    from evaluate.report import load

    documents = [document for document in load(folder) if document.get("device") == device]
    done = {_key(row) for document in documents for row in document["rows"]}
    return [case for case in found if _key({**identity(case), "regime": case.settings.regime}) not in done]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells two measurements apart."""
    return (*(row.get(name) for name in _KEYS), tuple(sorted(row.get("options", {}).items())))


def _hopper() -> dict[str, list[Line]]:
    """The parts in the order of their weight, should the time end before the set does."""
    from evaluate.timing import PAIRS

    scheme = "4x4x2"  # more is saved, more is published: pays where blocks are large
    return {
        "plain": _both(_PLAIN, (4096, 8192, 16384, _LONG)),
        "planes": _sizes("planes_given"),
        "constant": [*_sizes("b_constant"), *_overlapped("b_constant", 8192, 16384)],
        "variable": [*_sizes("variable"), *_overlapped("variable", 8192, 16384)],
        "best": [
            *_both(scheme, (16384, _LONG), operands="b_constant", turned=True),
            Line(scheme, 16384, operands="b_constant", turned=True, options=(("overlap", 1), ("constant_b", 1))),
            *_both(_WINOGRAD, (16384, _LONG), operands="b_constant", levels=2),
            Line(f"{scheme}*strassen", _LONG, operands="b_constant", regime="steady", turned=True),
            *(Line(one, 16384, operands="b_constant", turned=True) for one in ("4x2x4", "3x2x3", "3x3x3", "4x4x4")),
            Line(scheme, 16384, operands="variable", turned=True),
            Line(scheme, 16384, operands="planes_given", turned=True),
        ],
        "6144": [
            Line(_PLAIN, 6144),
            *(Line(_WINOGRAD, 6144, operands=mode) for mode in ("planes_given", "b_constant", "variable")),
        ],
        "accuracy": [
            *(Line(_WINOGRAD, 16384, operands="planes_given", plane_dtype="fp16", levels=levels) for levels in (1, 2)),
            *(Line(_WINOGRAD, 8192, operands=mode, plane_dtype="fp16") for mode in ("planes_given", "b_constant")),
            # What scaling and a guard cost beside the same without.
            *(Line(_WINOGRAD, 8192, options=options) for options in ((), (("scale", 1),), (("guard", 1),))),
        ],
        "wide": [
            line
            for dtype, size in (("fp32", 8192), ("fp64", 16384))
            for line in _both(_WINOGRAD, (size,), dtype, path="cuda", levels=2, pairs=PAIRS)
        ],
        "fp16": [
            *(Line(_PLAIN, size, "fp16") for size in (8192, 16384)),
            *(
                Line(_WINOGRAD, size, "fp16", operands=mode)
                for mode in ("planes_given", "b_constant", "variable")
                for size in (8192, 16384)
            ),
            *_overlapped("variable", 8192, dtype="fp16"),
            *_overlapped("b_constant", 8192, dtype="fp16"),
            # Not the default where planes keep 11 bits: the error grows by 6 % at one level.
            *(Line(_WINOGRAD, size, "fp16", operands="planes_given", options=_NARROW) for size in (8192, 16384)),
        ],
        "noise": [Line(_PLAIN, 8192, dtype, path="cublas") for dtype in ("bf16", "fp16")],
        # The vendor's products; tiles that run through all of them; the last tiles shared; blocks that keep in step;
        # pending tiles of 16 bits.
        "ablation": [
            Line(_WINOGRAD, 16384, path="cuda"),
            *(
                Line(_WINOGRAD, 16384, operands="planes_given", options=options)
                for options in ((("pace", 0), ("share", 0), *_WIDE), (("pace", 0), *_WIDE), _WIDE, ())
            ),
        ],
        # From which size on it pays, for each type and kind of operands.
        "crossover": [
            *(
                line
                for dtype in ("bf16", "fp16")
                for mode in ("variable", "b_constant", "planes_given")
                for size in (2048, 3072, 4096, 6144, 8192)
                for line in (
                    Line(_WINOGRAD, size, dtype, mode),
                    *([Line(_WINOGRAD, size, dtype, mode, options=_PHASES[mode])] if mode in _PHASES else []),
                )
                if size > 3072 or not line.options
            ),
            *(
                Line(_WINOGRAD, size, dtype, path="cuda")
                for dtype in ("fp32", "fp64")
                for size in (1024, 1536, 2048, 3072, 4096)
            ),
        ],
        "triton": [Line(one, 8192, path=path) for one in (_WINOGRAD, "3x3x3") for path in ("triton", "fused")],
    }


def _shapes(name: str) -> list[Line]:
    """The plain kernel on a set of shapes, and Winograd's with the weights as constant B where M is not small."""
    from evaluate.shapes import shapes_of

    lines = []
    for shape in shapes_of(name):
        # A layer of the grid is measured for the sake of the scheme; there the baseline of the row is plain enough.
        lines += [Line(_PLAIN, shape)] if name != "llm960" else []
        lines += [Line(_WINOGRAD, shape, operands="b_constant")] if shape[0] >= _SMALL else []
        lines += [Line(_WINOGRAD, shape)] if name == "squares" else []
    return lines


def _sizes(operands: str) -> list[Line]:
    return _both(_WINOGRAD, (4096, 8192, 16384, _LONG), operands=operands)


def _overlapped(operands: str, *sizes: int, dtype: str = "bf16") -> list[Line]:
    return _both(_WINOGRAD, sizes, dtype, operands=operands, options=_PHASES[operands])


def _both(scheme: str, sizes: Sequence[int], dtype: str = "bf16", **options: Any) -> list[Line]:
    """Both regimes at each size, only settled clocks at the largest."""
    return [
        Line(scheme, size, dtype, regime=regime, **options)
        for size in sizes
        for regime in (("steady",) if size >= _LONG else ("burst", "steady"))
    ]
