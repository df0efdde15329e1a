"""``subcubic bench``: speed and error of schemes against the vendor's GEMM, on the GPU or on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.scheme import Ring
from catalog.store import Catalog
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import CatalogPath, Device, Dtype, Json, ProductDtype
from subcubic.output import note, print_json
from subcubic.reference import Resolved, resolve
from subcubic.version import commit

_SIZES = {"gpu": [4096, 8192], "cpu": [512, 1024]}
_DTYPES = {"gpu": [Dtype.FP32, Dtype.BF16], "cpu": [Dtype.FP64, Dtype.FP32, Dtype.BF16, Dtype.FP16]}
# With --quick: one shape, fewer pairs, and a time limit for each row.
_QUICK_SIZES, _QUICK_PAIRS, _QUICK_S = {"gpu": [4096], "cpu": [512]}, 10, 3.0


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
    pairs: Annotated[int | None, typer.Option(help="Interleaved pairs of timings, 30 by default.")] = None,
    regime: Annotated[str, typer.Option(help="burst (idle gaps) or steady (settled clocks).")] = "burst",
    distribution: Annotated[str, typer.Option(help="Of the random inputs: normal, uniform, positive.")] = "normal",
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    limit: Annotated[float | None, typer.Option(help="Seconds of timing per row, at least 5 pairs.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One small shape, in seconds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to save the document to.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Measure schemes against the vendor's GEMM of the same precision, interleaved, with errors against FP64."""
    from codegen.plan import plan
    from evaluate.bench import bench as measure
    from evaluate.device import require_gpu, usable_gpu, why_no_gpu
    from evaluate.report import save, text

    gpu = require_gpu() if device is Device.GPU else usable_gpu() if device is Device.AUTO else None
    kind = "gpu" if gpu else "cpu"
    store = Catalog(catalog)
    found = [resolve(reference, store, (Ring.Z, Ring.Q)) for reference in schemes]
    for item in found:
        note(f"bench {item.origin}: {item.scheme.format.described}, rank {item.scheme.rank} over {item.scheme.ring}")
    reason = "" if gpu or device is Device.CPU else f" ({why_no_gpu()})"
    note(f"on the {kind.upper()}{reason}{f': {gpu.name}' if gpu else ''}")
    plans = [plan(item.scheme, level) for item in found for level in levels or [1, 2]]
    sizes = size or [] if size or shape else (_QUICK_SIZES if quick else _SIZES)[kind]
    document = measure(
        plans,
        [(n, n, n) for n in sizes] + [_shape(item) for item in shape or []],
        [item.value for item in dtype or _DTYPES[kind]],
        device=kind,
        commit=commit(),
        on_row=lambda row: note(text([row]).splitlines()[1]),
        pairs=_QUICK_PAIRS if pairs is None and quick else 30 if pairs is None else pairs,
        regime=regime,
        distribution=distribution,
        seed=seed,
        product_dtype=None if product_dtype is ProductDtype.INPUT else product_dtype.value,
        limit=_QUICK_S if limit is None and quick else limit,
    )
    _record(store, found, document)
    if out is not None:
        note(f"saved to {save(document, out)}")
    if json_output:
        print_json(document)
    else:
        print(text(document["rows"]))
        for row in document["skipped"]:
            note(f"skipped {row['format']}:{row['rank']} at {row['M']},{row['N']},{row['K']}: {row['reason']}")
    wrong = [row for row in document["rows"] if row["correct"] is False]
    if wrong:
        note(f"subcubic: {len(wrong)} rows are wrong: their error is beyond rounding, or changes from launch to launch")
    return ExitCode.ERROR if wrong else ExitCode.DONE


def _shape(text: str) -> tuple[int, int, int]:
    try:
        m, n, k = (int(part) for part in text.lower().replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"shape {text!r} is not of the form M,N,K, for example 4096,4096,1024") from None
    return m, n, k


def _record(store: Catalog, found: Sequence[Resolved], document: dict[str, Any]) -> None:
    """Keep each row with its scheme; a built-in scheme or a file is added to the catalog for it."""
    ids = {store.add(item.scheme, item.provenance).id for item in found}
    head = {key: value for key, value in document.items() if key not in ("rows", "skipped")}
    store.record_many((row["id"], {**head, "row": row}) for row in document["rows"] if row["id"] in ids)
