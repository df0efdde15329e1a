"""From which square size on a scheme pays: of measured rows, and by the cost model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.plan import Plan
from evaluate.device_model import DeviceModel
from evaluate.gemm_model import default_path
from evaluate.maps import Row, better, is_square, supported
from evaluate.model import predict
from evaluate.operands import DTYPES
from evaluate.timing import verdict
from evaluate.variants import FUSED_PATH, OPERANDS

# Asked of the model: M = N = K in steps of a tile.
MODEL_SIZES = tuple(range(512, 32768 + 1, 256))


@dataclass(frozen=True)
class Crossover:
    """Where gains begin among the sizes that were looked at.

    Attributes:
        first: the smallest size that pays; None if none does.
        lasting: the smallest size from which on every larger one pays too; None if the largest does not.
        below: the largest size before ``first`` that does not pay; None if ``first`` is the smallest of all.
        largest: the largest size that was looked at.
    """

    first: int | None
    lasting: int | None
    below: int | None
    largest: int

    def document(self) -> dict[str, int | None]:
        """The keys of a row."""
        return {"first": self.first, "lasting": self.lasting, "below": self.below, "largest": self.largest}


@dataclass(frozen=True)
class Measured:
    """A measured crossover.

    Attributes:
        dtype: of the matrices.
        plane_dtype: of the planes.
        operands: one of ``evaluate.variants.OPERANDS``.
        regime: burst or steady.
        crossover: where it is.
        rows: by size the best row, ascending.
    """

    dtype: str
    plane_dtype: str
    operands: str
    regime: str
    crossover: Crossover
    rows: Mapping[int, Row]


@dataclass(frozen=True)
class Predicted:
    """A crossover by the cost model.

    Attributes:
        dtype: of the matrices.
        operands: one of ``evaluate.variants.OPERANDS``.
        path: fused or cuda.
        crossover: where it is.
        ratios: by size the best ratio, ascending.
    """

    dtype: str
    operands: str
    path: str
    crossover: Crossover
    ratios: Mapping[int, float]


def crossover(pays: Mapping[int, bool]) -> Crossover:
    """Where gains begin.

    Args:
        pays: for each size that was looked at whether something pays there.

    Raises:
        ValueError: there is no size.
    """
    if not pays:
        raise ValueError("a crossover needs at least one size; measure or ask for some")
    sizes = sorted(pays)
    first = next((size for size in sizes if pays[size]), None)
    losses = [size for size in sizes if not pays[size]]
    lasting = next((size for size in sizes if size > max(losses, default=0)), None)
    below = max((size for size in losses if first is None or size < first), default=None)
    return Crossover(first, lasting, below, sizes[-1])


def measured_crossovers(rows: Iterable[Row]) -> list[Measured]:
    """One crossover for each dtype, type of planes, kind of operands and regime, in that order, over all schemes.

    Args:
        rows: of one device, as of ``evaluate.maps.newest``. Only squares that are aligned count. A size pays where a
            row's interval lies above 1; where it touches 1 there is no gain.
    """
    best: dict[tuple[str, str, str, str], dict[int, Row]] = {}
    for row in rows:
        if supported(row) and is_square(row) and row.get("aligned") is not False:
            sizes = best.setdefault((row["dtype"], row["plane_dtype"], row["operands"], row["regime"]), {})
            sizes[row["M"]] = better(row, sizes.get(row["M"]))
    found = []
    for key, sizes in sorted(best.items(), key=lambda item: _order(*item[0])):
        pays = {size: verdict(row) == "faster" for size, row in sizes.items()}
        found.append(Measured(*key, crossover(pays), dict(sorted(sizes.items()))))
    return found


def _order(dtype: str, plane_dtype: str, operands: str, regime: str) -> tuple[Any, ...]:
    return list(DTYPES).index(dtype), plane_dtype != dtype, OPERANDS.index(operands), regime


def predicted_crossover(
    plans: Sequence[Plan],
    device: DeviceModel,
    dtype: str,
    *,
    operands: str = "variable",
    sizes: Sequence[int] = MODEL_SIZES,
    **options: Any,
) -> Predicted:
    """The crossover of the best of some plans by the cost model.

    Args:
        plans: at each size the best of them counts.
        device: where.
        dtype: of the matrices.
        operands: one of ``evaluate.variants.OPERANDS``.
        sizes: M = N = K, those that are asked.
        **options: further ones of ``evaluate.model.predict``.

    Raises:
        As ``evaluate.model.predict``.
    """
    ratios = {
        size: max(predict(plan, (size,) * 3, device, dtype, operands=operands, **options).ratio for plan in plans)
        for size in sorted(sizes)
    }
    path = options.get("path") or default_path(device, dtype)
    return Predicted(dtype, operands, path, crossover({size: ratio > 1 for size, ratio in ratios.items()}), ratios)


def modes(device: DeviceModel, dtype: str, path: str | None = None) -> tuple[str, ...]:
    """The kinds of operands that the kernels of a device have for a dtype."""
    return OPERANDS if (path or default_path(device, dtype)) == FUSED_PATH else OPERANDS[:1]
