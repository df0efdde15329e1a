"""The times of a row taken once more by NVBench, NVIDIA's benchmarking library, in a process of its own.

``python -m evaluate.nvbench CASE OUT`` is that process. NVBench times single launches, each after the cache was
emptied, and then launches one after the other; arms are not interleaved, so a power-limited card answers each of them
in the state that the other has left.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluate.apart import apart
from evaluate.cases import Case
from evaluate.device import array_module, release_memory, require_gpu
from evaluate.gpu import build_library, open_arms

_LIMIT_S = 5  # of each way to time an arm
# What NVBench calls its figures, the first one that it has; times in seconds, the clock in hertz.
_TAGS = {
    "seconds": ("nv/cold/time/gpu/median", "nv/cold/time/gpu/mean"),
    "relative_stdev": ("nv/cold/time/gpu/stdev/relative",),
    "samples": ("nv/cold/sample_size",),
    "clock_hz": ("nv/cold/sm_clock_rate/mean",),
    "batch_seconds": ("nv/batch/time/gpu/mean",),
}
OURS, BASELINE = "ours", "baseline"


def cross_check(case: Case, baseline: str) -> dict[str, dict[str, Any]]:
    """Times of both arms of a case by NVBench.

    Args:
        case: what is measured.
        baseline: text of the baseline that the row has.

    Returns:
        For the keys ``nvbench`` and ``baseline_nvbench`` of a row: ``seconds``, median of launches with a cold cache,
        their ``relative_stdev`` and number of ``samples``, the mean ``clock_hz``, and ``batch_seconds``, mean of
        launches one after the other; or a ``reason`` why there are none.
    """
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bench") is None:
        return _nothing("NVBench's package was not found; install the extra nvbench13 or nvbench12")
    release_memory()
    try:
        ended = apart("evaluate.nvbench", (case, baseline))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return _nothing(f"NVBench gave no times: {error}")
    if ended.written is None:
        said = (ended.printed.strip() or "it printed nothing").splitlines()[-1]
        return _nothing(f"NVBench ended with status {ended.status}: {said}")
    try:
        document = json.loads(ended.written)
    except (ValueError, RecursionError) as error:
        return _nothing(f"NVBench gave no times: {error}")
    try:
        return parse(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return _nothing(f"NVBench's report has another form: {type(error).__name__} {error}")


def parse(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What NVBench's JSON says of both arms, as of ``cross_check``."""
    found: dict[str, dict[str, Any]] = {}
    for one in document.get("benchmarks", []):
        for state in one["states"]:
            if state.get("is_skipped"):
                found[one["name"]] = {"reason": f"NVBench left it out: {state.get('skip_reason')}"}
                continue
            values = {each["tag"]: _value(each) for each in state["summaries"] or ()}
            found[one["name"]] = {
                key: next((values[tag] for tag in tags if values.get(tag) is not None), None)
                for key, tags in _TAGS.items()
            }
            if (samples := found[one["name"]]["samples"]) is not None:
                found[one["name"]]["samples"] = int(samples)
    lacking = {"reason": "NVBench did not time it"}
    return {"nvbench": found.get(OURS, lacking), "baseline_nvbench": found.get(BASELINE, lacking)}


def _value(summary: Mapping[str, Any]) -> float | None:
    """A figure; NVBench writes its numbers as text."""
    for one in summary.get("data", ()):
        if one.get("name") == "value" and one.get("value") is not None and one.get("type") != "string":
            return float(one["value"])
    return None


def _nothing(reason: str) -> dict[str, dict[str, Any]]:
    return {"nvbench": {"reason": reason}, "baseline_nvbench": {"reason": reason}}


def main(arguments: Sequence[str]) -> int:
    """Time both arms and have NVBench write what it found."""
    given, out = arguments
    case, baseline = pickle.loads(Path(given).read_bytes())
    from cuda import bench

    gpu, xp = require_gpu(), array_module()
    built = build_library(case.plan, case.variant, gpu)

    def timed(name: str) -> Any:
        def run(state: Any) -> None:
            settings = case.settings
            opened = open_arms(case.variant, built, case.shape, settings.distribution, settings.seed, gpu)
            # Arms launch on the stream that is CuPy's when they are opened.
            with xp.cuda.ExternalStream(state.get_stream().addressof()), opened as arms:
                launch = arms.ours if name == OURS else dict(arms.baselines).get(baseline, arms.baselines[0][1])
                launch(0)
                numbers = itertools.count()
                state.exec(lambda _: launch(next(numbers)))

        return run

    for name in (OURS, BASELINE):
        bench.register(timed(name)).set_name(name)
    bench.run_all_benchmarks([sys.argv[0], "--quiet", "--timeout", str(_LIMIT_S), "--json", out])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
