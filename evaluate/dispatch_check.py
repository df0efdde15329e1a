"""Is the dispatch right? Its choices against the best that it could have made, and streams of shapes.

A choice is made as for any caller, by a dispatcher that has tried nothing yet. Then the vendor's GEMM and the most
promising schemes are measured beside each other, whatever was chosen, and the choice is judged by that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from evaluate.bench import Document, conditions, head
from evaluate.buckets import bucket
from evaluate.cases import Row, Shape
from evaluate.decision import MOST_CANDIDATES
from evaluate.device import DeviceInfo, release_memory, snapshot
from evaluate.dispatch import Dispatcher
from evaluate.opened import Opened
from evaluate.operands import draw
from evaluate.shapes import shapes_of
from evaluate.timing import Comparison, Launch, Measure, summarise
from evaluate.trials import MOST_TRIALS
from evaluate.windows import TRIAL, gpu_measure

KIND = "dispatch-check"  # of its documents
BEST, VENDOR = 0.98, 0.99  # the least ratios of a good choice to the best one and to the vendor's GEMM
_EACH = MOST_TRIALS // (MOST_CANDIDATES + 1)  # shapes that one dispatcher can try
_CHUNK = 50  # calls of a stream that are timed together
_MOST_M = 20480


def held_out(name: str, count: int, seed: int = 0) -> list[Shape]:
    """Shapes of every other place of a set, drawn without repetition; the places between are for tuning what decides.

    Args:
        name: of the set, see ``evaluate.shapes.SETS``.
        count: how many at most.
        seed: of the draw.
    """
    half = shapes_of(name)[1::2]
    picks = np.random.default_rng(seed).permutation(len(half))[:count]
    return [half[i] for i in sorted(picks)]


def check(
    fresh: Callable[[], Dispatcher],
    shapes: Sequence[Shape],
    dtype: str,
    gpu: DeviceInfo,
    xp: Any,
    *,
    pairs: int = 10,
    limit: float | None = None,
    commit: str = "unknown",
    on_row: Callable[[Row], None] = lambda row: None,
) -> Document:
    """Judge the choices at some shapes, both operands variable.

    Args:
        fresh: makes a dispatcher that has decided nothing yet; one process tries only so much.
        shapes: M, N, K.
        dtype: of A, B and C.
        gpu: where.
        xp: cupy.
        pairs: windows of each arm, interleaved.
        limit: seconds after which no further shape is begun; what was left out is ``skipped``.
        commit: revision of this project.
        on_row: called with each row when it is measured.
    """
    document = head(gpu, commit, f"CUDA events, {pairs} rounds in random order, {TRIAL.describe()}")
    document |= {"kind": KIND, "dtype": dtype, "baseline": "cupy.matmul", "streams": [], "host": [], "entries": []}
    before, began = snapshot(gpu), perf_counter()
    dispatcher = fresh()
    for number, shape in enumerate(shapes):
        if number and number % _EACH == 0:
            dispatcher = fresh()
        if limit is not None and perf_counter() - began > limit:
            document["skipped"] += [{"shape": list(one), "reason": "no time was left"} for one in shapes[number:]]
            break
        document["rows"].append(_row(dispatcher, shape, dtype, gpu, xp, pairs))
        on_row(document["rows"][-1])
    return document | conditions(before, snapshot(gpu))


def _row(dispatcher: Dispatcher, shape: Shape, dtype: str, gpu: DeviceInfo, xp: Any, rounds: int) -> Row:
    release_memory()
    (a, b, c), vendor = operands(xp, shape, dtype), "cupy.matmul"
    began = perf_counter()
    told = dispatcher.matmul(a, b, c, explain=True)[1]
    deciding = perf_counter() - began
    arms: dict[str, Launch] = {vendor: lambda _: xp.matmul(a, b, out=c)}
    arms |= {label: _run(opened, a, b, c) for label, opened in dispatcher.rivals(a, b, MOST_CANDIDATES)}
    chosen = told.choice
    if chosen not in arms:  # the list of its bucket had it
        arms[chosen] = lambda _: dispatcher.matmul(a, b, c)
    seconds = _interleaved(gpu_measure(xp, TRIAL, gpu.l2_bytes), arms, rounds)
    best = min(arms, key=lambda name: float(np.median(seconds[name])))
    to_best, to_vendor = (summarise(seconds[chosen], seconds[other]) for other in (best, vendor))
    return {
        **dict(zip("MNK", shape, strict=True)),
        "dtype": dtype,
        "chosen": chosen,
        "why": told.why,
        "best": best,
        "deciding_seconds": deciding,
        "medians": {name: float(np.median(values)) for name, values in seconds.items()},
        **_ends("to_best", to_best),
        **_ends("to_vendor", to_vendor),
        # Beside the best the interval decides, which it has to exclude; beside the vendor the median.
        "near_best": bool(to_best.ratio_high >= BEST),
        "near_best_by_median": bool(to_best.ratio >= BEST),
        "near_vendor": bool(to_vendor.ratio >= VENDOR),
    }


def _run(opened: Opened, a: Any, b: Any, c: Any) -> Launch:
    run = opened.alike(a, b, c)
    return lambda _: run(a, b, c, None)


def operands(xp: Any, shape: Shape, dtype: str) -> tuple[Any, Any, Any]:
    """Random A and B and memory for C of M, N, K, as arrays of the type that a caller has: bf16 of ml_dtypes."""
    import ml_dtypes

    m, n, k = shape
    rng = xp.random.default_rng(0)
    a, b = (draw(xp, rng, size, dtype, "normal", side) for size, side in (((m, k), "a"), ((k, n), "b")))
    if dtype == "bf16":
        a, b = (x.view(ml_dtypes.bfloat16) for x in (a, b))
    return a, b, xp.empty((m, n), a.dtype)


def _interleaved(measure: Measure, arms: dict[str, Launch], rounds: int) -> dict[str, list[float]]:
    rng, names = np.random.default_rng(0), list(arms)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for i in rng.permutation(len(names)):
            seconds[names[i]].append(measure(arms[names[i]]))
    return seconds


def _ends(name: str, found: Comparison) -> dict[str, float]:
    return {name: found.ratio, f"{name}_low": found.ratio_low, f"{name}_high": found.ratio_high}


def stream(dispatcher: Dispatcher, layer: tuple[int, int], dtype: str, xp: Any, calls: int = 1000) -> Row:
    """Products of one layer with a number of rows that changes at every call, beside the vendor's GEMM.

    Every bucket of sizes is tried before, which is not counted but told; every decision about a new shape is.

    Args:
        dispatcher: that decides.
        layer: N, K.
        dtype: of A, B and C.
        xp: cupy.
        calls: how many.
    """
    release_memory()
    n, k = layer
    a, b, _ = operands(xp, (_MOST_M, n, k), dtype)
    rows = np.random.default_rng(0).integers(1, _MOST_M + 1, calls)
    began = perf_counter()
    tops = sorted({bucket((int(m), n, k))[0] for m in rows})
    for m in tops:
        dispatcher.matmul(a[:m], b)
    wait(xp)
    tuning = perf_counter() - began

    def timed(product: Callable[[Any, Any], Any], part: np.ndarray) -> float:
        wait(xp)
        start = perf_counter()
        for m in part:
            product(a[: int(m)], b)
        wait(xp)
        return perf_counter() - start

    rng = np.random.default_rng(1)
    seconds: tuple[list[float], list[float]] = ([], [])
    parts = np.array_split(rows, max(1, calls // _CHUNK))
    timed(xp.matmul, rows)  # both arms call the vendor's kernels, of which each is loaded at its first use
    for part in parts:
        for arm in rng.permutation(2):
            seconds[arm].append(timed((dispatcher.matmul, xp.matmul)[arm], part))
    low, high = _interval_of_sums(np.array(seconds))
    totals = [sum(each) for each in seconds]
    return {
        **{"N": n, "K": k, "dtype": dtype, "calls": calls, "buckets": len(tops), "tuning_seconds": tuning},
        **{"seconds": totals[0], "baseline_seconds": totals[1], "ratio": totals[1] / totals[0]},
        **{"ratio_low": low, "ratio_high": high},
    }


def _interval_of_sums(seconds: np.ndarray) -> tuple[float, float]:
    """95 % of the ratio of all seconds of the second arm to those of the first, by resampling parts [2, parts]."""
    picks = np.random.default_rng(0).integers(seconds.shape[1], size=(2000, seconds.shape[1]))
    ours, theirs = seconds[:, picks].sum(axis=2)
    low, high = np.quantile(theirs / ours, [0.025, 0.975])
    return float(low), float(high)


def wait(xp: Any) -> None:
    """For all that was queued on the device, by any library."""
    xp.cuda.Device().synchronize()
