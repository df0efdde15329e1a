"""What the cost model knows of a device: rates on paper, and those that were measured.

Peaks are dense rates of the vendors' data sheets. What those do not say is either fitted to measurements on an H200
(``benchmarks/results`` and the prototypes of its kernels) or assumed to be as there; ``basis`` says which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from catalog.files import cache_folder, write_durably

Rates = Mapping[str, tuple[tuple[int, float], ...]]
_T = 1e12


@dataclass(frozen=True)
class DeviceModel:
    """A device as the cost model sees it. Rates are in FLOP/s and bytes/s, times in seconds.

    Attributes:
        name: by which it is asked for.
        source: where the peaks are from.
        basis: which of the other figures are measured, fitted or assumed.
        sms: multiprocessors; of a CPU its threads.
        clock: of the multiprocessors under a load of dense products, in Hz; times the ends of tiles.
        peak: dense rate of each dtype.
        sustained: share of the peak that full tiles hold, below 1 where power or clocks are capped.
        steady: further share that remains when the load lasts longer than a burst.
        chained: further share of kernels with planes and pending tiles, which move more bytes and so cost clock.
        idle: what a multiprocessor without work costs, as a share of its time; below 1 where its power goes to others.
        copy: bytes read plus bytes written by a copy.
        l2_bytes: size of the second-level cache.
        launch: of one kernel, its ramps included.
        rows: of a tile of the fused kernel.
        widths: columns of its tiles.
        gemm: measured rates of the vendor's GEMM by dtype: (size, rate), sizes ascending, size = (M N K)^(1/3).
        gemm_steady: the same under lasting load.
        tiled: whether products run in rounds of tiles; not so on a CPU.
    """

    name: str
    source: str
    basis: str
    sms: int
    clock: float
    peak: Mapping[str, float]
    sustained: float
    copy: float
    l2_bytes: int
    steady: float = 1.0
    chained: float = 1.0
    idle: float = 1.0
    launch: float = 4e-6
    rows: int = 256
    widths: tuple[int, ...] = (192, 256)
    gemm: Rates = field(default_factory=dict)
    gemm_steady: Rates = field(default_factory=dict)
    tiled: bool = True

    def is_named(self, device: str) -> bool:
        """Whether a device of results, by its full name, is one of these: by that name, or by one word of it."""
        slug = _slug(device)
        return self.name in (slug, *slug.split("-"))

    @property
    def units(self) -> int:
        """How many tiles of the fused kernel run at once: a pair of multiprocessors has 256 rows."""
        return max(1, self.sms * 128 // self.rows)


def _peaks(half: float, fp8: float, tf32: float, fp32: float, fp64: float, int8: float) -> dict[str, float]:
    rates = {"bf16": half, "fp16": half, "fp8": fp8, "int8": int8, "tf32": tf32, "fp32": fp32, "fp64": fp64}
    return {name: rate * _T for name, rate in rates.items() if rate}


_HOPPER = _peaks(989.5, 1979, 494.7, 66.9, 66.9, 1979)
# Fitted on an H200 to the times of the plain kernel at 4096 to 16384 (1.55 to 1.59 GHz of 1.83 in short bursts), to
# those under lasting load (1.31 GHz), to the chained Winograd kernel's at the same sizes, and to its 2.18 rounds of
# tiles at 6144.
_CAPPED: dict[str, Any] = {"clock": 1.56e9, "sustained": 0.852, "steady": 0.84, "chained": 0.984, "idle": 0.85}
_COPIED = 4.11 / 4.8  # share of the peak bandwidth that a combine pass moves, measured on an H200
_ASSUMED = "on paper: copy rate and launch cost scaled from an H200"

DEVICES = {
    device.name: device
    for device in (
        DeviceModel(
            "h200",
            "NVIDIA H200 Tensor Core GPU data sheet (SXM)",
            "measured: copy rate, launch cost, GEMM rates of bf16, fp32, fp64; fitted: clock and shares of the peak",
            sms=132,
            peak=_HOPPER,
            copy=4.8 * _T * _COPIED,
            l2_bytes=60 << 20,
            gemm={
                "bf16": ((4096, 809e12), (6144, 797e12), (8192, 797e12), (12288, 810e12), (16384, 797e12)),
                "fp32": ((4096, 49.6e12), (8192, 50.8e12), (16384, 54.0e12)),
                "fp64": ((8192, 62.1e12), (16384, 57.4e12)),
            },
            gemm_steady={"bf16": ((8192, 679e12), (16384, 688e12), (32768, 687e12))},
            **_CAPPED,
        ),
        DeviceModel(
            "h100",
            "NVIDIA H100 Tensor Core GPU data sheet (SXM)",
            f"{_ASSUMED}; clocks as on an H200, whose multiprocessors and power limit are the same",
            sms=132,
            peak=_HOPPER,
            copy=3.35 * _T * _COPIED,
            l2_bytes=50 << 20,
            **_CAPPED,
        ),
        DeviceModel(
            "h20",
            "H20 product brief as reported by the trade press; NVIDIA has no public data sheet",
            f"{_ASSUMED}; 94 % of the peak assumed, no power cap",
            sms=78,
            clock=1.75e9,
            peak=_peaks(148, 296, 74, 44, 1, 296),
            sustained=0.94,
            chained=0.984,
            copy=4.0 * _T * _COPIED,
            l2_bytes=60 << 20,
        ),
        DeviceModel(
            "a100",
            "NVIDIA A100 Tensor Core GPU data sheet (80 GB SXM)",
            f"{_ASSUMED}; 88 % of the peak assumed; it has no fp8",
            sms=108,
            clock=1.3e9,
            peak=_peaks(312, 0, 156, 19.5, 19.5, 624),
            sustained=0.88,
            chained=0.984,
            copy=2.039 * _T * _COPIED,
            l2_bytes=40 << 20,
            rows=128,
            widths=(128,),
        ),
        DeviceModel(
            "b200",
            "NVIDIA HGX B200 data sheet, one of eight GPUs",
            f"{_ASSUMED}; 75 % of the peak and ends of tiles as on an H200 assumed; there is no kernel for it yet",
            sms=148,
            clock=1.6e9,
            peak=_peaks(2250, 4500, 1100, 75, 37, 4500),
            sustained=0.75,
            chained=0.984,
            idle=0.85,
            copy=7.7 * _T * _COPIED,
            l2_bytes=126 << 20,
        ),
    )
}


def rate_at(rates: Sequence[tuple[int, float]], size: float) -> float:
    """A measured rate between two sizes by the logarithm of the size; beyond the ends that of the nearest size."""
    sizes, values = zip(*rates, strict=True)
    return float(np.interp(log(size), [log(each) for each in sizes], values))


def device_model(name: str, folder: Path | None = None) -> DeviceModel:
    """The device of a name, with the measured figures of a card or processor of that name where they are kept.

    Args:
        name: of ``DEVICES``, or of a device that was measured here, as ``kept`` lists them; case does not count.
        folder: where measurements are kept; that of the cache by default.

    Raises:
        ValueError: nothing is known of such a device, or its kept figures are damaged.
    """
    there = kept(folder)
    wanted = _slug(name)
    model = next((model for key, model in DEVICES.items() if key in wanted.split("-")), None)
    path = next((path for slug, path in there.items() if wanted == slug or wanted in slug.split("-")), None)
    if path is not None:
        return _measured(json_of(path), path, model)
    if model is None or wanted != model.name:
        known = ", ".join([*DEVICES, *there])
        raise ValueError(f"nothing is known of device {name!r}; choose {known}, or run subcubic doctor --measure there")
    return model


def kept(folder: Path | None = None) -> dict[str, Path]:
    """Files of measured devices by name."""
    place = folder or cache_folder() / "devices"
    return {path.stem: path for path in sorted(place.glob("*.json"))}


def keep(figures: dict[str, Any], folder: Path | None = None) -> Path:
    """Keep what ``evaluate.measure_device`` measured, by the device's name; returns the file.

    Raises:
        OSError: the folder cannot be written.
    """
    path = (folder or cache_folder() / "devices") / f"{_slug(figures['device'])}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, (json.dumps(figures, indent=2) + "\n").encode())
    return path


def json_of(path: Path) -> dict[str, Any]:
    """A kept document.

    Raises:
        ValueError: it is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not {"device", "kind", "sms", "copy", "gemm"} <= set(found):
            raise ValueError
    except ValueError:
        raise ValueError(f"{path} is damaged; remove it and run subcubic doctor --measure again") from None
    return dict(found)


def _measured(figures: dict[str, Any], path: Path, model: DeviceModel | None) -> DeviceModel:
    gemm = {name: tuple((int(size), float(rate)) for size, rate in rows) for name, rows in figures["gemm"].items()}
    basis = f"measured here: copy rate and GEMM rates of {', '.join(gemm)}, {path}"
    if model is not None:
        # Cards of one kind differ by some percent, and our kernels with them.
        both = [name for name in gemm if name in model.gemm]
        share = min((rate_at(gemm[name], 8192) / rate_at(model.gemm[name], 8192) for name in both), default=1.0)
        known: dict[str, Any] = {
            "copy": figures["copy"],
            "gemm": {**model.gemm, **gemm},
            "sustained": model.sustained * share,
        }
        return replace(model, **known, basis=f"{basis}; {model.basis}")
    tiled = figures["kind"] == "gpu"
    return DeviceModel(
        path.stem,
        "measured",
        basis,
        sms=figures["sms"],
        clock=1.5e9,
        peak={name: max(rate for _, rate in rows) for name, rows in gemm.items()},
        sustained=1.0,
        copy=figures["copy"],
        l2_bytes=figures.get("l2_bytes", 0),
        gemm=gemm,
        launch=4e-6 if tiled else 0.0,
        tiled=tiled,
    )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
