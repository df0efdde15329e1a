"""One row of results: the figures of one plan at one shape, run in one way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate import cpu
from evaluate.accuracy import Errors, errors, sample_rows
from evaluate.cases import Case, Row
from evaluate.counters import count
from evaluate.device import DeviceInfo, array_module
from evaluate.error_keys import error_keys
from evaluate.gpu import Arms, build_library, load_snapshot, open_arms
from evaluate.kernel import Built
from evaluate.launched import launched
from evaluate.nvbench import cross_check
from evaluate.operands import draw, poison
from evaluate.timing import Comparison, Launch, compare
from evaluate.variants import CHAINED_PATHS, Variant
from evaluate.windows import GPU_REGIMES, HOST_REGIMES, gpu_measure, host_measure

_TRIALS = 3  # windows by which the faster baseline is chosen

MeasureRow = Callable[[Case], Row]


def prepare(plan: Plan, variant: Variant, gpu: DeviceInfo | None) -> MeasureRow:
    """Emit and build everything that the measurements need, so that the compiler is done when they begin.

    Raises:
        ValueError: a plan or a product dtype that the emitter cannot take.
        codegen.build.BuildError: the compiler refuses the text.
        codegen.build.MissingCompilerError: no nvcc, or no gcc for the path "c".
    """
    if gpu:
        device, built = gpu, build_library(plan, variant, gpu)
        # Of a module that is compiled when it is called, the facts are known afterwards.
        return lambda case: {**_gpu_row(case, built, device), **built.facts}
    arms = cpu.arms(plan, variant.dtype, variant.path, variant.product_dtype)
    return lambda case: _cpu_row(case, arms)


def _gpu_row(case: Case, built: Built, gpu: DeviceInfo) -> Row:
    settings, units = case.settings, built.facts.get("block_units", (1, 1, 1))
    with open_arms(case.variant, built, case.shape, settings.distribution, settings.seed, gpu) as arms:
        arms.ours(0)
        baseline_text, baseline = _fastest(arms, gpu)
        baseline(0)
        found = [_errors(arms.xp, [arms.result, arms.baseline_result], arms.a, arms.b, case, settings.seed, units)]
        first = arms.result.copy()
        measure = gpu_measure(arms.xp, GPU_REGIMES[settings.regime], gpu.l2_bytes)
        timed = compare(measure, arms.ours, baseline, pairs=settings.pairs, seed=settings.seed, limit=settings.limit)
        loads: Row = {}
        if settings.load:
            loads["load"] = load_snapshot(arms.xp, arms.ours, timed.seconds, gpu)
            loads["baseline_load"] = load_snapshot(arms.xp, baseline, timed.baseline_seconds, gpu)
        arms.ours(0)
        # A result that moves between launches on the same operands is a race, however small the difference.
        repeatable = bool(arms.xp.array_equal(first.view(arms.xp.uint8), arms.result.view(arms.xp.uint8)))
        row = {
            **_times(timed, case),
            "repeatable": repeatable,
            "workspace_bytes": arms.workspace_bytes,
            "baseline": baseline_text,
            **loads,
        }
    for seed in range(settings.seed + 1, settings.seed + settings.seeds):
        with open_arms(case.variant, built, case.shape, settings.distribution, seed, gpu) as arms:
            arms.ours(0)
            dict(arms.baselines).get(baseline_text, arms.baselines[0][1])(0)
            found.append(_errors(arms.xp, [arms.result, arms.baseline_result], arms.a, arms.b, case, seed, units))
    row |= _error_keys(case, found)
    row["correct"] = row["correct"] and repeatable
    if settings.profile:
        row |= _launches(case, built, gpu, baseline_text)
    if settings.counters:
        row |= {"counters": count(case, "ours"), "baseline_counters": count(case, "baseline")}
    if settings.nvbench:
        row |= cross_check(case, baseline_text)
    return row


def _launches(case: Case, built: Built, gpu: DeviceInfo, baseline_text: str) -> Row:
    """What the kernels of both arms take; on a stream of their own, since the default one cannot be captured."""
    settings = case.settings
    with array_module().cuda.Stream(non_blocking=True):
        with open_arms(case.variant, built, case.shape, settings.distribution, settings.seed, gpu) as arms:
            baseline = dict(arms.baselines).get(baseline_text, arms.baselines[0][1])
            for arm in (arms.ours, baseline):  # nothing may be loaded in a capture
                arm(0)
            return {"launches": launched(arms.xp, arms.ours), "baseline_launches": launched(arms.xp, baseline)}


def _fastest(arms: Arms, gpu: DeviceInfo) -> tuple[str, Launch]:
    """The baseline that is fastest in a few short windows, and its text."""
    if len(arms.baselines) == 1:
        return arms.baselines[0]
    measure = gpu_measure(arms.xp, GPU_REGIMES["burst"], gpu.l2_bytes)
    return min(arms.baselines, key=lambda one: min(measure(one[1]) for _ in range(_TRIALS)))


def _cpu_row(case: Case, arms: tuple[cpu.Multiply, cpu.Multiply]) -> Row:
    m, n, k = case.shape
    settings, (dtype, path) = case.settings, (case.variant.dtype, case.variant.path)
    outputs = [poison(np, (m, n), dtype) for _ in range(2)]
    ours, baseline = arms

    def drawn(seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        return (
            draw(np, rng, (m, k), dtype, settings.distribution, "a"),
            draw(np, rng, (k, n), dtype, settings.distribution, "b"),
        )

    found: list[tuple[Errors, Errors]] = []
    # The first seed comes last, so that its operands are there to be timed.
    for seed in reversed(range(settings.seed, settings.seed + settings.seeds)):
        a, b = drawn(seed)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is judged by what comes out
            ours(a, b, outputs[0])
            baseline(a, b, outputs[1])
        found.insert(0, _errors(np, outputs, a, b, case, seed))
    timed = None
    if path != "emulated":
        with np.errstate(invalid="ignore", over="ignore"):
            timed = compare(
                host_measure(HOST_REGIMES[settings.regime]),
                lambda _: ours(a, b, outputs[0]),
                lambda _: baseline(a, b, outputs[1]),
                pairs=settings.pairs,
                seed=settings.seed,
                limit=settings.limit,
            )
    return {
        **_times(timed, case),
        **_error_keys(case, found),
        "workspace_bytes": cpu.workspace_bytes(case.plan, dtype, m, n, k) if path == "c" else None,
        "baseline": cpu.describe_baseline(dtype, path),
    }


def _times(timed: Comparison | None, case: Case) -> Row:
    m, n, k = case.shape
    empty = dict.fromkeys(Comparison.__dataclass_fields__)
    return {
        **(asdict(timed) if timed else {**empty, "pairs": 0}),
        "regime": case.settings.regime if timed else None,
        "tflops_effective": 2 * m * n * k / timed.seconds / 1e12 if timed else None,
    }


def _errors(
    xp: Any, outputs: list[Any], a: Any, b: Any, case: Case, seed: int, units: Sequence[int] = (1, 1, 1)
) -> tuple[Errors, Errors]:
    """Those of the scheme, whose blocks are rounded up to ``units``, and of the baseline."""
    blocks = case.plan.format
    rows = sample_rows(a.shape[0], blocks.m, seed)
    ours, baseline = errors(xp, outputs, a, b, case.variant.dtype, rows, blocks, units)
    return ours, baseline


def _error_keys(case: Case, found: list[tuple[Errors, Errors]]) -> Row:
    variant = case.variant
    stored = variant.plane_dtype if variant.path in CHAINED_PATHS else variant.product_dtype
    return error_keys(case.plan, found, variant.dtype, stored, case.shape[2])
