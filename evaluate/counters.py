"""What one launch moves and keeps busy, counted by Nsight Compute in a process of its own.

``python -m evaluate.counters CASE OUT`` is that process, which writes nothing: it makes one launch between the calls
that start and stop the profiler. Clocks and caches are left as they are, so that a launch is counted as it is timed.
"""

from __future__ import annotations

import csv
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evaluate.apart import apart
from evaluate.cases import Case
from evaluate.device import DeviceInfo, release_memory, require_gpu
from evaluate.gpu import build_library, open_arms
from evaluate.timing import Launch

Arm = Literal["ours", "baseline"]
Counters = dict[str, Any]

_SECONDS = "gpu__time_duration.sum"
_SUMS = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
}
# Weighted by the time of each kernel of the launch. The tensor pipe's cycles count wgmma and mma.sync alike.
_MEANS = {
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct", 1e-2),
    "clock_mhz": ("gpc__cycles_elapsed.avg.per_second", 1e-6),
    "tensor_busy": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 1e-2),
    "sm_busy": ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 1e-2),
}
KEYS = (*_SUMS, *_MEANS, "kernel_seconds", "kernels")
_WARM_UP = 3
_NANO = 1e-9  # ncu counts time in nanoseconds when it prints base units


def count(case: Case, arm: Arm) -> Counters:
    """Counters of one launch of an arm.

    Returns:
        As ``count_of``.
    """
    return count_of("evaluate.counters", (case, arm))


def count_of(module: str, given: Any) -> Counters:
    """Counters of the launch that a module makes by ``counted_launch`` in a process of its own.

    Args:
        module: run as ``python -m module GIVEN OUT``, where GIVEN is a file.
        given: what it is given, pickled.

    Returns:
        ``dram_read_bytes``, ``dram_write_bytes``, ``l2_read_sectors`` and ``l2_write_sectors`` (of 32 bytes),
        ``bank_conflicts`` in shared memory,
        ``l2_hit_rate``, ``tensor_busy`` and ``sm_busy`` (0 to 1; of a persistent kernel the last is its wave
        efficiency), ``clock_mhz``, ``kernel_seconds`` and the names of the
        ``kernels``; all of them None, with a ``reason``, where Nsight Compute is missing or may not count.
    """
    ncu = _ncu()
    if ncu is None:
        return _nothing("ncu was not found; install Nsight Compute, or set $NCU to its path")
    release_memory()
    unknown: set[str] = set()
    while True:
        try:
            said = apart(module, given, command(ncu, unknown)).printed
        except (OSError, subprocess.TimeoutExpired) as error:
            return parse(f"==ERROR== {error}")
        # A name that this device or this version does not have may end ncu before it counts anything.
        named = set(re.findall(r"Failed to find metric (\w+(?:\.\w+)*)", said)) - unknown
        if not named:
            return parse(said)
        unknown |= named


def command(ncu: str, without: Collection[str] = ()) -> list[str]:
    """The command line up to the program that is profiled, without some of the metrics."""
    metrics = [_SECONDS, *_SUMS.values(), *(name for name, _ in _MEANS.values())]
    metrics = [name for name in metrics if name not in without]
    return [
        *(ncu, "--csv", "--print-units", "base", "--profile-from-start", "off"),
        *("--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics)),
    ]


def parse(text: str) -> Counters:
    """Read what ncu prints: after its own messages a table with one line for each kernel and metric.

    A metric that this ncu or this device does not know is None.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    kernels: dict[str, dict[str, float | str]] = {}
    for line in csv.DictReader(lines[start:]) if start is not None else ():
        name, value = line.get("Metric Name"), line.get("Metric Value")
        if name and value:
            kernel = kernels.setdefault(line["ID"], {"name": line["Kernel Name"]})
            kernel[name] = _number(value)
    if not kernels:
        errors = [line for line in lines if "==ERROR==" in line] or lines[-1:] or ["it printed nothing"]
        return _nothing(f"ncu counted no kernel: {errors[0].replace('==ERROR==', '').strip()}")
    found = list(kernels.values())
    return {
        **{key: _sum(found, name) for key, name in _SUMS.items()},
        **{key: _mean(found, name, scale) for key, (name, scale) in _MEANS.items()},
        "kernel_seconds": _scaled(_sum(found, _SECONDS), _NANO),
        "kernels": [kernel["name"] for kernel in found],
    }


def main(arguments: Sequence[str]) -> int:
    """Make the one launch that is counted."""
    given, _ = arguments
    case, arm = pickle.loads(Path(given).read_bytes())
    profile(case, arm, require_gpu())
    return 0


def profile(case: Case, arm: Arm, gpu: DeviceInfo) -> None:
    """Make the launch of an arm that is counted."""
    built = build_library(case.plan, case.variant, gpu)
    settings = case.settings
    opened = open_arms(case.variant, built, case.shape, settings.distribution, settings.seed, gpu)
    with opened as arms:
        launch = arms.ours if arm == "ours" else arms.baselines[0][1]
        counted_launch(arms.xp, launch)


def counted_launch(xp: Any, launch: Launch) -> None:
    """Launch once between the calls that start and stop the profiler, after launches that are not counted."""
    runtime = xp.cuda.runtime
    for number in range(_WARM_UP):
        launch(number)
    runtime.deviceSynchronize()
    runtime.profilerStart()
    launch(_WARM_UP)
    runtime.deviceSynchronize()
    runtime.profilerStop()


def _ncu() -> str | None:
    toolkit = os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin")
    return shutil.which(os.environ.get("NCU") or "ncu") or shutil.which("ncu", path=toolkit)


def _nothing(reason: str) -> Counters:
    return {**dict.fromkeys(KEYS), "reason": reason}


def _number(text: str) -> float:
    """A value of the table, whose digits may be grouped by commas; NaN for what is no number, such as n/a."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def _values(kernels: Sequence[Mapping[str, Any]], name: str) -> list[float] | None:
    values = [kernel.get(name, math.nan) for kernel in kernels]
    return values if all(math.isfinite(value) for value in values) else None


def _sum(kernels: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = _values(kernels, name)
    return sum(values) if values else None


def _mean(kernels: Sequence[Mapping[str, Any]], name: str, scale: float) -> float | None:
    values, weights = _values(kernels, name), _values(kernels, _SECONDS)
    if not values or not weights or not sum(weights):
        return None
    return scale * sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
