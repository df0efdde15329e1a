"""How long a plan and the vendor's GEMM should take on a device: a cost model that needs no device.

The time of a kernel is a sum of phases; of each the larger of its compute and its memory time counts. Products run as
tiles in rounds over the multiprocessors, and between them the ends of tiles, the publications, leave the tensor cores
idle. Huang, Yu and van de Geijn (arXiv 1808.07984) and FalconGEMM (arXiv 2605.06057) choose schemes by such models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import ceil
from typing import Any

from codegen.fused_tables import ADD, FINISH, PARK, RESUME, WHOLE, kind_of
from codegen.plan import Plan
from codegen.schedule import Schedule, Vector, schedule
from evaluate.cases import Shape
from evaluate.device_model import DeviceModel
from evaluate.gemm_model import BYTES, default_path, full_rate, gemm_seconds, rounds_of
from evaluate.operands import check_choice
from evaluate.variants import FUSED_PATH, LIBRARY_PATH, OPERANDS
from evaluate.windows import GPU_REGIMES

# Clocks of the tensor cores lost to a publication of a tile of 128 x 256 on one multiprocessor. Stamps in a kernel on
# an H200 gave those of parking, finishing and whole tiles; the others follow from what they read and write.
END_CLOCKS = {PARK: 2100, WHOLE: 2400, FINISH: 4300, ADD: 4300, RESUME: 1900}
_NARROW = 1.03  # more time for each product in tiles of 192 columns, see ``codegen/kernels/hopper/run.cuh``
_CONVERTED = 0.99  # rate of products whose planes are of another type than the matrices, measured on an H200
_DEPTH = 64  # of a step of the products along K


@dataclass(frozen=True)
class Phase:
    """One part of a launch, in seconds.

    Attributes:
        name: planes, products, or sums.
        compute: of products in full tiles on all multiprocessors.
        idle: rounds of tiles that do not fill the device, tiles beyond the edge, and narrow tiles.
        epilogue: publications.
        memory: bytes over the copy rate.
        launch: fixed cost.
    """

    name: str
    compute: float
    idle: float
    epilogue: float
    memory: float
    launch: float

    @property
    def seconds(self) -> float:
        """The larger of both kinds of work, and the launch."""
        return max(self.compute + self.idle + self.epilogue, self.memory) + self.launch

    @property
    def bound(self) -> str:
        """What it waits for: compute or memory."""
        return "memory" if self.memory > self.compute + self.idle + self.epilogue else "compute"


@dataclass(frozen=True)
class Prediction:
    """What the model says of a plan at a shape.

    Attributes:
        seconds: of the plan.
        baseline_seconds: of the vendor's GEMM.
        ceiling: ratio if only products took time, all at one rate: volume over rank. Where the vendor's rate changes
            with the size of a product a ratio may exceed it.
        phases: of the plan.
        losses: seconds beyond the bare products, by cause, the largest first.
    """

    seconds: float
    baseline_seconds: float
    ceiling: float
    phases: tuple[Phase, ...]
    losses: tuple[tuple[str, float], ...]

    @property
    def ratio(self) -> float:
        """Above 1 the plan is faster."""
        return self.baseline_seconds / self.seconds

    @property
    def why(self) -> str:
        """The ceiling of products at one rate and what takes time beside them, in one clause."""
        shares = [f"{cause} {seconds / self.seconds:.1%}" for cause, seconds in self.losses if seconds > 0]
        return f"{self.ceiling:.3f} by products alone; beyond them of the time: {', '.join(shares) or 'nothing'}"

    def document(self) -> dict[str, Any]:
        """The keys of a row."""
        phases = [{**asdict(phase), "seconds": phase.seconds, "bound": phase.bound} for phase in self.phases]
        figures = {"seconds": self.seconds, "baseline_seconds": self.baseline_seconds, "ratio": self.ratio}
        return {**figures, "ceiling": self.ceiling, "phases": phases, "losses": dict(self.losses), "why": self.why}


def predict(
    plan: Plan,
    shape: Shape,
    device: DeviceModel,
    dtype: str = "bf16",
    *,
    operands: str = "variable",
    plane_dtype: str | None = None,
    path: str | None = None,
    regime: str = "burst",
    widths: Sequence[int] = (),
) -> Prediction:
    """Predict the times of a plan and of the vendor's GEMM.

    Args:
        plan: what is computed.
        shape: M, N, K.
        device: where.
        dtype: of A, B and C; fp8, int8 and tf32 are answered on paper, there are no kernels for them.
        operands: what a launch of a fused kernel is given, one of ``evaluate.variants.OPERANDS``.
        plane_dtype: of the planes; ``dtype`` by default.
        path: "fused" or "cuda"; by default fused for types of tensor cores of at most 16 bits on a GPU.
        regime: burst or steady.
        widths: of the tiles of the fused kernel, if not those of the device.

    Raises:
        ValueError: an unknown name, a size below 1, or a dtype or path that the device does not have.
    """
    check_choice("operands", operands, OPERANDS)
    check_choice("regime", regime, GPU_REGIMES)
    check_choice(f"dtype of {device.name}", dtype, device.peak)
    planes = plane_dtype or dtype
    check_choice("plane dtype", planes, BYTES)
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"a shape must be three positive sizes M, N, K, not {tuple(shape)}")
    chosen = path or default_path(device, dtype)
    check_choice("path", chosen, (FUSED_PATH, LIBRARY_PATH))
    if chosen == FUSED_PATH and not device.tiled:
        raise ValueError(f"{device.name} has no fused kernels; use path {LIBRARY_PATH}")
    if chosen == LIBRARY_PATH and operands != OPERANDS[0]:
        raise ValueError(f"path {LIBRARY_PATH} has operands {OPERANDS[0]}, not {operands}; use path {FUSED_PATH}")
    m, k, n = plan.format
    if chosen == FUSED_PATH:
        found = _scheduled(plan, planes != dtype)
        phases = _fused(found, shape, device, dtype, planes, operands, regime, widths or device.widths)
    else:
        phases = _library(plan, shape, device, dtype, regime)
    baseline = gemm_seconds(device, shape, dtype, regime)
    seconds = sum(phase.seconds for phase in phases)
    return Prediction(seconds, baseline, m * k * n / plan.rank, tuple(phases), _losses(phases))


@lru_cache(maxsize=64)
def _scheduled(plan: Plan, convert: bool) -> Schedule:
    """A plan's schedule, which takes seconds for large schemes, once for all shapes and devices."""
    return schedule(plan, convert)


def _losses(phases: Sequence[Phase]) -> tuple[tuple[str, float], ...]:
    """Seconds beyond those of the bare products, by cause: together with these they are all seconds."""
    found = []
    for phase in phases:
        if phase.name != "products":
            found.append((phase.name, phase.seconds))
        elif phase.bound == "memory":
            found += [("memory", phase.memory - phase.compute), ("launch", phase.launch)]
        else:
            found += [("idle", phase.idle), ("epilogue", phase.epilogue), ("launch", phase.launch)]
    return tuple(sorted(found, key=lambda each: -each[1]))


def _fused(
    found: Schedule,
    shape: Shape,
    device: DeviceModel,
    dtype: str,
    planes: str,
    operands: str,
    regime: str,
    widths: Sequence[int],
) -> list[Phase]:
    """Planes by a pass of their own, then all products in one kernel."""
    m, n, k = shape
    rows, inner, columns = (-(-size // parts) for size, parts in zip((m, k, n), found.plan.format, strict=True))
    sides = [("variable", "b_constant"), ("variable",)]
    moved = sum(
        block * _plane_bytes(vectors, BYTES[dtype], BYTES[planes])
        for vectors, block, made in zip(
            (found.planes_a, found.planes_b), (rows * inner, inner * columns), sides, strict=True
        )
        if operands in made
    )
    has_planes = bool(found.planes_a or found.planes_b)
    rate = full_rate(device, dtype, regime) * (device.chained if has_planes else 1.0)
    rate *= _CONVERTED if has_planes and planes != dtype else 1.0
    clock = device.clock * (device.steady if regime == "steady" else 1.0) * (device.chained if has_planes else 1.0)
    width = _width(device, rows, columns, widths)
    cost = _NARROW if width < max(device.widths) else 1.0
    depth = ceil(inner / _DEPTH) * _DEPTH
    tile = 2 * device.rows * width * depth * len(found.turns) * cost / (rate / device.units)
    kinds = [kind_of(publication) for turn in found.turns for publication in turn.publications]
    ends = sum(END_CLOCKS[kind] for kind in kinds) * width / 256 / clock
    tiles = ceil(rows / device.rows) * ceil(columns / width)
    rounds = rounds_of(device, tiles, device.units)
    bare = 2 * rows * columns * inner * len(found.turns) / rate
    # A wave of tiles is about a square, so that what its tiles share of A and B is read once.
    side = device.rows * device.units**0.5
    read = sum(
        rows * inner * max(1.0, columns / side) * BYTES[planes if turn.a.plane else dtype]
        + inner * columns * max(1.0, rows / side) * BYTES[planes if turn.b.plane else dtype]
        for turn in found.turns
    )
    # Of a pending tile, see ``codegen.emit_hopper``, whose kernels alone have such wide tiles.
    item = 2 if planes == "bf16" and max(device.widths) == 256 else 4
    slots = found.slots * device.units * device.rows * width * item
    spilled = max(0.0, 1 - device.l2_bytes / slots) if slots else 0.0
    touched = sum({PARK: 1, WHOLE: 0, FINISH: 1, ADD: 2, RESUME: 1}[kind] for kind in kinds)
    traffic = read + m * n * BYTES[dtype] + spilled * touched * rows * columns * item
    products = Phase("products", bare, rounds * tile - bare, rounds * ends, traffic / device.copy, device.launch)
    return [*([Phase("planes", 0, 0, 0, moved / device.copy, device.launch)] if moved else []), products]


def _plane_bytes(vectors: Sequence[Vector], source: int, plane: int) -> int:
    """Bytes that making planes moves, for each element of a block: every block that is used once, every plane once."""
    used = {block for vector in vectors for block, coefficient in enumerate(vector) if coefficient}
    return source * len(used) + plane * len(vectors)


def _width(device: DeviceModel, rows: int, columns: int, widths: Sequence[int]) -> int:
    """The tile's columns, chosen as the kernel does: by whole rounds."""

    def time(width: int) -> float:
        tiles = ceil(rows / device.rows) * ceil(columns / width)
        return ceil(tiles / device.units) * width * (_NARROW if width < max(widths) else 1.0)

    return min(sorted(widths, reverse=True), key=time)


def _library(plan: Plan, shape: Shape, device: DeviceModel, dtype: str, regime: str) -> list[Phase]:
    """All planes by a pass, the products by the vendor's library, their sums by another pass."""
    m, n, k = shape
    rows, inner, columns = (-(-size // parts) for size, parts in zip((m, k, n), plan.format, strict=True))
    item = BYTES[dtype]
    planes = m * k + k * n + plan.rank * (rows * inner + inner * columns)
    sums = plan.rank * rows * columns + m * n
    products = gemm_seconds(device, (rows, columns, inner), dtype, regime, plan.rank) - device.launch
    return [
        Phase("planes", 0, 0, 0, planes * item / device.copy, device.launch),
        Phase("products", products, 0, 0, 0, device.launch),
        Phase("sums", 0, 0, 0, sums * item / device.copy, device.launch),
    ]
