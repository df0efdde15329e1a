"""A shape table: what measured fastest at the nearest shape, or the vendor's GEMM where nothing beat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

from evaluate.cases import Shape
from evaluate.operands import check_choice
from evaluate.report import load
from evaluate.timing import verdict
from evaluate.variants import FUSED_PATH, LIBRARY_PATH, OPERANDS, VENDOR_PATH

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """What to run.

    Attributes:
        path: "fused", "cuda", or "cublas" where nothing measured faster.
        reference: how the scheme was named when it was measured; "" for cublas.
        levels: of recursion.
        orbit: for which operands the scheme was turned; "" if it was not.
        operands: which of the planes that are there it uses.
        plane_dtype: of the planes.
        options: further ones of the emitter, by name.
        shape: M, N, K of the measurement; None if nothing was measured for the device, dtype and operands.
        ratio: of the measurement; 1 for cublas.
    """

    path: str
    reference: str
    levels: int
    orbit: str
    operands: str
    plane_dtype: str
    options: tuple[tuple[str, Any], ...]
    shape: Shape | None
    ratio: float


def measured(folder: Path, device: str, paths: Sequence[str] = (FUSED_PATH, LIBRARY_PATH)) -> list[Row]:
    """The usable rows of a folder of results for a device, the newest of each kind.

    Args:
        folder: of results.
        device: by its full name.
        paths: those of the rows that are wanted.

    Raises:
        ValueError: a file is not a results document.
    """
    newest: dict[tuple[Any, ...], Row] = {}
    keys = (
        "reference",
        "orbit",
        "levels",
        "path",
        "dtype",
        "plane_dtype",
        "layout",
        "operands",
        "regime",
        "M",
        "N",
        "K",
    )
    for document in load(folder):
        for row in document["rows"] if document.get("device") == device else ():
            if row.get("reference") and row.get("path") in paths and row.get("correct"):
                options = tuple(sorted(row.get("options", {}).items()))
                newest[(*(row.get(key) for key in keys), options)] = row
    return list(newest.values())


def choose(
    rows: Iterable[Row], dtype: str, shape: Shape, operands: str = "variable", *, regime: str = "burst"
) -> Choice:
    """Look a product up.

    Args:
        rows: as of ``measured``.
        dtype: of the matrices.
        shape: M, N, K.
        operands: which planes are there; what needs fewer of them is a candidate too.
        regime: burst or steady.

    Returns:
        Of the rows at the shape nearest by the logarithms of its sizes the one of the greatest ratio whose interval
        lies above 1.

    Raises:
        ValueError: unknown operands.
    """
    check_choice("operands", operands, OPERANDS)
    enough = OPERANDS[: OPERANDS.index(operands) + 1]
    wanted = {"dtype": dtype, "regime": regime}
    fitting = [
        row
        for row in rows
        if all(row.get(key) == value for key, value in wanted.items())
        and row["operands"] in enough
        and row["layout"] in ("nn", "row-major")
    ]
    nearest = min((_distance(row, shape) for row in fitting), default=None)
    here = [row for row in fitting if _distance(row, shape) == nearest]
    best = max((row for row in here if verdict(row) == "faster"), key=lambda row: row["ratio"], default=None)
    if best is None:
        return Choice(VENDOR_PATH, "", 1, "", "variable", dtype, (), _shape(here[0]) if here else None, 1.0)
    options = tuple(sorted(best.get("options", {}).items()))
    named = (best["path"], best["reference"], best["levels"], best.get("orbit", ""))
    return Choice(*named, best["operands"], best["plane_dtype"], options, _shape(best), best["ratio"])


def _shape(row: Row) -> Shape:
    return row["M"], row["N"], row["K"]


def _distance(row: Row, shape: Sequence[int]) -> float:
    return sum(abs(log2(there / here)) for there, here in zip(_shape(row), shape, strict=True))
