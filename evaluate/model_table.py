"""The README's table of the model check: a language model with a scheme in every linear layer, and without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluate.report import load, markdown

KIND = "model-check"  # of its documents

Row = Mapping[str, Any]

_HEAD = (
    "device",
    "scheme",
    "levels",
    "dtype",
    "bits per byte",
    "of the vendor's GEMM",
    "difference",
    "same most likely byte",
    "accuracy",
    "of the vendor's GEMM",
    "logits' difference",
    "growth factor",
)
_SAME = ("id", "levels", "path", "dtype", "plane_dtype")


def model_table(folder: Path) -> str:
    """The newest row of each device, scheme, type and model that runs on a GPU, in Markdown; "" if there is none.

    Intervals are those of the rows; the logits' difference is relative Frobenius.
    """
    newest: dict[tuple[Any, ...], tuple[str, Row]] = {}
    for document in load(folder, KIND):
        for row in document["rows"] if document["device_kind"] == "gpu" else ():
            key = (document["device"], document["model"]["parameters"], *(row[name] for name in _SAME))
            newest[key] = document["device"], row
    if not newest:
        return ""
    order = sorted(newest.values(), key=lambda item: _order(*item))
    return markdown(_HEAD, (_cells(device, row) for device, row in order))


def _order(device: str, row: Row) -> tuple[Any, ...]:
    return device, row["dtype"], row["plane_dtype"], row["rank"], row["format"], row["levels"]


def _cells(device: str, row: Row) -> tuple[str, ...]:
    planes = f" ({row['plane_dtype']} planes)" if row["plane_dtype"] != row["dtype"] else ""
    return (
        device,
        f"{row['format']}:{row['rank']}",
        str(row["levels"]),
        row["dtype"] + planes,
        _written(row, "{:.4f}", "bits_per_byte"),
        _written(row, "{:.4f}", "baseline_bits_per_byte"),
        _interval(row, "bits_per_byte_relative", "{:+.3%} [{:+.3%}, {:+.3%}]"),
        _interval(row, "top1_agreement", "{:.2%} [{:.2%}, {:.2%}]"),
        _interval(row, "accuracy", "{:.2%} [{:.2%}, {:.2%}]"),
        _interval(row, "baseline_accuracy", "{:.2%} [{:.2%}, {:.2%}]"),
        _written(row, "{:.2e}", "logits_difference_fro"),
        f"{row['growth']:.4g}",
    )


def _interval(row: Row, name: str, text: str) -> str:
    return _written(row, text, name, f"{name}_low", f"{name}_high")


def _written(row: Row, text: str, *names: str) -> str:
    values = [row[name] for name in names]
    return "not finite" if None in values else text.format(*values)
