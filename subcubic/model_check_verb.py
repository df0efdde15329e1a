"""``subcubic model-check``: does a language model notice that its linear layers multiply by a scheme?"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from subcubic.bench_options import PlaneDtype, values
from subcubic.bench_schemes import Schemes, planned
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import CatalogPath, Device, Dtype, Json, Reference, at_least, checked_levels, existing_catalog
from subcubic.output import note, print_json, table
from subcubic.version import commit
from subcubic.writing import make_folder

if TYPE_CHECKING:
    from evaluate.device import DeviceInfo

_MOST_STEPS = 10**9
_HEADINGS = (
    "dtype",
    "planes",
    "levels",
    "path",
    "products",
    "bits per byte",
    "plain",
    "relative",
    "top-1 agreement",
    "accuracy",
    "plain",
    "logits Frobenius",
    "maximum",
    "growth",
)


class ModelSize(StrEnum):
    """Of the model, see ``evaluate.model_sizes.SIZES``."""

    DEFAULT = "default"
    TINY = "tiny"


@guarded
def model_check(
    scheme: Reference,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="fp16 or bf16; both by default.")] = None,
    levels: Annotated[list[int] | None, typer.Option(help="Levels of recursion; one and two by default.")] = None,
    plane_dtype: Annotated[
        list[PlaneDtype] | None, typer.Option(help="Type of planes; may be given several times.")
    ] = None,
    size: Annotated[
        ModelSize, typer.Option(help="default: 2048 wide, for a GPU; tiny: 64 wide, for a CPU too.")
    ] = ModelSize.DEFAULT,
    steps: Annotated[int | None, typer.Option(help="Of training; 1000, tiny 150.")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="After which training ends too; 120 by default, none with --steps or tiny.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the first weights and of the text that is trained on.")] = 0,
    device: Annotated[Device, typer.Option(help="auto takes a GPU where there is one.")] = Device.AUTO,
    weights: Annotated[
        Path | None, typer.Option(help="File that keeps the trained weights, and is read again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to save the document to.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Train a language model for minutes, and evaluate it with a scheme in every linear layer and without.

    It reads the sources of Python's standard library byte by byte. On a CPU kernels are emulated.
    """
    at_least(1, "steps", steps, _MOST_STEPS)
    at_least(0, "seed", seed)
    for one in levels or []:
        checked_levels(one)
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UsageError(f"--seconds {seconds} must be a positive number of seconds")
    dtypes = [item.value for item in dtype or (Dtype.FP16, Dtype.BF16)]
    for item in dtypes:
        if item not in (Dtype.FP16, Dtype.BF16):
            raise UsageError(f"--dtype {item} is no type of 16 bits; choose fp16 or bf16")
    if weights is not None and not weights.parent.is_dir():
        raise UsageError(f"--weights {weights}: there is no folder {weights.parent}; make it first")
    gpu = _gpu(device, size)
    if out is not None:
        make_folder(out)

    from evaluate.corpus import standard_library
    from evaluate.model_arms import Case, path_of
    from evaluate.model_check import check
    from evaluate.model_sizes import SIZES, resized
    from evaluate.report import save

    plans = planned(Schemes(existing_catalog(catalog), "model-check"), [scheme], levels, "")
    cases = [
        Case(plan, item, item if planes == "input" else planes, path_of(plan, item, gpu), tuple(facts.items()))
        for item in dict.fromkeys(dtypes)
        for plan, facts in plans
        for planes in values(plane_dtype, PlaneDtype.INPUT)
    ]
    chosen = resized(SIZES[size.value], steps=steps, seconds=seconds, seed=seed)
    document = check(
        list(dict.fromkeys(cases)), chosen, standard_library(), gpu, commit=commit(), weights=weights, note=note
    )
    if out is not None:
        note(f"saved to {save(document, out)}")
    if json_output:
        print_json(document)
    else:
        print(_text(document))
    for row in document["skipped"]:
        note(f"skipped {row['dtype']}, {row['levels']} level(s): {row['reason']}")
    wrong = [row for row in document["rows"] if row["nonfinite_logits"]]
    if wrong:
        note(f"subcubic: {len(wrong)} rows have logits that are no finite numbers; try bf16, or planes in bf16")
    return ExitCode.ERROR if wrong or not document["rows"] else ExitCode.DONE


def _gpu(device: Device, size: ModelSize) -> DeviceInfo | None:
    """The GPU to use; None for the CPU.

    Raises:
        UsageError: the default size is wanted on a CPU.
        evaluate.device.DeviceMissingError: it needs a GPU, and none is usable.
    """
    from evaluate.bench import device_of
    from evaluate.device import DeviceMissingError, why_no_gpu

    if device is Device.CPU and size is ModelSize.DEFAULT:
        raise UsageError("the default size takes hours on a CPU; use --size tiny with --device cpu")
    # The memory of kernels is CuPy's, which has none left if JAX takes most of it when it starts.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    gpu, reason = device_of(device.value), why_no_gpu()
    if gpu and device is Device.AUTO:
        from evaluate.model_check import why_no_jax_gpu

        reason = why_no_jax_gpu()
        gpu = None if reason else gpu
    if gpu is None and size is ModelSize.DEFAULT:
        raise DeviceMissingError(f"no usable GPU: {reason}; the default size needs one, use --size tiny on a CPU")
    if gpu is None and device is Device.AUTO:
        note(f"on the CPU ({reason}): kernels are emulated")
    return gpu


def _text(document: dict[str, Any]) -> str:
    corpus, model, done = document["corpus"], document["model"], document["training"]["done"]
    rows = document["rows"]
    lines = [
        f"{corpus['source']}: {corpus['bytes'] / 1e6:.1f} MB, {corpus['held_out_bytes'] / 1e6:.2f} MB held out, "
        f"SHA-256 {corpus['sha256'][:16]}",
        f"{model['layers']} layers, width {model['width']}, {model['parameters'] / 1e6:.3g} M parameters, "
        f"{done['steps']} steps in {done['seconds']:.0f} s, "
        f"evaluated in {document['evaluation']['seconds']:.0f} s, all in {document['seconds']:.0f} s",
    ]
    if rows:
        lines.append(f"{rows[0]['format']}:{rows[0]['rank']}, M = {rows[0]['M']}, {rows[0]['tokens']} held-out bytes")
        lines.append(table(_HEADINGS, [_cells(row) for row in rows]))
        lines.append("relative: bits per byte to those by the vendor's GEMM; intervals of 95 % over sequences")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[Any]:
    def interval(name: str) -> str | None:
        parts = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
        return None if None in parts else "{:.2%} [{:.2%}, {:.2%}]".format(*parts)

    named = [row[key] for key in ("dtype", "plane_dtype", "levels", "path", "products")]
    change = [row[f"bits_per_byte_relative{end}"] for end in ("", "_low", "_high")]
    return [
        *named,
        *(None if row[key] is None else f"{row[key]:.5f}" for key in ("bits_per_byte", "baseline_bits_per_byte")),
        None if None in change else "{:+.4%} [{:+.4%}, {:+.4%}]".format(*change),
        interval("top1_agreement"),
        interval("accuracy"),
        interval("baseline_accuracy"),
        row["logits_difference_fro"],
        row["logits_difference_max"],
        row["growth"],
    ]
