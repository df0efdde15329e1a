"""Thin products by the thin kernel against the vendor's libraries, as replays of CUDA graphs with rotated weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from codegen.plan import Plan
from evaluate.cases import Row, facts_of
from evaluate.device import DeviceInfo, array_module, release_memory
from evaluate.operands import DTYPES
from evaluate.shapes import Grouped
from evaluate.thin import ThinKernel, Way, build_thin, open_thin
from evaluate.thin_arms import Operands, draw_operands, open_vendor, thin_queue
from evaluate.thin_tuning import TOLERANCE, errors, replayed, ways_timed
from evaluate.thin_ways import all_ways, handful
from evaluate.timing import PAIRS, Measure, compare, verdict
from evaluate.windows import GPU_REGIMES, TRIAL, gpu_measure

PATH = "thin"
_TRIALS, _FINALS = 2, 7  # windows of each of the vendor's ways, and of ours that are looked at again
_COPY_BYTES = 1 << 30


@dataclass(frozen=True)
class ThinCase:
    """One row.

    Attributes:
        what: number of products, and M, N, K of each.
        dtype: of all matrices.
        layout: "nn", or "nt" where weights are stored transposed.
    """

    what: Grouped
    dtype: str = "bf16"
    layout: str = "nn"


def measure_thin(
    plan: Plan, cases: Sequence[ThinCase], gpu: DeviceInfo, pairs: int = PAIRS, limit: float | None = None
) -> Iterator[Row]:
    """Measure cases in their order.

    Args:
        plan: of the scheme of one product.
        cases: what to measure.
        gpu: where.
        pairs: interleaved pairs of windows.
        limit: seconds of pairs for each row, or None.

    Yields:
        A row for each: its figures are per launch; ``copy`` is the bytes/s, read plus written, of a copy in the same
        run, ``bandwidth`` those of A, B and C in one launch, ``rule`` and ``tuned`` tile, columns and split with their
        microseconds, ``handful`` the best of the few that a dispatcher tries, ``tuning_s`` what trying all has taken,
        ``ratio_vendor_tuned`` the same ratio to the fastest of cuBLASLt's ranked algorithms, ``ratio_early`` that of
        launches which come to the device before what is before them has ended, ``ratio_constant_b`` if they also read
        the first of B then.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS, or the device is lost.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
    """
    xp = array_module()
    with xp.cuda.Stream(non_blocking=True):
        copy = _copy_rate(xp, gpu_measure(xp, GPU_REGIMES["burst"], gpu.l2_bytes))
        for case in cases:
            # For each case anew, since they keep what they have timed, and graphs take memory.
            trial, final = (gpu_measure(xp, regime, gpu.l2_bytes) for regime in (TRIAL, GPU_REGIMES["burst"]))
            built = build_thin(plan, gpu.arch, case.dtype, case.layout)
            release_memory()
            with open_thin(built.path, built.name) as kernel:
                operands = draw_operands(xp, case.what, case.dtype, case.layout, gpu.l2_bytes)
                row = {**_identity(plan, case), **_measured(operands, kernel, trial, final, pairs, limit), "copy": copy}
                yield {**row, **built.facts, "verdict": verdict(row), "of_copy": row["bandwidth"] / copy}


def _identity(plan: Plan, case: ThinCase) -> Row:
    m, n, k = case.what.shape
    return {
        **facts_of(plan),
        "kind": PATH,
        "path": PATH,
        "groups": case.what.groups,
        "M": m,
        "N": n,
        "K": k,
        "dtype": case.dtype,
        "layout": case.layout,
        "set": PATH,
    }


def _measured(
    operands: Operands, kernel: ThinKernel, trial: Measure, final: Measure, pairs: int, limit: float | None
) -> Row:
    began = perf_counter()
    rule = kernel.choose(operands.product(0))
    times = ways_timed(operands, kernel, trial, [*handful(rule, kernel.tiles), *all_ways(len(kernel.tiles))], _FINALS)
    tuned = min(times, key=lambda way: times[way])
    few = [way for way in handful(rule, kernel.tiles) if way in times]
    quick = min(few, key=lambda way: times[way])
    tuning = perf_counter() - began
    with open_vendor(operands) as vendor:
        arms = [(text, own, replayed(operands, queue)) for text, own, queue in vendor]
        seen = [median(trial(launch) for _ in range(_TRIALS)) for _, _, launch in arms]
        own = min((i for i, arm in enumerate(arms) if arm[1]), key=lambda i: seen[i])
        best = min(range(len(arms)), key=lambda i: seen[i])
        ours = replayed(operands, thin_queue(operands, kernel, tuned))
        error, allowed = errors(operands, ours, arms[own][2])
        found = compare(final, ours, arms[own][2], pairs=pairs, limit=limit)
        hard = found if best == own else compare(final, ours, arms[best][2], pairs=pairs, limit=limit)
        # These wait for the end of what is before them, as the vendor's do. In a chain of such kernels they need not.
        more: Row = {}
        for early, name in ((1, "early"), (2, "constant_b")):
            launch = replayed(operands, thin_queue(operands, kernel, tuned._replace(early=early)))
            sooner = compare(final, launch, arms[own][2], pairs=pairs, limit=limit)
            more[f"seconds_{name}"] = sooner.seconds / operands.launches
            more |= {f"ratio_{name}{end}": getattr(sooner, f"ratio{end}") for end in ("", "_low", "_high")}
        count = operands.launches
        return {
            "seconds": found.seconds / count,
            "baseline_seconds": found.baseline_seconds / count,
            "ratio": found.ratio,
            "ratio_low": found.ratio_low,
            "ratio_high": found.ratio_high,
            "pairs": found.pairs,
            "regime": "burst",
            "baseline": arms[own][0],
            "ratio_vendor_tuned": hard.ratio,
            **more,
            "vendor_tuned": arms[best][0],
            "bytes": operands.bytes,
            "bandwidth": operands.bytes / (found.seconds / count),
            "launches": count,
            "sets": len(operands.rights),
            "rule": _way(kernel, rule, times[rule] / count),
            "tuned": _way(kernel, tuned, times[tuned] / count),
            "handful": {**_way(kernel, quick, times[quick] / count), "tried": len(few)},
            "tuning_s": tuning,
            "error_fro": error,
            "baseline_error_fro": allowed - TOLERANCE * DTYPES[operands.dtype].roundoff,
            "correct": bool(error <= allowed),
        }


def _way(kernel: ThinKernel, way: Way, seconds: float) -> Row:
    return {"tile": way.tile, "columns": kernel.tiles[way.tile], "split": way.split, "microseconds": seconds * 1e6}


def _copy_rate(xp: Any, measure: Measure) -> float:
    source, target = (xp.zeros(_COPY_BYTES, dtype=xp.uint8) for _ in range(2))
    copy: Callable[[int], None] = lambda _: xp.copyto(target, source)  # noqa: E731
    copy(0)
    return 2 * _COPY_BYTES / median(measure(copy) for _ in range(_FINALS))
