"""How long the vendor's GEMM should take on a device, and the rates and rounds that all products share."""

from __future__ import annotations

from math import ceil

from evaluate.cases import Shape
from evaluate.device_model import DeviceModel, rate_at
from evaluate.operands import DTYPES
from evaluate.variants import FUSED_PATH, LIBRARY_PATH

BYTES = {**{name: dtype.bytes for name, dtype in DTYPES.items()}, "tf32": 4, "fp8": 1, "int8": 1}
# Rows, columns and relative rate of a vendor's tiles on tensor cores; others take smaller ones.
_VENDOR_TILES = ((256, 128, 1.0), (128, 256, 1.0), (192, 192, 1.0), (320, 128, 1.0), (128, 128, 0.93), (64, 128, 0.8))
_SMALL_TILES = ((128, 128, 1.0), (128, 64, 0.97), (64, 64, 0.93))
_WIDE = ("fp32", "fp64")
_VENDOR = 0.96  # of the rate of full tiles that cuBLAS reaches on an H200 in the middle, ends and copies included


def default_path(device: DeviceModel, dtype: str) -> str:
    """The path of schemes: fused for types of tensor cores of at most 16 bits on a GPU, else the vendor's products."""
    return FUSED_PATH if device.tiled and BYTES[dtype] <= 2 else LIBRARY_PATH


def gemm_seconds(device: DeviceModel, shape: Shape, dtype: str, regime: str = "burst", batch: int = 1) -> float:
    """Seconds of the vendor's GEMM: its rate where measured, else that of full tiles, in whole rounds of tiles.

    Args:
        device: where.
        shape: M, N, K.
        dtype: of the matrices.
        regime: burst or steady.
        batch: products of this shape in one call.
    """
    m, n, k = shape
    size = (m * n * k) ** (1 / 3)
    # Nothing that was measured told fp16 from bf16 beyond the scatter of the clocks.
    alike = "bf16" if dtype == "fp16" else dtype
    steady, burst = (tables.get(dtype) or tables.get(alike) for tables in (device.gemm_steady, device.gemm))
    fill = _fill(device, m, n, dtype, batch)
    if rates := (steady or burst) if regime == "steady" else burst:
        # A measured rate contains the rounds of its square; beyond the ends of the table that is the last one.
        square = round(min(max(size, rates[0][0]), rates[-1][0]))
        rate = rate_at(rates, size) * fill / _fill(device, square, square, dtype)
        rate *= 1.0 if rates is steady else lasting(device, dtype, regime)
    else:
        rate = full_rate(device, dtype, regime) * fill * _VENDOR
    moved = batch * (m * k + k * n + m * n) * BYTES[dtype]
    return max(2 * batch * m * n * k / rate, moved / device.copy) + device.launch


def full_rate(device: DeviceModel, dtype: str, regime: str) -> float:
    """FLOP/s of full tiles on all multiprocessors."""
    return device.peak[dtype] * device.sustained * lasting(device, dtype, regime)


def lasting(device: DeviceModel, dtype: str, regime: str) -> float:
    """Share of a burst's rate; only tensor cores of narrow types draw the power that caps the clock."""
    return device.steady if regime == "steady" and dtype not in _WIDE else 1.0


def rounds_of(device: DeviceModel, tiles: int, units: int) -> float:
    """Rounds that tiles take; the idle part of the last one costs less where power is short."""
    return tiles / units + device.idle * (ceil(tiles / units) - tiles / units)


def _fill(device: DeviceModel, m: int, n: int, dtype: str, batch: int = 1) -> float:
    """Share of the rate of full tiles that a vendor's best tile reaches; thin shapes split K and fill the device."""
    if not device.tiled:
        return 1.0
    best = 0.0
    for rows, columns, rate in _SMALL_TILES if dtype in _WIDE else _VENDOR_TILES:
        down, right = ceil(m / rows), ceil(n / columns)
        padding = m * n / (down * rows * right * columns)
        resident = device.sms if rows * columns > 128 * 128 else 2 * device.sms
        grid = batch * down * right
        tiles = grid * max(1, resident // grid)
        best = max(best, rate * padding * tiles / resident / rounds_of(device, tiles, resident))
    return best
