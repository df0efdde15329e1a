"""Looks for the tile of a thin product that beats the vendor's libraries, on operands of its own.

A caller's weights are in the cache when a trial repeats them, as they are not in the middle of a model. So there are
sets of weights, as in ``evaluate.thin.arms``, and they are replayed from graphs. Launches come early (1), as those of
``matmul`` do: that is right after any kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median
from time import monotonic

from evaluate.device import DeviceInfo, array_module, release_memory
from evaluate.kernel import KernelError
from evaluate.operands import DTYPES, poison
from evaluate.shapes import Grouped
from evaluate.thin.arms import Operands, draw_operands, graph, open_vendor, thin_queue
from evaluate.thin.kernel import ThinKernel, Way
from evaluate.thin.ways import distinct, handful
from evaluate.timing import Launch, Measure, compare, rounds
from evaluate.trial import WrongError
from evaluate.verdicts import Verdict
from evaluate.windows import GLANCE, TRIAL, gpu_measure

TOLERANCE = 8.0  # roundings to the type of C that an error may be beyond the vendor's
FINALISTS, FINALS = 4, 7  # ways that are looked at again beside that of the rule, and windows of each of them
_PAIRS, _LIMIT_S = 11, 1.0
BUDGET_S = 2.0  # for trying tiles, before the fastest meets the vendor's


def tuned(
    kernel: ThinKernel, what: Grouped, dtype: str, layout: str, info: DeviceInfo, budget_s: float = BUDGET_S
) -> Verdict:
    """The fastest of a handful of tiles against the faster of the vendor's two own choices.

    Args:
        kernel: open, of these types.
        what: number of products, and M, N, K of each.
        dtype: of all matrices.
        layout: "nn" or "nt".
        info: the device, which is the current one.
        budget_s: after which no further tile is tried; that of the rule always is.

    Returns:
        A verdict with the ``way`` of the fastest; ``setup_seconds`` is what this has taken.

    Raises:
        evaluate.trial.WrongError: its result differs from the exact one by more than rounding.
        evaluate.device.DeviceMissingError: no cuBLAS.
        evaluate.kernel.KernelError: the kernel refuses.
        MemoryError: there is too little memory for the sets of weights.
    """
    try:
        return _tuned(kernel, what, dtype, layout, info, budget_s)
    finally:
        release_memory()  # CuPy would keep it for a stream that is gone, while another library has too little


def _tuned(kernel: ThinKernel, what: Grouped, dtype: str, layout: str, info: DeviceInfo, budget_s: float) -> Verdict:
    began, xp = monotonic(), array_module()
    try:
        with xp.cuda.Stream(non_blocking=True):
            operands = draw_operands(xp, what, dtype, layout, info.l2_bytes)
            glance, measure = (gpu_measure(xp, regime, info.l2_bytes) for regime in (GLANCE, TRIAL))
            way, _ = ways_timed(operands, kernel, glance, few_ways(operands, kernel), budget_s)
            with open_vendor(operands, further=False) as vendor:
                arms = [replayed(operands, queue) for _, _, queue in vendor]
                theirs = min(arms, key=lambda launch: median(glance(launch) for _ in range(FINALS)))
                ours = replayed(operands, thin_queue(operands, kernel, way))
                error, allowed = errors(operands, ours, theirs)
                if not error <= allowed:  # nor is NaN
                    raise WrongError(f"its relative error is {error:.2g}, and rounding explains {allowed:.2g}")
                found = compare(measure, ours, theirs, pairs=_PAIRS, limit=_LIMIT_S)
    except xp.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(f"the sets of weights of a trial do not fit on {info.name}: {error}") from None
    count = operands.launches
    return Verdict(
        what.shape,
        found.seconds / count,
        found.baseline_seconds / count,
        *(found.ratio, found.ratio_low, found.ratio_high, found.pairs),
        setup_seconds=monotonic() - began,
        way=(way.tile, way.split),
    )


def few_ways(operands: Operands, kernel: ThinKernel) -> list[Way]:
    """What the kernel takes by itself first, then a handful of others."""
    product = operands.product(0)
    return handful(kernel.choose(product), kernel.square(product), kernel.tiles)


def ways_timed(
    operands: Operands, kernel: ThinKernel, measure: Measure, ways: Iterable[Way], budget_s: float = inf
) -> tuple[Way, dict[Way, float]]:
    """The fastest way, and seconds of a graph for each that the device can run.

    Each is seen once; then the fastest and the first one, which is that of the rule, are seen ``FINALS`` times in turn.

    Args:
        operands: what is multiplied.
        kernel: open.
        measure: times a window.
        ways: tiles and splits.
        budget_s: after which no further way is tried; the first one always is.
    """
    began = monotonic()
    launches: dict[Way, Launch] = {}
    times: dict[Way, float] = {}
    for way in distinct(ways, kernel.most_split):
        if times and monotonic() - began > budget_s:
            break
        try:
            launches[way] = replayed(operands, thin_queue(operands, kernel, way))
        except KernelError:  # of a device, or a part of one, without room for so many blocks together
            continue
        times[way] = measure(launches[way])
    if not times:
        raise KernelError(f"{kernel.name} cannot run with any tile here")
    last = list(dict.fromkeys([next(iter(times)), *sorted(times, key=lambda way: times[way])[:FINALISTS]]))
    samples = rounds(measure, [launches[way] for way in last], [FINALS] * len(last))
    times |= {way: median(seen) for way, seen in zip(last, samples, strict=True)}
    return min(last, key=lambda way: times[way]), times


def replayed(operands: Operands, queue: Launch) -> Launch:
    """A launch of a whole graph of ``operands.launches`` products."""
    queue(0)  # before the capture, in which nothing may be loaded
    captured = graph(operands, queue)
    return lambda _: captured.launch()


def errors(operands: Operands, ours: Launch, theirs: Launch) -> tuple[float, float]:
    """Relative error of our result, and what it may be beside that of the vendor's."""
    found: list[float] = []
    arms: Sequence[Launch] = (ours, theirs)
    for arm in arms:
        operands.out[...] = poison(operands.xp, operands.out.shape, operands.dtype)  # or the other's result would pass
        arm(0)
        found.append(operands.error(operands.launches - 1))
    return found[0], found[1] + TOLERANCE * DTYPES[operands.dtype].roundoff
