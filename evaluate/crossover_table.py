"""The README's table of crossovers: measured, by the cost model, and FalconGEMM's beside those of an H20."""

from __future__ import annotations

from pathlib import Path

from catalog.known import winograd
from codegen.plan import plan
from evaluate.crossover import Measured, Predicted, measured_crossovers, predicted_crossover
from evaluate.device_model import DEVICES, DeviceModel
from evaluate.maps import OPERANDS_TEXT, error_of, newest
from evaluate.report import load, markdown
from evaluate.variants import OPERANDS
from evaluate.windows import GPU_REGIMES

# FalconGEMM (arXiv 2605.06057) and a talk of its authors: FP16 and BF16 on an H20, nothing given.
FALCON_DEVICE = "h20"
FALCON = "about 2048; up to 1.10 to 1.16"
_HEAD = ("device", "dtype", "operands", "measured, burst", "measured, steady", "model", "model, H20", "FalconGEMM, H20")


def crossover_table(folder: Path) -> str:
    """The smallest square size that pays, for each device, dtype and kind of operands, in Markdown; "" if none.

    Measured are all schemes, levels and paths; a ratio whose interval touches 1 is no gain. The model is asked for one
    level of Winograd's form, on a device as its data sheet has it, so that the table is the same everywhere.
    """
    documents = load(folder)
    lines: list[tuple[str, ...]] = []
    for device in sorted({document["device"] for document in documents}):
        model = model_of(device)
        found: dict[tuple[str, str, str], dict[str, Measured]] = {}
        for one in measured_crossovers(newest(documents, device)):
            found.setdefault((one.dtype, one.plane_dtype, one.operands), {})[one.regime] = one
        lines += [(device, *_cells(key, regimes, model)) for key, regimes in found.items()]
    if not lines:
        return ""
    return markdown(_HEAD, lines)


def model_of(device: str) -> DeviceModel | None:
    """The cost model's device on paper for a device of results by its full name; None where there is none."""
    return next((model for model in DEVICES.values() if model.is_named(device)), None)


def measured_text(one: Measured) -> str:
    """A measured crossover in words: where gains begin, what is known below, and the greatest ratio with its error."""
    found = one.crossover
    if found.first is None:
        return f"not up to {found.largest}"
    below = f"not at {found.below}" if found.below else "the least measured"
    again = (
        ""
        if found.lasting == found.first
        else f", always from {found.lasting}"
        if found.lasting
        else ", but not always"
    )
    best = max(one.rows.values(), key=lambda row: row["ratio"])
    return f"{found.first}, {below}{again}; up to {best['ratio']:.2f} (error x{error_of(best):.1f})"


def predicted_text(one: Predicted) -> str:
    """A predicted crossover in words; before the second size gains come and go with the last round of tiles."""
    found = one.crossover
    if found.first is None:
        return f"not up to {found.largest}"
    again = (
        ""
        if found.lasting == found.first
        else f", always from {found.lasting}"
        if found.lasting
        else ", but not always"
    )
    return f"{found.first}{again}; up to {max(one.ratios.values()):.2f}"


def _cells(key: tuple[str, str, str], found: dict[str, Measured], model: DeviceModel | None) -> tuple[str, ...]:
    dtype, plane_dtype, operands = key
    planes = f" with {plane_dtype} planes" if plane_dtype != dtype else ""
    measured = [measured_text(found[regime]) if regime in found else "-" for regime in GPU_REGIMES]
    plans = [plan(winograd())]
    predicted = [
        predicted_text(predicted_crossover(plans, one, dtype, operands=operands, plane_dtype=plane_dtype))
        if one
        else "-"
        for one in (model, DEVICES[FALCON_DEVICE])
    ]
    theirs = FALCON if dtype in ("fp16", "bf16") and operands == OPERANDS[0] else "-"
    return (f"{dtype}{planes}", OPERANDS_TEXT[operands], *measured, *predicted, theirs)
