"""The cost model's ratio over M and N for each K, and what was measured there: where a scheme pays on a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate.device_model import DeviceModel
from evaluate.maps import Cell, Row, better, supported
from evaluate.model import predict
from evaluate.timing import verdict

# Four sizes an octave: the lines of a map are evenly spaced by the logarithm, and each is a whole number of tiles.
SIZES = tuple(octave * step // 4 for octave in (1024, 2048, 4096, 8192, 16384) for step in (4, 5, 6, 7)) + (32768,)

_TILE = 128


@dataclass(frozen=True)
class Boundary:
    """Predicted ratios at one K.

    Attributes:
        k: the inner size.
        sizes: of M and of N.
        ratios: [sizes of N, sizes of M] float64, the best of the plans.
        points: (M, N) and the best measured row of each, for the same K, dtype and operands; those at no whole number
            of tiles are left out, since they would lie on top of their neighbours.
    """

    k: int
    sizes: tuple[int, ...]
    ratios: np.ndarray
    points: tuple[tuple[int, int, Cell], ...]


def boundaries(
    plans: Sequence[Plan],
    device: DeviceModel,
    depths: Sequence[int],
    rows: Iterable[Row] = (),
    *,
    dtype: str = "bf16",
    operands: str = "variable",
    regime: str = "burst",
    sizes: Sequence[int] = SIZES,
    **options: Any,
) -> list[Boundary]:
    """One map for each K.

    Args:
        plans: at each shape the best of them counts.
        device: where.
        depths: sizes K.
        rows: measured on such a device, as of ``evaluate.maps.newest``.
        dtype: of the matrices; rows of others are left out.
        operands: one of ``evaluate.variants.OPERANDS``; rows of others are left out.
        regime: burst or steady; rows of the other count where there are none of it.
        sizes: of M and of N, ascending.
        **options: further ones of ``evaluate.model.predict``.

    Raises:
        As ``evaluate.model.predict``.
    """
    options |= {"dtype": dtype, "operands": operands, "regime": regime}
    own = {"dtype": dtype, "operands": operands, "plane_dtype": options.get("plane_dtype") or dtype}
    fitting = [row for row in rows if _shown(row) and all(row[key] == value for key, value in own.items())]
    found = []
    for k in depths:
        ratios = [
            [max(predict(plan, (m, n, k), device, **options).ratio for plan in plans) for m in sizes] for n in sizes
        ]
        best: dict[tuple[int, int], Row] = {}
        for row in sorted((row for row in fitting if row["K"] == k), key=lambda row: row["regime"] != regime):
            there = best.get((row["M"], row["N"]))
            if there is None or there["regime"] == row["regime"]:
                best[row["M"], row["N"]] = better(row, there)
        points = tuple((m, n, Cell(row["ratio"], verdict(row), row)) for (m, n), row in sorted(best.items()))
        found.append(Boundary(k, tuple(sizes), np.array(ratios), points))
    return found


def _shown(row: Row) -> bool:
    return supported(row) and row["M"] % _TILE == 0 and row["N"] % _TILE == 0
