"""Rows of results as cells of a map: the best measured ratio, or the error factor, over sizes and ways to run.

Here is what a map shows; ``evaluate.map_plots`` draws it. Only rows that support a statement count: those that are
right, were timed on enough pairs, and are of a scheme with fewer products than the standard algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.scheme import Format
from evaluate.operands import DTYPES
from evaluate.timing import verdict
from evaluate.variants import CHAINED_PATHS, OPERANDS, VENDOR_PATH

Row = Mapping[str, Any]

OPERANDS_TEXT = {"variable": "both variable", "b_constant": "B constant", "planes_given": "planes given"}
PHASES = frozenset({"overlap", "constant_b"})  # the options of the emitter that are no experiments
# What tells two measurements of a device apart; of equal ones the newest counts.
_SAME = (
    *("format", "rank", "levels", "path", "dtype", "plane_dtype", "product_dtype", "layout", "M", "N", "K"),
    *("operands", "regime", "distribution"),
)


@dataclass(frozen=True)
class Cell:
    """One cell of a map.

    Attributes:
        value: the ratio, or the error factor.
        verdict: what the row supports, see ``evaluate.timing.verdict``.
        row: that it shows.
    """

    value: float
    verdict: str
    row: Row


@dataclass(frozen=True)
class SizeMap:
    """A table of cells over sizes.

    Attributes:
        title: which shapes, or which types and operands.
        x: what the columns are, for an axis.
        y: what the lines are, for an axis.
        columns: sizes, ascending.
        lines: names of the lines.
        cells: [lines, columns]; None where nothing was measured.
    """

    title: str
    x: str
    y: str
    columns: tuple[int, ...]
    lines: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]


def newest(documents: Iterable[Mapping[str, Any]], device: str | None = None) -> list[Row]:
    """The rows that count of documents of results, of equal measurements the newest, with the device in each.

    Args:
        documents: oldest first, as of ``evaluate.report.load``.
        device: by its full name; None for all.

    Returns:
        Rows without search measurements, experiments with the emitter, and distributions other than normal.
    """
    found: dict[tuple[Any, ...], Row] = {}
    for document in documents:
        for row in document["rows"] if device in (None, document["device"]) else ():
            options = row.get("options") or {}
            usual = options.keys() <= PHASES and row.get("distribution", "normal") == "normal"
            if "kind" not in row and usual:
                key = (document["device"], *(row.get(name) for name in _SAME), *sorted(options.items()))
                found[key] = {**row, "device": document["device"]}
    return list(found.values())


def supported(row: Row) -> bool:
    """Whether a row is of a scheme that saves products, and says something of its speed."""
    saves = "kind" not in row and row["rank"] < Format.parse(row["format"]).volume
    return saves and row["path"] != VENDOR_PATH and verdict(row) != "not measured"


def is_square(row: Row) -> bool:
    """Whether M = N = K."""
    return bool(row["M"] == row["N"] == row["K"])


def better(one: Row, other: Row | None) -> Row:
    """Of two rows the one to show: a gain that is sure before a greater ratio that is not."""
    if other is None:
        return one
    return max(other, one, key=lambda row: (verdict(row) == "faster", row["ratio"]))


def speed_maps(rows: Iterable[Row]) -> list[SizeMap]:
    """The best ratio of each shape, over all schemes, levels and paths.

    Returns:
        A map of the squares, with a line for each dtype, kind of operands and regime, and for each of these a map of
        the other shapes, with a line for each (N, K) and a column for each M. Empty where no row is supported.
    """
    rows = [row for row in rows if supported(row)]
    several = len({row.get("regime") for row in rows}) > 1

    def kind(row: Row) -> tuple[tuple[Any, ...], str]:
        text = f"{types_text(row)}, {OPERANDS_TEXT[row['operands']]}"
        regime = row.get("regime") or ""
        order = (
            list(DTYPES).index(row["dtype"]),
            types_text(row) != row["dtype"],
            OPERANDS.index(row["operands"]),
            regime,
        )
        return (*order, text), f"{text}, {regime}" if several and regime else text

    return _maps(rows, kind, "dtype and operands", "ratio", better)


def error_maps(rows: Iterable[Row]) -> list[SizeMap]:
    """The largest error factor of each shape: relative Frobenius error over that of the vendor's GEMM.

    Returns:
        A map of the squares, with a line for each scheme, levels, dtype and type of planes or stored products, and for
        each of these a map of the other shapes, as ``speed_maps``. Empty where no row has an error.
    """
    known = [row for row in rows if "kind" not in row and error_of(row) and row["path"] != VENDOR_PATH]
    known = [row for row in known if row["rank"] < Format.parse(row["format"]).volume]

    def kind(row: Row) -> tuple[tuple[Any, ...], str]:
        levels = f"{row['levels']} level{'s' if row['levels'] > 1 else ''}"
        text = f"{row['dtype']}, {row['format']}:{row['rank']}, {levels}, {_stored(row)}"
        order = (list(DTYPES).index(row["dtype"]), row["rank"], row["format"], row["levels"])
        return (*order, text), text

    def worse(one: Row, other: Row | None) -> Row:
        return one if other is None else max(other, one, key=error_of)

    return _maps(known, kind, "scheme and types", "error", worse)


def error_of(row: Row) -> float:
    """The error factor of a row; 0 where an error is not known."""
    ours, theirs = row.get("error_fro"), row.get("baseline_error_fro")
    return ours / theirs if ours and theirs else 0.0


def types_text(row: Row) -> str:
    """The dtype, and the type of planes where it is another."""
    planes = row["plane_dtype"] if row["path"] in CHAINED_PATHS else row["dtype"]
    return f"{row['dtype']} with {planes} planes" if planes != row["dtype"] else str(row["dtype"])


def _stored(row: Row) -> str:
    """What is rounded on the way: the planes, and the products where they are stored."""
    products = "" if row["path"] in CHAINED_PATHS else f", {row['product_dtype']} products"
    return f"{row['plane_dtype']} planes{products}"


def _maps(
    rows: Sequence[Row],
    kind: Callable[[Row], tuple[tuple[Any, ...], str]],
    lines: str,
    value: str,
    choose: Callable[[Row, Row | None], Row],
) -> list[SizeMap]:
    """Panels: first the squares by kind, then for each kind the other shapes by layer."""
    # By panel, line and column; each key of a line has a name.
    chosen: dict[tuple[Any, Any, int], Row] = {}
    names: dict[Any, str] = {}
    # A square that is one of a layer's shapes stays with them.
    layers = {(row["N"], row["K"]) for row in rows if not is_square(row)}
    for row in rows:
        key, text = kind(row)
        layer = (row["K"], row["N"])
        panel, line = ((), key) if is_square(row) and layer[::-1] not in layers else (key, layer)
        names |= {key: text, layer: f"{row['N']} x {row['K']}"}
        place = (panel, line, row["M"])
        chosen[place] = choose(row, chosen.get(place))
    made = []
    for panel in sorted({place[0] for place in chosen}):
        own = {place[1:]: row for place, row in chosen.items() if place[0] == panel}
        down, right = (sorted({place[axis] for place in own}) for axis in (0, 1))
        cells = tuple(tuple(_cell(own.get((line, size)), value) for size in right) for line in down)
        heads = (names[panel], "M", "N x K") if panel else ("squares", "M = N = K", lines)
        made.append(SizeMap(*heads, tuple(right), tuple(names[line] for line in down), cells))
    return made


def _cell(row: Row | None, value: str) -> Cell | None:
    if row is None:
        return None
    return Cell(row["ratio"] if value == "ratio" else error_of(row), verdict(row), row)
