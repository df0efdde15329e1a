"""One timed window of launches, on the GPU by CUDA events and on the host by the monotonic clock.

Two regimes, because a power-limited card answers differently in each: ``burst`` is a few launches after a
pause, ``steady`` is sustained work whose clock has settled under the very kernel that is measured. Windows of
different kernels must not simply follow each other: a kernel inherits the clock that its predecessor left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import perf_counter, sleep
from typing import Any, Literal

from evaluate.timing import Launch, Measure

MAX_LAUNCHES = 20_000  # in one window
_WARM_UP = 3
_FLUSH_BYTES = 1 << 26  # at least, and four times the cache
# The host needs this long to queue a launch; the device is kept busy meanwhile, so that no wait is timed.
_QUEUE_SECONDS = 2e-5
_MOST_COLD = 64  # launches in a window that follows a pause, since all of them must be queued during a head start


@dataclass(frozen=True)
class Regime:
    """How a window is prepared. All times in seconds.

    Attributes:
        name: burst or steady.
        idle: pause before the window.
        settle: the same launches, untimed, before the window.
        window: timed launches, together at least this long.
        cache: "rotated" through buffers that exceed it, or "warm".
    """

    name: str
    idle: float
    settle: float
    window: float
    cache: Literal["rotated", "warm"]

    def describe(self) -> str:
        """One clause for the field ``timer`` of a document."""
        parts = [f"{self.idle:g} s idle"] if self.idle else []
        parts += [f"{self.settle:g} s of the same launches untimed"] if self.settle else []
        cache = {"rotated": "buffers rotated beyond L2", "warm": "caches warm"}[self.cache]
        return f"{self.name}: {', '.join(parts)}, then >= {self.window:g} s of launches, {cache}"


GPU_REGIMES = {
    "burst": Regime("burst", idle=0.12, settle=0.0, window=0.003, cache="rotated"),
    "steady": Regime("steady", idle=0.0, settle=0.1, window=0.2, cache="rotated"),
}
# A caller waits meanwhile, so the pause is short; the card is idle for thirteen parts of fourteen.
TRIAL = Regime("trial", idle=0.04, settle=0.0, window=0.003, cache="rotated")
# To rank many that differ by more than clocks do: their order counts, and each has a few milliseconds.
GLANCE = Regime("glance", idle=0.005, settle=0.0, window=0.002, cache="rotated")
HOST_REGIMES = {
    "burst": Regime("burst", idle=0.005, settle=0.0, window=0.01, cache="warm"),
    "steady": Regime("steady", idle=0.0, settle=0.02, window=0.1, cache="warm"),
}


def launches_in(seconds: float, each: float) -> int:
    """How many launches of ``each`` seconds fill ``seconds``, at least 1 and at most ``MAX_LAUNCHES``."""
    return max(1, min(MAX_LAUNCHES, ceil(seconds / max(each, 1e-9))))


def host_measure(regime: Regime) -> Measure:
    """Times launches that return when they are done."""

    def measure(launch: Launch) -> float:
        sleep(regime.idle)
        each = _untimed_host(launch, regime.settle)
        count = launches_in(regime.window, each)
        began = perf_counter()
        for number in range(count):
            launch(number)
        return (perf_counter() - began) / count

    return measure


def gpu_measure(xp: Any, regime: Regime, l2_bytes: int) -> Measure:
    """Times launches that queue work on CuPy's current stream.

    Args:
        xp: cupy.
        regime: how to prepare each window.
        l2_bytes: size of the cache, which is overwritten before a window that follows a pause.
    """
    flush = _flusher(xp, l2_bytes)
    each_flush = _gpu_once(xp, lambda _: flush())
    known: dict[Launch, float] = {}

    def measure(launch: Launch) -> float:
        if launch not in known:
            known[launch] = _gpu_once(xp, launch)
        count = launches_in(regime.window, known[launch])
        xp.cuda.get_current_stream().synchronize()
        sleep(regime.idle)
        if regime.settle:
            for number in range(launches_in(regime.settle, known[launch])):
                launch(number)
        else:
            count = min(count, _MOST_COLD)
            for _ in range(launches_in(count * _QUEUE_SECONDS, each_flush)):
                flush()
        return _gpu_timed(xp, launch, count)

    return measure


def _untimed_host(launch: Launch, settle: float) -> float:
    """Run launches for at least ``settle`` seconds, at least one; seconds of the last."""
    began = perf_counter()
    while True:
        start = perf_counter()
        launch(0)
        end = perf_counter()
        if end - began >= settle:
            return end - start


def _gpu_once(xp: Any, launch: Launch) -> float:
    """Seconds of a launch, roughly, after warming up."""
    for number in range(_WARM_UP):
        launch(number)
    return _gpu_timed(xp, launch, 2)


def _gpu_timed(xp: Any, launch: Launch, count: int) -> float:
    start, stop = xp.cuda.Event(), xp.cuda.Event()
    start.record()
    for number in range(count):
        launch(number)
    stop.record()
    stop.synchronize()
    return xp.cuda.get_elapsed_time(start, stop) / 1e3 / count


def _flusher(xp: Any, l2_bytes: int) -> Callable[[], None]:
    """Overwrites a buffer larger than the cache, so that nothing older survives in it."""
    buffer = xp.empty(max(_FLUSH_BYTES, 4 * l2_bytes), dtype=xp.uint8)

    def flush() -> None:
        buffer.data.memset_async(0, buffer.nbytes)

    return flush
