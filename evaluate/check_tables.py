"""The README's tables of what was checked: the choices of the dispatch, and the timer beside NVBench."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from evaluate.dispatch_check import KIND
from evaluate.report import load, markdown

Row = Mapping[str, Any]

MOST_SHAPES = 60  # of a full check
_DISPATCH = (
    *("device", "dtype", "shapes", "within 2 % of the best", "over 1 % slower than the vendor's", "mean gain"),
    *("calls of changing shapes", "look-up", "a call of CuPy, PyTorch, JAX", "C entry, a kernel"),
)
_NVBENCH = (
    *("device", "M = N = K", "ours", "by NVBench", "vendor's", "by NVBench", "ratio", "by NVBench", "back to back"),
)


def dispatch_table(folder: Path) -> str:
    """The newest full check of each device and type and the newest times of the host, in Markdown; "" if there is none.

    The mean gain is the geometric mean of the ratios to the vendor's GEMM; times are what a call takes the host more
    than what was chosen takes alone.
    """
    judged: dict[tuple[str, str], Mapping[str, Any]] = {}
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for document in load(folder, KIND):
        key = (document["device"], document["dtype"])
        newest[key] = document if document["host"] else newest.get(key, document)
        if len(document["rows"]) >= MOST_SHAPES or key not in judged:
            judged[key] = document
    lines = [_cells(judged[key], newest[key]) for key in sorted(judged) if judged[key]["rows"]]
    return markdown(_DISPATCH, lines) if lines else ""


def nvbench_table(folder: Path) -> str:
    """The newest row of each device and shape that NVBench timed too, in Markdown; "" if there is none.

    Back to back is the ratio of launches without pauses, where the card's power sets the clock.
    """
    newest: dict[tuple[Any, ...], Row] = {}
    for document in load(folder):
        for row in document["rows"]:
            if (row.get("nvbench") or {}).get("seconds") and (row.get("baseline_nvbench") or {}).get("seconds"):
                same = (row["dtype"], row["operands"], str(row.get("options")), row["regime"])
                newest[document["device"], row["M"], row["N"], row["K"], *same] = row
    lines = []
    for (device, *_), row in sorted(newest.items(), key=lambda item: str(item[0][:1]) + f"{item[0][1]:09d}"):
        ours, theirs = row["nvbench"], row["baseline_nvbench"]
        times = [row["seconds"], ours["seconds"], row["baseline_seconds"], theirs["seconds"]]
        ratios = (row["ratio"], theirs["seconds"] / ours["seconds"], theirs["batch_seconds"] / ours["batch_seconds"])
        lines.append(
            (device, str(row["M"]), *(f"{each * 1e6:.1f} us" for each in times), *(f"{each:.3f}" for each in ratios))
        )
    return markdown(_NVBENCH, lines) if lines else ""


def _cells(document: Mapping[str, Any], newest: Mapping[str, Any]) -> tuple[str, ...]:
    rows = document["rows"]
    largest = max((row["M"] for row in newest["host"]), default=0)
    host = [row for row in newest["host"] if row["M"] == largest]
    streams = [
        f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]" for row in document["streams"][-1:]
    ]
    looked = [f"{row['look_up_us']:.1f} us" for row in host if row["library"] == "cupy" and "look_up_us" in row]
    calls = ["-" if row["overhead_us"] is None else f"{row['overhead_us']:+.1f} us" for row in host]
    entries = [f"{row['more_for_each_kernel_us']:+.1f} us" for row in newest["entries"]]
    return (
        document["device"],
        document["dtype"],
        str(len(rows)),
        str(sum(row["near_best"] for row in rows)),
        str(sum(not row["near_vendor"] for row in rows)),
        f"{geometric_mean(row['to_vendor'] for row in rows):.3f}",
        *(", ".join(each) or "-" for each in (streams, looked, calls, entries)),
    )
