"""What one row of results is to measure, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from codegen.plan import Plan
from evaluate.cublas import leading
from evaluate.operands import DISTRIBUTIONS, DTYPES, check_choice
from evaluate.timing import PAIRS
from evaluate.variants import FUSED_PATH, Variant
from evaluate.windows import GPU_REGIMES

_LIBRARY_ALIGNMENT = 16  # bytes; with rows that start elsewhere a vendor's GEMM falls back to much slower kernels

Row = dict[str, Any]
Shape = tuple[int, int, int]  # M, N, K; A is M x K and B is K x N


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        pairs: interleaved pairs of windows.
        regime: burst or steady.
        distribution: of the operands.
        seed: of operands, orders and row samples.
        seeds: how many, from ``seed`` on, errors are found for; times are those of the first.
        limit: seconds a row may spend on pairs, or None.
        set: name of the set of shapes, copied into each row.
        load: whether to read clocks and power while each arm runs, about two seconds a row.
        counters: whether to count what one launch of each arm moves, see ``evaluate.counters``; about 20 seconds a row.
        profile: whether to ask the driver what the kernels of both arms take, see ``evaluate.launched``.
        nvbench: whether to time both arms by NVBench too, see ``evaluate.nvbench``; up to 20 seconds a row.
    """

    pairs: int = PAIRS
    regime: str = "burst"
    distribution: str = "normal"
    seed: int = 0
    seeds: int = 1
    limit: float | None = None
    set: str = "custom"
    load: bool = True
    counters: bool = False
    profile: bool = False
    nvbench: bool = False

    def __post_init__(self) -> None:
        check_choice("regime", self.regime, GPU_REGIMES)
        check_choice("distribution", self.distribution, DISTRIBUTIONS)
        if self.pairs < 1:
            raise ValueError(f"pairs must be at least 1, not {self.pairs}")
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, not {self.seeds}")


@dataclass(frozen=True)
class Case:
    """What one row is to measure.

    Attributes:
        plan: the scheme and its levels.
        shape: M, N, K.
        variant: how it is run.
        settings: how it is measured.
        facts: further keys of the row, for example ``orbit``: how the scheme was turned.
    """

    plan: Plan
    shape: Shape
    variant: Variant
    settings: Settings
    facts: Row = field(default_factory=dict)


def facts_of(plan: Plan) -> Row:
    """The keys of a row that are the plan's own."""
    return {
        "id": plan.digest,
        "format": str(plan.base.format),
        "ring": str(plan.base.ring),
        "rank": plan.base.rank,
        "levels": plan.levels,
    }


def identity(case: Case) -> Row:
    """What is measured: all keys of a row that are known before it is."""
    plan, variant, settings = case.plan, case.variant, case.settings
    m, n, k = case.shape
    fused = variant.path == FUSED_PATH
    return {
        **facts_of(plan),
        "path": variant.path,
        "dtype": variant.dtype,
        "plane_dtype": variant.plane_dtype,
        "product_dtype": variant.product_dtype,
        "M": m,
        "N": n,
        "K": k,
        "layout": variant.layout if fused else "row-major",
        "aligned": all(
            ld * DTYPES[variant.dtype].bytes % _LIBRARY_ALIGNMENT == 0 for ld in leading(case.shape, variant.layout)
        ),
        "operands": variant.operands,
        "distribution": settings.distribution,
        "seed": settings.seed,
        "set": settings.set,
        **({"options": dict(variant.options)} if variant.options else {}),
        **case.facts,
    }
