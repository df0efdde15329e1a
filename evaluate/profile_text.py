"""What ``subcubic bench --profile`` prints of a row: what its kernels take, and how near they come to the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluate.device_model import DeviceModel
from evaluate.operands import DTYPES

Row = Mapping[str, Any]
_MEGA = 1e-6


def profile_text(row: Row, model: DeviceModel | None) -> str:
    """Lines about a row that was measured with ``profile``.

    Args:
        row: of a document.
        model: of the device, for its limits; None if nothing is known of it.
    """
    m, n, k = (row[letter] for letter in "MNK")
    groups = row.get("groups", 1)
    lines = [f"{row['format']}:{row['rank']}, path {row['path']}, {row['dtype']}, {m} x {n} x {k}"]
    if row.get("seconds"):
        lines.append(f"  {_rates(row, groups, model)}")
    for key, title in (("launches", "ours"), ("baseline_launches", "the vendor's")):
        found = row.get(key)
        if isinstance(found, str):
            lines.append(f"  {title}: {found}")
        for kernel in found if isinstance(found, list) else ():
            lines.append(f"  {title}: {_kernel(kernel)}")
    if row.get("spill_bytes") is not None:
        lines.append(f"  the compiler spilled {row['spill_bytes']} bytes of {row.get('registers')} registers")
    for key, title in (("counters", "ours"), ("baseline_counters", "the vendor's")):
        if key in row:
            lines.append(f"  {title}, counted: {_counted(row[key])}")
    return "\n".join(lines)


def _rates(row: Row, groups: int, model: DeviceModel | None) -> str:
    """Rates of the bare product: its multiplications and its matrices, each once."""
    m, n, k = (row[letter] for letter in "MNK")
    flops = 2 * groups * m * n * k / row["seconds"]
    moved = groups * (m * k + k * n + m * n) * DTYPES[row["dtype"]].bytes / row["seconds"]
    text = f"{flops / 1e12:.4g} TFLOP/s effective, {moved / 1e9:.4g} GB/s of A, B and C"
    if model is None:
        return text
    limits = [f"{moved / model.copy:.0%} of a copy's {model.copy / 1e9:.4g} GB/s"]
    if row["dtype"] in model.peak:
        rate = max((one for _, one in model.gemm.get(row["dtype"], ())), default=model.peak[row["dtype"]])
        what = "the vendor's best" if model.gemm.get(row["dtype"]) else "the peak"
        limits.insert(0, f"{flops / rate:.0%} of {what} {rate / 1e12:.4g} TFLOP/s")
    return f"{text}: {', '.join(limits)}"


def _kernel(kernel: Row) -> str:
    local = f", {kernel['local_bytes']} bytes of local memory a thread" if kernel["local_bytes"] else ""
    return (
        f"{kernel['name'] or 'a kernel'}: {'x'.join(map(str, kernel['grid']))} blocks of {kernel['threads']} threads, "
        f"{kernel['registers']} registers, {kernel['shared_bytes'] / 1024:.4g} KiB shared, {kernel['blocks']} at once "
        f"on a multiprocessor, {kernel['occupancy']:.0%} of its warps{local}"
    )


def _counted(counters: Row) -> str:
    if counters.get("reason"):
        return str(counters["reason"])
    parts = [
        _part(counters, "dram_read_bytes", "DRAM read {:.4g} MB", _MEGA),
        _part(counters, "dram_write_bytes", "written {:.4g} MB", _MEGA),
        _part(counters, "l2_hit_rate", "{:.0%} of L2 sectors hit", 1),
        _part(counters, "bank_conflicts", "{:.3g} bank conflicts", 1),
        _part(counters, "tensor_busy", "tensor cores busy {:.0%}", 1),
        _part(counters, "sm_busy", "multiprocessors {:.0%}", 1),
        _part(counters, "clock_mhz", "{:.0f} MHz", 1),
    ]
    return ", ".join(part for part in parts if part) or "nothing"


def _part(counters: Row, key: str, text: str, scale: float) -> str:
    value = counters.get(key)
    return "" if value is None else text.format(value * scale)
