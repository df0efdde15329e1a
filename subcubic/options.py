"""Arguments and options that several verbs share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from catalog.scheme import Ring
from catalog.shards import Generator
from catalog.store import Catalog
from subcubic import starter
from subcubic.errors import UsageError
from subcubic.output import note
from subcubic.version import commit, version

CatalogPath = Annotated[
    Path | None, typer.Option("--catalog", envvar="SUBCUBIC_CATALOG", help="Folder of the catalog in use.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Reference = Annotated[
    str, typer.Argument(metavar="SCHEME", help="An id or its prefix, a format such as 3x4x5, a built-in name, a file.")
]
RingOption = Annotated[str | None, typer.Option(help="F2, F3, ZT (ternary), Z or Q.")]
ExecutorOption = Annotated[
    str, typer.Option(help="Where walks run: local, dask for processes here, or dask=tcp://HOST:PORT for a scheduler.")
]
RINGS = ("F2", "F3", "ZT", "Z", "Q")
MOST = (1 << 63) - 1  # of any count; kernels and files hold 64 bits
MOST_SIZE = 1 << 20  # of M = N = K: such matrices of 16 bits have 2 TiB
MOST_SEEDS = 10**6
_LONGEST = 24  # digits that a sentence shows


def ring_named(text: str) -> str:
    """A ring as it is named on the command line; ``ZT`` is Z with coefficients in {-1, 0, 1}.

    Raises:
        UsageError: there is no such ring.
    """
    if text.upper() not in RINGS:
        raise UsageError(f"unknown ring {text!r}; choose one of {', '.join(RINGS)}")
    return text.upper()


def scheme_ring(name: str) -> Ring:
    """The ring that schemes over a ring named as on the command line have."""
    return Ring.Z if name == "ZT" else Ring(name)


def at_least(least: int, name: str, value: int | None, most: int = MOST) -> int | None:
    """The value of option ``--name``.

    Raises:
        UsageError: it is below ``least`` or above ``most``.
    """
    if value is not None and value < least:
        raise UsageError(f"--{name} {shown(value)} must be at least {least}")
    if value is not None and value > most:
        raise UsageError(f"--{name} {shown(value)} must be at most {most}")
    return value


def checked_levels(levels: int) -> int:
    """Levels of recursion.

    Raises:
        UsageError: below 1, or more than any scheme can be planned for.
    """
    from codegen.plan import MAX_LEVELS

    at_least(1, "levels", levels, MAX_LEVELS)
    return levels


def checked_epilogue(text: str, target: str) -> str:
    """The steps of an epilogue as its emitters take them.

    Args:
        text: names joined by commas.
        target: that is written.

    Raises:
        UsageError: a target without epilogues, no step, or one that there is not.
    """
    from codegen.emit import FINISHING
    from codegen.epilogue import STEPS, Epilogue

    if target not in FINISHING:
        raise UsageError(f"--epilogue needs --to {' or '.join(FINISHING)}; apply the steps to the result of {target}")
    try:
        steps = Epilogue.parse(text)
    except ValueError as error:
        raise UsageError(f"--epilogue {text}: {error}") from None
    if not steps:
        raise UsageError(f"--epilogue names no step; choose from {', '.join(STEPS)}, or leave it out")
    return str(steps)


def shown(value: int) -> str:
    """A number for a sentence: of a long one how it begins."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:8]}... ({len(text)} digits)"


def writable_catalog(path: Path | None) -> Catalog:
    """The catalog in use, whose new files name this version and commit."""
    catalog = Catalog(path, Generator(version=version(), commit=commit()))
    starter.seed(catalog)
    return catalog


def existing_catalog(path: Path | None) -> Catalog:
    """The catalog in use, for reading; says on stderr when there is none yet, and which of its files are damaged."""
    catalog = Catalog(path)
    starter.seed(catalog)
    if not catalog.is_made and (catalog.path.is_dir() or not catalog.path.exists()):
        note(
            f"there is no catalog at {catalog.path} yet; the first search makes it, or `subcubic catalog merge starter`"
        )
    for damage in catalog.damaged():
        note(f"subcubic: left out: {damage}")
    return catalog


class Group(StrEnum):
    """What symmetric walks keep invariant."""

    Z3 = "Z3"
    Z3T = "Z3T"
    Z3A = "Z3A"


SymmetryOption = Annotated[
    Group,
    typer.Option(help="Symmetric walk: cyclic shift, with transpose, or with transpose across the other diagonal."),
]


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


class Layout(StrEnum):
    """How A is stored, then B: n as it is, rows contiguous; t transposed, columns contiguous."""

    NN = "nn"
    NT = "nt"
    TN = "tn"
    TT = "tt"


class ProductDtype(StrEnum):
    """Type in which the block products are kept before they are added up."""

    FP32 = "fp32"
    INPUT = "input"
