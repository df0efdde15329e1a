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
from evaluate.thin.arms import Operands, draw_operands, open_vendor, thin_queue
from evaluate.thin.kernel import ThinKernel, Way, build_thin, open_thin
from evaluate.thin.tuning import FINALS, TOLERANCE, errors, few_ways, replayed, ways_timed
from evaluate.thin.ways import all_ways
from evaluate.timing import MIN_PAIRS, PAIRS, Measure, rounds, summarise, verdict
from evaluate.windows import GLANCE, GPU_REGIMES, gpu_measure

PATH = "thin"
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
        pairs: interleaved pairs of windows with the vendor's own choice; all else has at most ``MIN_PAIRS``.
        limit: seconds of pairs for each row, or None.

    Yields:
        A row for each, its figures per launch of a chain. ``seconds``, ``ratio`` and ``bandwidth`` (the bytes/s of A, B
        and C) are those of what ``matmul`` runs: launches that come to the device while the kernel before them ends,
        but read and write nothing before its end (early 1). ``seconds_alone`` and ``ratio_alone`` are of launches that
        come after that end (early 0), as the vendor's in the same chain do, ``seconds_constant_b`` and
        ``ratio_constant_b`` of those that also read the first of B before it (early 2). ``ratio_vendor_tuned`` is the
        ratio to the fastest of cuBLASLt's ranked algorithms, ``copy`` the bytes/s, read plus written, of a copy in the
        same run. ``rule``, ``square`` (the second rule) and ``tuned`` have tile, columns and split with their
        microseconds, ``handful`` is the best of the few that a dispatcher tries, ``ways`` are all that were tried, the
        fastest first; most were seen once. ``tuning_s`` is what trying all has taken.

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
            glance, final = (gpu_measure(xp, regime, gpu.l2_bytes) for regime in (GLANCE, GPU_REGIMES["burst"]))
            built = build_thin(plan, gpu.arch, case.dtype, case.layout)
            release_memory()
            with open_thin(built.path, built.name) as kernel:
                operands = draw_operands(xp, case.what, case.dtype, case.layout, gpu.l2_bytes)
                row = {
                    **_identity(plan, case),
                    **_measured(operands, kernel, glance, final, pairs, limit),
                    "copy": copy,
                }
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
    operands: Operands, kernel: ThinKernel, glance: Measure, final: Measure, pairs: int, limit: float | None
) -> Row:
    began, count = perf_counter(), operands.launches
    few = few_ways(operands, kernel)
    square = kernel.square(operands.product(0))
    tuned, times = ways_timed(operands, kernel, glance, [*few, *all_ways(len(kernel.tiles))])
    quick = min((way for way in few if way in times), key=lambda way: times[way])
    tuning = perf_counter() - began
    with open_vendor(operands) as vendor:
        theirs = [(text, own, replayed(operands, queue)) for text, own, queue in vendor]
        seen = [median(glance(launch) for _ in range(FINALS)) for _, _, launch in theirs]
        own = min((i for i, one in enumerate(theirs) if one[1]), key=lambda i: seen[i])
        best = min(range(len(theirs)), key=lambda i: seen[i])
        alone, early, constant = (
            replayed(operands, thin_queue(operands, kernel, tuned._replace(early=early))) for early in range(3)
        )
        error, allowed = errors(operands, early, theirs[own][2])
        arms = [early, theirs[own][2], alone, constant, *([theirs[best][2]] if best != own else [])]
        rest = min(pairs, MIN_PAIRS)  # of those beside the first two
        samples = rounds(final, arms, [pairs, pairs] + [rest] * (len(arms) - 2), limit=limit)
    found = summarise(*samples[:2])
    more: Row = {}
    for name, arm in (("alone", 2), ("constant_b", 3)):
        beside = summarise(samples[arm], samples[1][:rest])
        more[f"seconds_{name}"] = beside.seconds / count
        more |= {f"ratio_{name}{end}": getattr(beside, f"ratio{end}") for end in ("", "_low", "_high")}
    hard = found if best == own else summarise(samples[0][:rest], samples[4])
    return {
        "seconds": found.seconds / count,
        "baseline_seconds": found.baseline_seconds / count,
        "ratio": found.ratio,
        "ratio_low": found.ratio_low,
        "ratio_high": found.ratio_high,
        "spread": found.spread,
        "baseline_spread": found.baseline_spread,
        "pairs": found.pairs,
        "regime": "burst",
        "baseline": theirs[own][0],
        **more,
        "ratio_vendor_tuned": hard.ratio,
        "vendor_tuned": theirs[best][0],
        "bytes": operands.bytes,
        "bandwidth": operands.bytes / (found.seconds / count),
        "launches": count,
        "sets": len(operands.rights),
        "rule": _way(kernel, few[0], times[few[0]] / count),
        "square": _way(kernel, square, times[square] / count) if square in times else None,
        "tuned": _way(kernel, tuned, times[tuned] / count),
        "handful": {**_way(kernel, quick, times[quick] / count), "tried": len(few)},
        "ways": [
            list(_way(kernel, way, times[way] / count).values()) for way in sorted(times, key=lambda way: times[way])
        ],
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
    return 2 * _COPY_BYTES / median(measure(copy) for _ in range(FINALS))
