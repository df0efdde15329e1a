"""``subcubic bench``: speed and error of a scheme against the vendor's GEMM, on the GPU or on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.scheme import Ring
from catalog.store import Catalog
from subcubic.catalog_verbs import CatalogPath, Json, Reference
from subcubic.errors import UsageError, guarded
from subcubic.export_verb import Dtype, ProductDtype
from subcubic.output import note, print_json
from subcubic.reference import Resolved, resolve
from subcubic.search_verb import Device
from subcubic.version import commit

QUICK_SIZES = {"gpu": [4096], "cpu": [1024]}


@guarded
def bench(
    scheme: Annotated[list[str], Reference.__metadata__[0]],  # type: ignore[attr-defined]
    size: Annotated[list[int] | None, typer.Option(help="M = N = K; may be given several times.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="M,N,K in BLAS letters; may be given several times.")] = None,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="Element types; may be given several times.")] = None,
    levels: Annotated[list[int] | None, typer.Option(help="Levels of recursion; may be given several times.")] = None,
    product_dtype: Annotated[
        ProductDtype, typer.Option(help="16-bit types: storage of products.")
    ] = ProductDtype.INPUT,
    device: Annotated[Device, typer.Option(help="A GPU where there is one, or by name.")] = Device.AUTO,
    pairs: Annotated[int, typer.Option(min=1, help="Interleaved pairs of timings.")] = 30,
    regime: Annotated[str, typer.Option(help="burst (idle gaps) or steady (settled clocks).")] = "burst",
    distribution: Annotated[str, typer.Option(help="Of the random inputs.")] = "normal",
    seed: Annotated[int, typer.Option(min=0, help="Of the random inputs.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small default that takes seconds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to save the document to.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Measure schemes against the vendor's GEMM of the same precision, interleaved, with errors against FP64."""
