"""Arguments and options that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from catalog.scheme import Ring

CatalogPath = Annotated[
    Path | None, typer.Option("--catalog", envvar="SUBCUBIC_CATALOG", help="Folder of the catalog in use.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Reference = Annotated[
    str, typer.Argument(metavar="SCHEME", help="An id or its prefix, a format such as 3x4x5, a built-in name, a file.")
]
RingOption = Annotated[Ring | None, typer.Option(help="Coefficient ring.", case_sensitive=False)]


class Device(StrEnum):
    """Where to compute."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class Dtype(StrEnum):
    """Element types of A, B and C."""

    FP16 = "fp16"
    BF16 = "bf16"
    FP32 = "fp32"
    FP64 = "fp64"


class ProductDtype(StrEnum):
    """Type in which the block products are kept before they are added up."""

    FP32 = "fp32"
    INPUT = "input"
