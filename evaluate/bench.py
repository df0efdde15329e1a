"""Speed and error of schemes as one JSON document; its keys are a contract with scripts and with the catalog."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from codegen.build import MissingCompilerError
from codegen.plan import Plan
from evaluate import cpu, cublas
from evaluate.cases import Case, Row, Settings, Shape, identity
from evaluate.device import DeviceInfo, DeviceMissingError, require_gpu, snapshot, usable_gpu
from evaluate.operands import DTYPES, check_choice
from evaluate.rows import MeasureRow, prepare
from evaluate.timing import verdict
from evaluate.variants import Variant, Wanted, variants
from evaluate.windows import GPU_REGIMES, HOST_REGIMES

SCHEMA_VERSION = 1
DEVICES = ("auto", "cpu", "gpu")
_LATE = "the time for all rows was spent"

Document = dict[str, Any]
_T = TypeVar("_T")


def bench(
    plans: Sequence[Plan],
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    *,
    device: str = "auto",
    wanted: Wanted | None = None,
    commit: str = "unknown",
    on_row: Callable[[Row], None] | None = None,
    keep: Callable[[Document], object] | None = None,
    **settings: Any,
) -> Document:
    """Measure every plan at every shape in every dtype against the vendor's GEMM of the same precision.

    On a GPU that is the emitted CUDA; on a CPU the emitted C and NumPy twins for fp32 and fp64, and the emulated
    roundings (errors only) for fp16 and bf16.

    Args:
        plans: what to measure.
        shapes: (M, N, K) each, A is M x K and B is K x N.
        dtypes: fp16, bf16, fp32, fp64.
        device: "gpu", "cpu", or "auto" for a GPU where there is a usable one.
        wanted: the paths and variants on a GPU; all that make sense by default.
        commit: as of ``measure``.
        on_row: as of ``measure``.
        keep: as of ``measure``.
        **settings: the fields of ``evaluate.cases.Settings``.

    Returns:
        The document of ``measure``.

    Raises:
        ValueError: an unknown name, or a size below 1.
        evaluate.device.DeviceMissingError: device "gpu" without a usable one, or no cuBLAS.
        codegen.build.MissingCompilerError: no nvcc, or no gcc for the path "c".
    """
    chosen = Settings(**settings)
    for dtype in dtypes:
        check_choice("dtype", dtype, DTYPES)
    gpu = device_of(device)
    found = [case for plan in plans for case in cases(plan, shapes, dtypes, wanted or Wanted(), gpu, chosen)]
    return measure(found, gpu, commit=commit, on_row=on_row, keep=keep)


def cases(
    plan: Plan,
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    wanted: Wanted,
    gpu: DeviceInfo | None,
    settings: Settings,
    facts: Row | None = None,
) -> list[Case]:
    """All cases of a plan: every shape in every variant that is wanted.

    Raises:
        ValueError: path "fused" or "triton" is wanted of a dtype, a device or a plan that has none.
    """
    ways = variants(plan, dtypes, wanted, gpu)
    return [Case(plan, shape, variant, settings, facts or {}) for shape in shapes for variant in ways]


def device_of(name: str) -> DeviceInfo | None:
    """The GPU that a device name means; None for the CPU.

    Raises:
        ValueError: an unknown name.
        evaluate.device.DeviceMissingError: "gpu" without a usable one.
    """
    check_choice("device", name, DEVICES)
    instead = "use --device cpu, or auto to take a GPU where there is one"
    return require_gpu(instead) if name == "gpu" else usable_gpu() if name == "auto" else None


def measure(
    found: Sequence[Case],
    gpu: DeviceInfo | None,
    *,
    commit: str = "unknown",
    on_row: Callable[[Row], None] | None = None,
    keep: Callable[[Document], object] | None = None,
    until: float | None = None,
) -> Document:
    """Measure cases in their order. Everything is built before the first measurement.

    Args:
        found: the cases, one row each.
        gpu: where; None for the CPU.
        commit: revision of this project, for the document.
        on_row: called with each row as soon as it is there.
        keep: called with the document so far after each row, so that it can be saved.
        until: seconds from now, builds included, after which no further row is begun.

    Returns:
        The document. What could not be built, launched or held in memory, or came too late, is listed under
        ``skipped`` with its reason. After a KeyboardInterrupt ``interrupted`` is true and the rows are those measured
        until then.

    Raises:
        ValueError: a size below 1.
        evaluate.device.DeviceMissingError: the device is lost, or no cuBLAS.
        codegen.build.MissingCompilerError: no nvcc, or no gcc for the path "c".
    """
    began = monotonic()
    for case in found:
        if len(case.shape) != 3 or min(case.shape) < 1:
            raise ValueError(f"a shape must be three positive sizes M, N, K, not {tuple(case.shape)}")
    if gpu:
        cublas.load()  # a missing baseline is said before anything is built
    document = head(gpu, commit, _timer(gpu, [case.settings for case in found]))
    before = snapshot(gpu) if gpu else {}
    try:
        for case, measure_row in zip(found, _prepared(found, gpu), strict=True):
            late = until is not None and monotonic() - began > until
            measured = _LATE if late else _attempt(measure_row, case)
            if isinstance(measured, str):
                document["skipped"].append({**identity(case), "reason": measured})
            else:
                row = {**identity(case), **measured}
                row["verdict"] = verdict(row)
                document["rows"].append(row)
                if on_row:
                    on_row(row)
            if keep and document["rows"]:
                keep(_finished(document, before, before))
    except KeyboardInterrupt:
        document["interrupted"] = True
    return _finished(document, before, snapshot(gpu) if gpu else {})


def _prepared(found: Sequence[Case], gpu: DeviceInfo | None) -> list[Callable[[Case], Row | str]]:
    """What measures each case, each library built once; what could not be built says why instead."""
    distinct = {_library_key(case): case for case in found}
    # A compiler for each core; on a CPU the same cores will measure, and building is short.
    with ThreadPoolExecutor(os.cpu_count() if gpu else 1) as pool:
        try:
            futures = {
                key: pool.submit(_attempt, prepare, case.plan, case.variant, gpu) for key, case in distinct.items()
            }
            built = {key: future.result() for key, future in futures.items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [_or_reason(built[_library_key(case)]) for case in found]


def _or_reason(found: MeasureRow | str) -> Callable[[Case], Row | str]:
    return (lambda _: found) if isinstance(found, str) else found


def _library_key(case: Case) -> tuple[int, Variant]:
    """What decides the library: given planes do not."""
    return id(case.plan), replace(case.variant, operands="variable")


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


def head(gpu: DeviceInfo | None, commit: str, timer: str) -> Document:
    """The keys that every document of the evaluator begins with, without rows yet.

    Args:
        gpu: where; None for the CPU.
        commit: revision of this project.
        timer: how times were taken.
    """
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
        "timer": timer,
        "interrupted": False,
        "rows": [],
        "skipped": [],
    }


def _timer(gpu: DeviceInfo | None, settings: Sequence[Settings]) -> str:
    regimes = GPU_REGIMES if gpu else HOST_REGIMES
    clock = "CUDA events" if gpu else "host monotonic clock"
    ways = dict.fromkeys(f"up to {one.pairs} pairs {regimes[one.regime].describe()}" for one in settings)
    how = "interleaved pairs in random order, medians, 95 % bootstrap interval of the ratio"
    return f"{clock}, {how}; {'; '.join(ways)}"


def _finished(document: Document, before: dict[str, Any], after: dict[str, Any]) -> Document:
    """The document with what its rows and the two states of the device say of it as a whole."""
    return {
        **document,
        "baseline": "; ".join(dict.fromkeys(row["baseline"] for row in document["rows"])),
        **conditions(before, after),
    }


def conditions(before: dict[str, Any], after: dict[str, Any]) -> Document:
    """The keys of a document that tell two states of a device, each as of ``evaluate.device.snapshot``."""
    return {
        "clocks": _states(before, after, "clock_sm_mhz", "clock_memory_mhz", "clock_limits"),
        "power": _states(before, after, "power_w", "power_limit_w", "temperature_c"),
    }


def _states(before: dict[str, Any], after: dict[str, Any], *keys: str) -> dict[str, Any] | None:
    if not before:
        return None
    return {"before": {key: before.get(key) for key in keys}, "after": {key: after.get(key) for key in keys}}
