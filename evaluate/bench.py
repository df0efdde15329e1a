"""Speed and error of schemes as one JSON document; its keys are a contract with scripts and with the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate import cpu
from evaluate.accuracy import Errors, errors, is_correct, sample_rows, tolerance
from evaluate.device import DeviceInfo, require_gpu, snapshot, usable_gpu
from evaluate.gpu import load_snapshot, open_arms
from evaluate.operands import DISTRIBUTIONS, DTYPES, check_choice, draw, poison
from evaluate.timing import PAIRS, Comparison, compare, verdict
from evaluate.windows import GPU_REGIMES, HOST_REGIMES, gpu_measure, host_measure

SCHEMA_VERSION = 1
DEVICES = ("auto", "cpu", "gpu")
GPU_PATH = "cuda"

Row = dict[str, Any]


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


def bench(
    plans: Sequence[Plan],
    shapes: Sequence[tuple[int, int, int]],
    dtypes: Sequence[str],
    *,
    device: str = "auto",
    paths: Sequence[str] | None = None,
    commit: str = "unknown",
    on_row: Callable[[Row], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Measure every plan at every shape in every dtype against the vendor's GEMM of the same precision.

    Args:
        plans: what to measure.
        shapes: (M, N, K) each, A is M x K and B is K x N.
        dtypes: fp16, bf16, fp32, fp64.
        device: "gpu", "cpu", or "auto" for a GPU where there is a usable one.
        paths: "cuda" on a GPU; on a CPU "c" and "numpy" for fp32 and fp64, "emulated" (errors only) for fp16 and
            bf16. Default: all that apply.
        commit: revision of this project, for the document.
        on_row: called with each row as soon as it is there.
        **settings: the fields of ``Settings``.

    Returns:
        The document. What did not fit in memory is listed under ``skipped``.

    Raises:
        ValueError: an unknown name, or a size below 1.
        evaluate.device.DeviceMissingError: device "gpu" without a usable one.
        codegen.build.MissingCompilerError: no nvcc, or no gcc for the path "c".
    """
    chosen = Settings(**settings)
    check_choice("device", device, DEVICES)
    for dtype in dtypes:
        check_choice("dtype", dtype, DTYPES)
    for shape in shapes:
        if len(shape) != 3 or min(shape) < 1:
            raise ValueError(f"a shape must be three positive sizes M, N, K, not {tuple(shape)}")
    gpu = require_gpu() if device == "gpu" else usable_gpu() if device == "auto" else None
    document = _head(gpu, chosen, commit)
    before = snapshot(gpu) if gpu else {}
    baselines: list[str] = []
    for plan, shape, dtype in ((p, s, d) for p in plans for s in shapes for d in dtypes):
        for path in _paths(gpu, dtype, paths):
            identity = _identity(plan, shape, dtype, path, chosen)
            try:
                measured = (
                    _gpu_row(plan, shape, dtype, chosen, gpu) if gpu else _cpu_row(plan, shape, dtype, path, chosen)
                )
            except MemoryError as error:
                document["skipped"].append({**identity, "reason": str(error)})
                continue
            row = {**identity, **measured}
            row["verdict"] = verdict(row)
            if row["baseline"] not in baselines:
                baselines.append(row["baseline"])
            document["rows"].append(row)
            if on_row:
                on_row(row)
    after = snapshot(gpu) if gpu else {}
    document["baseline"] = "; ".join(baselines)
    document["clocks"] = _states(before, after, "clock_sm_mhz", "clock_memory_mhz", "clock_limits")
    document["power"] = _states(before, after, "power_w", "power_limit_w", "temperature_c")
    return document


def _head(gpu: DeviceInfo | None, settings: Settings, commit: str) -> dict[str, Any]:
    regime = (GPU_REGIMES if gpu else HOST_REGIMES)[settings.regime]
    clock = "CUDA events" if gpu else "host monotonic clock"
    return {
        "schema_version": SCHEMA_VERSION,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "device": gpu.name if gpu else cpu.cpu_name(),
        "device_kind": "gpu" if gpu else "cpu",
        "driver": gpu.driver if gpu else None,
        "cuda": gpu.cuda if gpu else None,
        "threads": None if gpu else cpu.blas_threads(),
        "clocks": None,
        "power": None,
        "baseline": "",
        "timer": f"{clock}, up to {settings.pairs} interleaved pairs in random order, medians, 95 % bootstrap interval "
        f"of the ratio; {regime.describe()}",
        "rows": [],
        "skipped": [],
    }


def _paths(gpu: DeviceInfo | None, dtype: str, wanted: Sequence[str] | None) -> tuple[str, ...]:
    here = (GPU_PATH,) if gpu else cpu.paths_for(dtype)
    if wanted is None:
        return here
    chosen = tuple(path for path in here if path in wanted)
    if not chosen:
        raise ValueError(f"{dtype} has the paths {', '.join(here)} here, none of {', '.join(wanted)}")
    return chosen


def _identity(plan: Plan, shape: tuple[int, int, int], dtype: str, path: str, settings: Settings) -> Row:
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
        "product_dtype": _product_dtype(dtype, path, settings),
        "M": m,
        "N": n,
        "K": k,
        "layout": "row-major",
        "operands": "variable",
        "distribution": settings.distribution,
        "seed": settings.seed,
        "set": settings.set,
    }


def _product_dtype(dtype: str, path: str, settings: Settings) -> str:
    return dtype if path in ("c", "numpy") else settings.product_dtype or dtype


def _gpu_row(plan: Plan, shape: tuple[int, int, int], dtype: str, settings: Settings, gpu: DeviceInfo) -> Row:
    product_dtype = _product_dtype(dtype, GPU_PATH, settings)
    regime = GPU_REGIMES[settings.regime]
    with open_arms(plan, dtype, product_dtype, shape, settings.distribution, settings.seed, gpu) as arms:
        arms.ours(0)
        arms.baseline(0)
        outputs = [arms.result, arms.baseline_result]
        found = _errors(arms.xp, outputs, arms.a, arms.b, plan, dtype, product_dtype, settings)
        first = arms.result.copy()
        measure = gpu_measure(arms.xp, regime, gpu.l2_bytes)
        timed = compare(
            measure, arms.ours, arms.baseline, pairs=settings.pairs, seed=settings.seed, limit=settings.limit
        )
        load = load_snapshot(arms, gpu, timed.seconds)
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
            **load,
        }


def _cpu_row(plan: Plan, shape: tuple[int, int, int], dtype: str, path: str, settings: Settings) -> Row:
    m, n, k = shape
    product_dtype = _product_dtype(dtype, path, settings)
    rng = np.random.default_rng(settings.seed)
    a, b = (draw(np, rng, size, dtype, settings.distribution) for size in ((m, k), (k, n)))
    outputs = [poison(np, (m, n), dtype) for _ in range(2)]
    ours, baseline = cpu.arms(plan, dtype, path, product_dtype)
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


def _times(timed: Comparison | None, shape: tuple[int, int, int], regime: str) -> Row:
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


def _states(before: dict[str, Any], after: dict[str, Any], *keys: str) -> dict[str, Any] | None:
    if not before:
        return None
    return {"before": {key: before.get(key) for key in keys}, "after": {key: after.get(key) for key in keys}}
