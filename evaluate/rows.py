"""One row of results: the figures of one plan at one shape in one dtype on one path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate import cpu
from evaluate.accuracy import Errors, errors, is_correct, sample_rows, tolerance
from evaluate.device import DeviceInfo
from evaluate.gpu import build_library, load_snapshot, open_arms
from evaluate.operands import DISTRIBUTIONS, DTYPES, check_choice, draw, poison
from evaluate.timing import PAIRS, Comparison, compare
from evaluate.windows import GPU_REGIMES, HOST_REGIMES, gpu_measure, host_measure

GPU_PATH = "cuda"
_LIBRARY_ALIGNMENT = 16  # bytes; with rows that start elsewhere a vendor's GEMM falls back to much slower kernels

Row = dict[str, Any]
Shape = tuple[int, int, int]  # M, N, K; A is M x K and B is K x N
MeasureRow = Callable[[Shape], Row]


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        pairs: interleaved pairs of windows.
        regime: burst or steady.
        distribution: of the operands.
        seed: of operands, orders and row samples.
        product_dtype: type in which products are stored; None means the dtype of the operands.
        limit: seconds a row may spend on pairs, or None.
        set: name of the set of shapes, copied into each row.
    """

    pairs: int = PAIRS
    regime: str = "burst"
    distribution: str = "normal"
    seed: int = 0
    product_dtype: str | None = None
    limit: float | None = None
    set: str = "custom"

    def __post_init__(self) -> None:
        check_choice("regime", self.regime, GPU_REGIMES)
        check_choice("distribution", self.distribution, DISTRIBUTIONS)
        if self.product_dtype is not None:
            check_choice("product dtype", self.product_dtype, DTYPES)
        if self.pairs < 1:
            raise ValueError(f"pairs must be at least 1, not {self.pairs}")


def paths_for(dtype: str, gpu: DeviceInfo | None) -> tuple[str, ...]:
    """What can be measured: "cuda" on a GPU, else what ``evaluate.cpu`` has for the dtype."""
    return (GPU_PATH,) if gpu else cpu.paths_for(dtype)


def prepare(plan: Plan, dtype: str, path: str, settings: Settings, gpu: DeviceInfo | None) -> MeasureRow:
    """Emit and build everything that the measurements need, so that the compiler is done when they begin.

    Raises:
        ValueError: a plan or a product dtype that the emitter cannot take.
        codegen.build.BuildError: the compiler refuses the text.
        codegen.build.MissingCompilerError: no nvcc, or no gcc for the path "c".
    """
    product_dtype = product_dtype_of(dtype, path, settings)
    if gpu:
        device, library = gpu, build_library(plan, dtype, product_dtype, gpu)
        return lambda shape: _gpu_row(plan, library, shape, dtype, settings, device)
    arms = cpu.arms(plan, dtype, path, product_dtype)
    return lambda shape: _cpu_row(plan, arms, shape, dtype, path, settings)


def identity(plan: Plan, shape: Shape, dtype: str, path: str, settings: Settings) -> Row:
    """What is measured: all keys of a row that are known before it is."""
    m, n, k = shape
    return {
        "id": plan.digest,
        "format": str(plan.base.format),
        "ring": str(plan.base.ring),
        "rank": plan.base.rank,
        "levels": plan.levels,
        "path": path,
        "dtype": dtype,
        "plane_dtype": dtype,
        "product_dtype": product_dtype_of(dtype, path, settings),
        "M": m,
        "N": n,
        "K": k,
        "layout": "row-major",
        "aligned": all(ld * DTYPES[dtype].bytes % _LIBRARY_ALIGNMENT == 0 for ld in (k, n)),
        "operands": "variable",
        "distribution": settings.distribution,
        "seed": settings.seed,
        "set": settings.set,
    }


def product_dtype_of(dtype: str, path: str, settings: Settings) -> str:
    """The type in which products are stored; fp32 asks for at least that, so it means fp64 for fp64."""
    if path in ("c", "numpy") or (dtype, settings.product_dtype) == ("fp64", "fp32"):
        return dtype
    return settings.product_dtype or dtype


def _gpu_row(plan: Plan, library: Path, shape: Shape, dtype: str, settings: Settings, gpu: DeviceInfo) -> Row:
    product_dtype = product_dtype_of(dtype, GPU_PATH, settings)
    regime = GPU_REGIMES[settings.regime]
    with open_arms(plan, library, dtype, product_dtype, shape, settings.distribution, settings.seed, gpu) as arms:
        arms.ours(0)
        arms.baseline(0)
        outputs = [arms.result, arms.baseline_result]
        found = _errors(arms.xp, outputs, arms.a, arms.b, plan, dtype, product_dtype, settings)
        first = arms.result.copy()
        measure = gpu_measure(arms.xp, regime, gpu.l2_bytes)
        timed = compare(
            measure, arms.ours, arms.baseline, pairs=settings.pairs, seed=settings.seed, limit=settings.limit
        )
        load = load_snapshot(arms.xp, arms.ours, timed.seconds, gpu)
        baseline_load = load_snapshot(arms.xp, arms.baseline, timed.baseline_seconds, gpu)
        arms.ours(0)
        # A result that moves between launches on the same operands is a race, however small the difference.
        repeatable = bool(arms.xp.array_equal(first.view(arms.xp.uint8), arms.result.view(arms.xp.uint8)))
        found["correct"] = found["correct"] and repeatable
        return {
            **_times(timed, shape, settings.regime),
            **found,
            "repeatable": repeatable,
            "workspace_bytes": arms.workspace_bytes,
            "baseline": arms.baseline_text,
            "load": load,
            "baseline_load": baseline_load,
        }


def _cpu_row(
    plan: Plan, arms: tuple[cpu.Multiply, cpu.Multiply], shape: Shape, dtype: str, path: str, settings: Settings
) -> Row:
    m, n, k = shape
    product_dtype = product_dtype_of(dtype, path, settings)
    rng = np.random.default_rng(settings.seed)
    a, b = (draw(np, rng, size, dtype, settings.distribution) for size in ((m, k), (k, n)))
    outputs = [poison(np, (m, n), dtype) for _ in range(2)]
    ours, baseline = arms
    ours(a, b, outputs[0])
    baseline(a, b, outputs[1])
    found = _errors(np, outputs, a, b, plan, dtype, product_dtype, settings)
    timed = None
    if path != "emulated":
        timed = compare(
            host_measure(HOST_REGIMES[settings.regime]),
            lambda _: ours(a, b, outputs[0]),
            lambda _: baseline(a, b, outputs[1]),
            pairs=settings.pairs,
            seed=settings.seed,
            limit=settings.limit,
        )
    return {
        **_times(timed, shape, settings.regime),
        **found,
        "workspace_bytes": cpu.workspace_bytes(plan, dtype, m, n, k) if path == "c" else None,
        "baseline": cpu.describe_baseline(dtype, path),
    }


def _times(timed: Comparison | None, shape: Shape, regime: str) -> Row:
    m, n, k = shape
    empty = dict.fromkeys(Comparison.__dataclass_fields__)
    return {
        **(asdict(timed) if timed else {**empty, "pairs": 0}),
        "regime": regime if timed else None,
        "tflops_effective": 2 * m * n * k / timed.seconds / 1e12 if timed else None,
    }


def _errors(
    xp: Any, outputs: list[Any], a: Any, b: Any, plan: Plan, dtype: str, product_dtype: str, settings: Settings
) -> Row:
    rows = sample_rows(a.shape[0], plan.format.m, settings.seed)
    ours, baseline = errors(xp, outputs, a, b, dtype, rows)
    limit = tolerance(plan, dtype, product_dtype, b.shape[0])
    return {
        **_error_keys("error", ours),
        **_error_keys("baseline_error", baseline),
        "error_rows": ours.rows,
        "error_limit": limit,
        "correct": is_correct(ours, limit),
    }


def _error_keys(prefix: str, found: Errors) -> Row:
    values = {
        "fro": found.fro,
        "max": found.max,
        "componentwise": found.componentwise,
        "componentwise_per_ku": found.normalised,
    }
    # JSON has no NaN; a C that is not finite has no error figures and is not correct.
    return {f"{prefix}_{key}": value if isfinite(value) else None for key, value in values.items()}
