"""Turns what a user writes for a scheme into the scheme.

A reference is a scheme file, a built-in name (``strassen``, ``winograd``, ``classical-2x3x4``), a format (the best
stored scheme of that format) or the id of a stored scheme, or a prefix of it. Several joined by ``*`` mean their
Kronecker product: ``4x4x2*winograd`` multiplies the blocks of a 4x4x2 scheme by Winograd's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog, Provenance
from catalog.transform import kron
from catalog.verify import require_exact
from subcubic.errors import UsageError
from subcubic.version import commit, version

# Digits joined by x: meant as a format, even if it is no valid one. A file of such a name is reached as ./2x2x2.
_FORMAT_LIKE = re.compile(r"-?\d+([xX]-?\d*)+")
_ID_LIKE = re.compile(r"[0-9a-fA-F]+")
_TIMES = "*"  # between the factors of a Kronecker product
# Who found the built-in schemes, and where that is printed.
_ORIGINS = {
    "strassen": {
        "discoverer": "Volker Strassen",
        "citation": "V. Strassen, Gaussian elimination is not optimal, Numerische Mathematik 13 (1969), 354-356",
    },
    "winograd": {
        "discoverer": "Shmuel Winograd",
        "citation": "S. Winograd, On multiplication of 2 x 2 matrices, Linear Algebra and its Applications 4 (1971), "
        "381-388",
    },
}
BUILT_IN = "strassen, winograd, classical-MxKxN"


@dataclass(frozen=True)
class Resolved:
    """A scheme and where it came from.

    Attributes:
        scheme: exact, in the orientation that was asked for.
        id: its id in the catalog, or None when it is not stored.
        origin: one phrase for the echo of what was understood.
        provenance: how it came to be.
    """

    scheme: Scheme
    id: str | None
    origin: str
    provenance: Provenance


def resolve(reference: str, catalog: Catalog, rings: tuple[Ring, ...] = (Ring.Z, Ring.Q, Ring.F2, Ring.F3)) -> Resolved:
    """Find the scheme that a reference means; files are checked exactly first.

    Args:
        reference: see the module.
        catalog: where ids and formats are looked up.
        rings: for a format: which rings may answer.

    Raises:
        UsageError: a format or a built-in name is malformed.
        LookupError: nothing stored fits.
        ValueError: a file holds no exact scheme.
    """
    outer, *inner = factors(reference)
    if inner:
        return product([resolve(factor, catalog, rings) for factor in (outer, *inner)])
    built_in = _built_in(reference)
    if built_in is not None:
        made = provenance("formula", source=f"built-in {reference}", **_ORIGINS.get(reference, {}))
        return Resolved(built_in, None, f"built-in {reference}", made)
    path = Path(reference)
    if _FORMAT_LIKE.fullmatch(reference):
        return _best(parse_format(reference), catalog, rings)
    if path.exists():
        from catalog import formats

        return Resolved(require_exact(formats.read(path)), None, f"file {path}", provenance("file", source=path.name))
    if path.suffix or path.parent.name:
        raise FileNotFoundError(f"there is no file {reference}, and it is no id, format or built-in name")
    if not _ID_LIKE.fullmatch(reference.strip()):
        raise LookupError(
            f"{reference!r} is no file, format, built-in name ({BUILT_IN}) or id; "
            "`subcubic catalog list` has all stored schemes"
        )
    entry = catalog.get(reference)
    return Resolved(entry.scheme, entry.id, f"stored {entry.id[:12]}", entry.provenance)


def factors(reference: str) -> list[str]:
    """The references of the factors of a product, the outermost first; one alone is no product.

    Raises:
        UsageError: a factor is empty.
    """
    found = [reference] if Path(reference).exists() else reference.split(_TIMES)
    if len(found) > 1 and not all(found):
        raise UsageError(f"{reference} has an empty factor; write two or more schemes, for example 4x4x2*winograd")
    return found


def product(found: Sequence[Resolved]) -> Resolved:
    """The Kronecker product of schemes, the outermost first; exact because they are.

    Raises:
        ValueError: schemes over different rings.
    """
    made = provenance("Kronecker product", parents=tuple(digest(factor.scheme) for factor in found))
    return Resolved(
        reduce(kron, (factor.scheme for factor in found)),
        None,
        f" {_TIMES} ".join(factor.origin for factor in found),
        made,
    )


def provenance(method: str, **fields: Any) -> Provenance:
    """The provenance of a scheme that enters the catalog now, by this version of the program."""
    return Provenance(method=method, version=version(), commit=commit(), **fields)


def parse_format(text: str) -> Format:
    """``Format.parse`` whose failure is a usage error."""
    try:
        return Format.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def format_of(text: str | None, m: int | None, n: int | None, k: int | None) -> Format:
    """The format from ``3x4x5`` or from the BLAS letters by name.

    Raises:
        UsageError: neither or both are given, or a size is missing or out of range.
    """
    letters = (m, k, n)
    if text is not None:
        if any(size is not None for size in letters):
            raise UsageError("give the format either as MxKxN or by --m --n --k, not both")
        return parse_format(text)
    if any(size is None for size in letters):
        raise UsageError("give a format such as 3x4x5, or all of --m --n --k")
    return parse_format("x".join(str(size) for size in letters))


def _built_in(name: str) -> Scheme | None:
    if name == "strassen":
        return strassen()
    if name == "winograd":
        return winograd()
    if name.startswith("classical-"):
        return classical(parse_format(name.removeprefix("classical-")))
    return None


def _best(format: Format, catalog: Catalog, rings: tuple[Ring, ...]) -> Resolved:
    """The best stored scheme of a format (see ``Row.merit``), over Z or Q if there is one, turned to that format."""
    from catalog.transform import orient

    candidates = [row for row in catalog.rows(format=format) if row.ring in rings]
    if not candidates:
        names = ", ".join(rings)
        raise LookupError(
            f"the catalog has no {format} scheme over {names}; run `subcubic search {format}` or name a built-in "
            f"({BUILT_IN})"
        )
    # A rank counts only beside its ring: one over F2 says nothing about real matrices, so it comes last.
    row = min(candidates, key=lambda row: (row.ring in (Ring.F2, Ring.F3), *row.merit))
    entry = catalog.get(row.id)
    origin = f"best stored {format}: {entry.id[:12]}"
    if entry.scheme.format == format:
        return Resolved(entry.scheme, entry.id, origin, entry.provenance)
    # Who found it stays true of the turned one.
    kept = {name: getattr(entry.provenance, name) for name in ("source", "discoverer", "citation", "licence")}
    made = provenance("role permutation", parents=(entry.id,), **kept)
    origin = f"{origin}, turned from {entry.scheme.format} by role permutation"
    return Resolved(orient(entry.scheme, format), None, origin, made)
