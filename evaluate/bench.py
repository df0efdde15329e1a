"""Speed and error of schemes as one JSON document; its keys are a contract with scripts and with the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from codegen.build import MissingCompilerError
from codegen.plan import Plan
from evaluate import cpu, cublas
from evaluate.device import DeviceInfo, DeviceMissingError, require_gpu, snapshot, usable_gpu
from evaluate.operands import DTYPES, check_choice
from evaluate.rows import Row, Settings, Shape, identity, paths_for, prepare
from evaluate.timing import verdict
from evaluate.windows import GPU_REGIMES, HOST_REGIMES

SCHEMA_VERSION = 1
DEVICES = ("auto", "cpu", "gpu")

_T = TypeVar("_T")


def bench(
    plans: Sequence[Plan],
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    *,
    device: str = "auto",
    commit: str = "unknown",
    on_row: Callable[[Row], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Measure every plan at every shape in every dtype against the vendor's GEMM of the same precision.

    On a GPU that is the emitted CUDA; on a CPU the emitted C and NumPy twins for fp32 and fp64, and the emulated
    roundings (errors only) for fp16 and bf16. All of it is built before the first measurement.

    Args:
        plans: what to measure.
        shapes: (M, N, K) each, A is M x K and B is K x N.
        dtypes: fp16, bf16, fp32, fp64.
        device: "gpu", "cpu", or "auto" for a GPU where there is a usable one.
        commit: revision of this project, for the document.
        on_row: called with each row as soon as it is there.
        **settings: the fields of ``evaluate.rows.Settings``.

    Returns:
        The document. What could not be built, launched or held in memory is listed under ``skipped`` with its reason.
        After a KeyboardInterrupt ``interrupted`` is true and the rows are those measured until then.

    Raises:
        ValueError: an unknown name, or a size below 1.
        evaluate.device.DeviceMissingError: device "gpu" without a usable one, or no cuBLAS.
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
    if gpu:
        cublas.load()  # a missing baseline is said before anything is built
    document = _head(gpu, chosen, commit)
    before = snapshot(gpu) if gpu else {}
    try:
        _measure(document, plans, shapes, dtypes, chosen, gpu, on_row)
    except KeyboardInterrupt:
        document["interrupted"] = True
    after = snapshot(gpu) if gpu else {}
    document["baseline"] = "; ".join(dict.fromkeys(row["baseline"] for row in document["rows"]))
    document["clocks"] = _states(before, after, "clock_sm_mhz", "clock_memory_mhz", "clock_limits")
    document["power"] = _states(before, after, "power_w", "power_limit_w", "temperature_c")
    return document


def _measure(
    document: dict[str, Any],
    plans: Sequence[Plan],
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    settings: Settings,
    gpu: DeviceInfo | None,
    on_row: Callable[[Row], None] | None,
) -> None:
    """Fill in ``rows`` and ``skipped``."""
    ready = [
        {
            (dtype, path): _attempt(prepare, plan, dtype, path, settings, gpu)
            for dtype in dtypes
            for path in paths_for(dtype, gpu)
        }
        for plan in plans
    ]
    for plan, prepared in zip(plans, ready, strict=True):
        for shape in shapes:
            for (dtype, path), measure in prepared.items():
                facts = identity(plan, shape, dtype, path, settings)
                measured = measure if isinstance(measure, str) else _attempt(measure, shape)
                if isinstance(measured, str):
                    document["skipped"].append({**facts, "reason": measured})
                    continue
                row = {**facts, **measured}
                row["verdict"] = verdict(row)
                document["rows"].append(row)
                if on_row:
                    on_row(row)


def _attempt(action: Callable[..., _T], *arguments: Any) -> _T | str:
    """The result, or the reason why there is none: one row's failure must not cost the others.

    Emitters refuse with ValueError; the compiler, both libraries and CUDA itself fail with RuntimeError or OSError.
    """
    try:
        return action(*arguments)
    except (MissingCompilerError, DeviceMissingError):
        raise  # nothing else would work either
    except (ValueError, RuntimeError, MemoryError, OSError) as error:
        return " ".join(str(error).split()) or type(error).__name__


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
        "interrupted": False,
        "rows": [],
        "skipped": [],
    }


def _states(before: dict[str, Any], after: dict[str, Any], *keys: str) -> dict[str, Any] | None:
    if not before:
        return None
    return {"before": {key: before.get(key) for key in keys}, "after": {key: after.get(key) for key in keys}}
