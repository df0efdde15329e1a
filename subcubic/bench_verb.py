"""``subcubic bench``: speed and error of schemes against the vendor's GEMM, on the GPU or on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.scheme import Ring
from catalog.store import Catalog
from codegen.plan import Plan
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import CatalogPath, Device, Dtype, Json, ProductDtype, at_least, writable_catalog
from subcubic.output import note, print_json
from subcubic.reference import Resolved, resolve
from subcubic.version import commit

_SIZES = {"gpu": [4096, 8192], "cpu": [512, 1024]}
_DTYPES = {"gpu": [Dtype.FP32, Dtype.BF16], "cpu": [Dtype.FP64, Dtype.FP32, Dtype.BF16, Dtype.FP16]}
# With --quick: one shape, fewer pairs, and a time limit for each row.
# The CPU is slow and its timings scatter: a row that takes longer is measured on fewer pairs.
_CPU_S = 20.0
_QUICK_SIZES, _QUICK_PAIRS, _QUICK_S = {"gpu": [4096], "cpu": [512]}, 10, 3.0


class Regime(StrEnum):
    """How a timed window is prepared."""

    BURST = "burst"
    STEADY = "steady"


class KernelPath(StrEnum):
    """Products by the vendor's library, or all of it in one kernel; auto measures what there is."""

    AUTO = "auto"
    CUDA = "cuda"
    FUSED = "fused"


class Operands(StrEnum):
    """What a launch of a fused kernel is given: nothing, the planes of B, the planes of both."""

    VARIABLE = "variable"
    B_CONSTANT = "b_constant"
    PLANES_GIVEN = "planes_given"


class PlaneDtype(StrEnum):
    """Types of planes of fused kernels."""

    INPUT = "input"
    FP16 = "fp16"
    BF16 = "bf16"


class Layout(StrEnum):
    """How A and B are stored: n row-major, t transposed."""

    NN = "nn"
    NT = "nt"


class Distribution(StrEnum):
    """What the random inputs are drawn from: standard normal, [-1, 1], [0, 1]."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    POSITIVE = "positive"


@guarded
def bench(
    schemes: Annotated[
        list[str], typer.Argument(metavar="SCHEME...", help="Ids, formats, built-in names or scheme files.")
    ],
    size: Annotated[list[int] | None, typer.Option(help="M = N = K; may be given several times.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="M,N,K in BLAS letters; may be given several times.")] = None,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="Element type; may be given several times.")] = None,
    levels: Annotated[list[int] | None, typer.Option(help="Levels of recursion; may be given several times.")] = None,
    product_dtype: Annotated[
        ProductDtype, typer.Option(help="How block products of 16-bit types are stored.")
    ] = ProductDtype.INPUT,
    device: Annotated[Device, typer.Option(help="auto takes a GPU where there is one.")] = Device.AUTO,
    path: Annotated[KernelPath, typer.Option(help="GPU: the vendor's products, or a fused kernel.")] = KernelPath.AUTO,
    operands: Annotated[
        list[Operands] | None, typer.Option(help="Fused: planes given to a launch; may be given several times.")
    ] = None,
    plane_dtype: Annotated[list[PlaneDtype] | None, typer.Option(help="Fused; may be given several times.")] = None,
    layout: Annotated[list[Layout] | None, typer.Option(help="Fused; may be given several times.")] = None,
    pairs: Annotated[int | None, typer.Option(help="Interleaved pairs of timings, 30 by default.")] = None,
    regime: Annotated[Regime, typer.Option(help="Idle gaps, or settled clocks.")] = Regime.BURST,
    distribution: Annotated[Distribution, typer.Option(help="Of the random inputs.")] = Distribution.NORMAL,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    limit: Annotated[float | None, typer.Option(help="Seconds of timing per row, at least 7 pairs.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One small shape, in seconds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to save the document to.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Measure schemes against the vendor's GEMM of the same precision, interleaved, with errors against FP64."""
    from evaluate.bench import bench as measure
    from evaluate.device import require_gpu, usable_gpu, why_no_gpu
    from evaluate.report import Saver, text
    from evaluate.variants import Wanted

    gpu = require_gpu() if device is Device.GPU else usable_gpu() if device is Device.AUTO else None
    kind = "gpu" if gpu else "cpu"
    for name, values, least in (("size", size, 1), ("levels", levels, 1), ("pairs", [pairs], 1), ("seed", [seed], 0)):
        for value in values or []:
            at_least(least, name, value)
    if limit is not None and not 0 < limit < float("inf"):
        raise UsageError(f"--limit {limit} must be a positive number of seconds")
    shapes = [_shape(item) for item in shape or []]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    store = writable_catalog(catalog)
    found = [resolve(reference, store, (Ring.Z, Ring.Q)) for reference in schemes]
    for item in found:
        note(f"bench {item.origin}: {item.scheme.format.described}, rank {item.scheme.rank} over {item.scheme.ring}")
    reason = "" if gpu or device is Device.CPU else f" ({why_no_gpu()})"
    note(f"on the {kind.upper()}{reason}{f': {gpu.name}' if gpu else ''}")
    plans = _plans(found, levels)
    wanted = Wanted(
        path=path.value,
        operands=_values(operands, Operands.VARIABLE),
        plane_dtypes=_values(plane_dtype, PlaneDtype.INPUT),
        layouts=_values(layout, Layout.NN),
        product_dtype=None if product_dtype is ProductDtype.INPUT else product_dtype.value,
    )
    saver = Saver(out) if out is not None else None
    sizes = size or [] if size or shape else (_QUICK_SIZES if quick else _SIZES)[kind]
    document = measure(
        plans,
        [(n, n, n) for n in sizes] + shapes,
        [item.value for item in dtype or _DTYPES[kind]],
        device=kind,
        wanted=wanted,
        commit=commit(),
        on_row=lambda row: note(text([row]).splitlines()[1]),
        keep=saver,
        pairs=_QUICK_PAIRS if pairs is None and quick else 30 if pairs is None else pairs,
        regime=regime.value,
        distribution=distribution.value,
        seed=seed,
        limit=limit if limit is not None else _QUICK_S if quick else _CPU_S if kind == "cpu" else None,
    )
    if saver is not None:
        note(f"saved to {saver(document)}")
    if json_output:
        print_json(document)
    else:
        print(text(document["rows"]))
        for row in document["skipped"]:
            note(f"skipped {row['format']}:{row['rank']} at {row['M']},{row['N']},{row['K']}: {row['reason']}")
    _record(store, found, document)
    wrong = [row for row in document["rows"] if row["correct"] is False]
    if wrong:
        note(f"subcubic: {len(wrong)} rows are wrong: their error is beyond rounding, or changes from launch to launch")
    if document["interrupted"]:
        return ExitCode.INTERRUPTED
    return ExitCode.ERROR if wrong or not document["rows"] else ExitCode.DONE


def _values(chosen: Sequence[StrEnum] | None, default: StrEnum) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.value for item in chosen or [default]))


def _shape(text: str) -> tuple[int, int, int]:
    try:
        m, n, k = (int(part) for part in text.lower().replace("x", ",").split(","))
        if min(m, n, k) < 1:
            raise ValueError
    except ValueError:
        raise UsageError(f"shape {text!r} is not of the form M,N,K, for example 4096,4096,1024") from None
    return m, n, k


def _record(store: Catalog, found: Sequence[Resolved], document: dict[str, Any]) -> None:
    """Keep each row with its scheme; a built-in scheme or a file is added to the catalog for it.

    The document is printed and saved by then, so a catalog that cannot be written costs a note and not the results.
    """
    try:
        added = store.add_many((item.scheme, item.provenance) for item in found)
        ids = {item.id for item in added}
        for item in added:
            if item.status == "new":
                note(f"stored {item.id[:12]} in the catalog, with its measurements")
        head = {key: value for key, value in document.items() if key not in ("rows", "skipped")}
        store.record_many((row["id"], {**head, "row": row}) for row in document["rows"] if row["id"] in ids)
    except OSError as error:
        note(f"subcubic: the results are not in the catalog: {error}")


def _plans(found: Sequence[Resolved], levels: Sequence[int] | None) -> list[Plan]:
    """A plan for each scheme and level; by default one and two levels, the second where it is not too large."""
    from codegen.plan import plan

    plans = []
    for item in found:
        for level in levels or [1, 2]:
            try:
                plans.append(plan(item.scheme, level))
            except ValueError as error:
                if levels or level == 1:
                    raise
                note(f"two levels left out: {error}")
    return plans
