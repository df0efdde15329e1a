"""The GPU: whether there is a usable one, what it is, and its clocks and power. The one place that imports CuPy."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from typing import Any

# nvidia-smi's name of the bit mask of clock limits, today's and that of drivers before 535.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_FIELDS = {
    "clock_sm_mhz": "clocks.sm",
    "clock_memory_mhz": "clocks.mem",
    "power_w": "power.draw",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
}
_PATIENCE = 20.0  # seconds for one answer of nvidia-smi


class DeviceMissingError(RuntimeError):
    """A GPU was asked for by name and none is usable."""


@dataclass(frozen=True)
class DeviceInfo:
    """What a GPU is.

    Attributes:
        name: the vendor's name.
        arch: real architecture, for example "sm_90".
        driver: driver version, "unknown" without nvidia-smi.
        cuda: CUDA version of the runtime in use, for example "13.0".
        l2_bytes: size of the second-level cache.
        bus: PCI bus id, by which nvidia-smi knows the device.
    """

    name: str
    arch: str
    driver: str
    cuda: str
    l2_bytes: int
    bus: str


def usable_gpu() -> DeviceInfo | None:
    """The current CUDA device, or None; see ``why_no_gpu``. Never raises."""
    found = _probe()
    return found if isinstance(found, DeviceInfo) else None


def why_no_gpu() -> str:
    """Why there is no usable GPU, in one clause; empty when there is one."""
    found = _probe()
    return "" if isinstance(found, DeviceInfo) else found


def require_gpu(instead: str = "") -> DeviceInfo:
    """The current CUDA device.

    Args:
        instead: what else can be done, for the message.

    Raises:
        DeviceMissingError: there is none; the message says why.
    """
    found = _probe()
    if isinstance(found, DeviceInfo):
        return found
    raise DeviceMissingError(f"no usable GPU: {found}" + (f"; {instead}" if instead else ""))


def array_module() -> Any:
    """CuPy.

    Raises:
        DeviceMissingError: no usable GPU.
    """
    require_gpu()
    import cupy

    return cupy


def release_memory() -> None:
    """Give pooled device memory back, so that the next measurement starts with all of it."""
    array_module().get_default_memory_pool().free_all_blocks()


def snapshot(device: DeviceInfo) -> dict[str, float | str | None]:
    """Clocks in MHz, power in W, temperature in degrees C and the active limits of the clock, as nvidia-smi says now.

    A figure it does not give is None; so are all of them where nvidia-smi is missing.
    """
    empty: dict[str, float | str | None] = {**dict.fromkeys(_FIELDS), "clock_limits": None}
    for reasons in _REASONS:
        answer = _query([*_FIELDS.values(), reasons], device.bus)
        if answer is not None:
            *figures, mask = answer
            return {**{key: _number(text) for key, text in zip(_FIELDS, figures, strict=True)}, "clock_limits": mask}
    return empty


@functools.cache
def driver_version(bus: str = "0") -> str:
    """That of the driver, as nvidia-smi says, else "unknown"; all cards of a machine have one driver."""
    found = _query(["driver_version"], bus)
    return found[0] if found else "unknown"


@functools.cache
def _probe() -> DeviceInfo | str:
    try:
        import cupy
    except Exception as error:  # a broken installation raises more than ImportError
        return f"CuPy cannot be imported ({_clause(error)}), install the cuda13 or cuda12 extra"
    runtime = cupy.cuda.runtime
    try:
        if not runtime.getDeviceCount():
            return "CUDA sees no device"
        index = runtime.getDevice()
        facts = runtime.getDeviceProperties(index)
        bus = runtime.deviceGetPCIBusId(index)
        version = runtime.runtimeGetVersion()
        cupy.zeros(1).sum().item()  # a device may be listed and still refuse work
    except Exception as error:
        return f"the CUDA device cannot be used ({_clause(error)})"
    return DeviceInfo(
        name=facts["name"].decode(),
        arch=f"sm_{facts['major']}{facts['minor']}",
        driver=driver_version(bus),
        cuda=f"{version // 1000}.{version % 1000 // 10}",
        l2_bytes=int(facts["l2CacheSize"]),
        bus=bus,
    )


def _query(fields: list[str], bus: str) -> list[str] | None:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", f"--id={bus}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return values if done.returncode == 0 and len(values) == len(fields) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _clause(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
