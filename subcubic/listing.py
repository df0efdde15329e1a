"""What a listing and ``show`` say of schemes, as JSON and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.bounds import best_known
from catalog.scheme import Scheme
from catalog.store import Row
from subcubic.output import cell, table
from subcubic.reference import Resolved


def row_json(row: Row, speed: float | None = None) -> dict[str, Any]:
    """A listed scheme as scripts read it; publications and speed are null until they are known."""
    return {
        "id": row.id,
        "format": str(row.format),
        "ring": row.ring.value,
        "rank": row.rank,
        "best_known": best_known(row.format, row.ring, ternary=row.ternary),
        "gap": gap(row),
        "ternary": row.ternary,
        "additions": row.additions,
        "additions_cse": row.additions_cse,
        "growth": row.growth,
        "planes_a": row.planes_a,
        "planes_b": row.planes_b,
        "publications": None,
        "speed": speed,
        "source": row.source,
        "method": row.method,
    }


def gap(row: Row) -> int | None:
    """How far a rank lies above the best known one, None where none is known."""
    known = best_known(row.format, row.ring, ternary=row.ternary)
    return None if known is None else row.rank - known


def facts_of(found: Resolved) -> dict[str, Any]:
    """The facts about a scheme that ``show`` prints and returns."""
    from catalog.additions import additions_cse, additions_naive
    from catalog.canonical import digest
    from catalog.measures import exponent, growth, planes, stability

    scheme = found.scheme
    planes_a, planes_b = planes(scheme)
    return {
        "id": digest(scheme),
        "format": str(scheme.format),
        "product": scheme.format.described,
        "ring": scheme.ring.value,
        "rank": scheme.rank,
        "best_known": best_known(scheme.format, scheme.ring, ternary=scheme.is_ternary),
        "exponent": round(exponent(scheme), 6),
        "ternary": scheme.is_ternary,
        "additions": additions_naive(scheme),
        "additions_cse": additions_cse(scheme),
        "planes_a": planes_a,
        "planes_b": planes_b,
        "publications": None,
        # Over a finite ring nothing is rounded.
        "growth": None if scheme.ring.modulus else growth(scheme),
        "stability": None if scheme.ring.modulus else stability(scheme),
        "origin": found.origin,
        "method": found.provenance.method,
        "source": found.provenance.source or None,
        "discoverer": found.provenance.discoverer or None,
        "citation": found.provenance.citation or None,
        "licence": found.provenance.licence or None,
        "seed": found.provenance.seed,
        "commit": found.provenance.commit,
        "created_utc": found.provenance.created_utc,
        "parents": list(found.provenance.parents),
    }


def fact_text(value: Any) -> str:
    """A fact as text for people."""
    return cell(", ".join(value) or None if isinstance(value, list) else value)


def factor_text(scheme: Scheme) -> str:
    """U, V and W in full: NumPy would leave out the middle of large ones, and says nothing of a denominator."""
    blocks = []
    for name, denominator in zip("UVW", scheme.denominators, strict=True):
        rows = [[str(entry) for entry in row] for row in getattr(scheme, name).tolist()]
        width = max(len(entry) for row in rows for entry in row)
        head = name if denominator == 1 else f"{denominator} {name}"
        blocks.append("\n".join([f"{head} =", *(" ".join(entry.rjust(width) for entry in row) for row in rows)]))
    return "\n\n".join(blocks)


def by_format(rows: Sequence[Row]) -> list[Row]:
    """Rows by format whatever the order of its sizes, then ring, then best first."""
    return sorted(rows, key=lambda row: (row.format.sorted, row.ring.value, *row.merit))


def listing(rows: Sequence[Row], speeds: Mapping[str, float]) -> str:
    """The rows as a table for people, with measured ratios to the vendor's GEMM by id."""
    lines = []
    for row in rows:
        known = best_known(row.format, row.ring, ternary=row.ternary)
        lines.append(
            (
                row.id[:12],
                row.format,
                row.ring,
                row.rank,
                known,
                gap(row),
                row.ternary,
                row.additions,
                row.additions_cse,
                row.planes_a,
                row.planes_b,
                row.growth,
                speeds.get(row.id),
                row.method,
            )
        )
    heads = (
        "id",
        "format",
        "ring",
        "rank",
        "known",
        "gap",
        "ternary",
        "adds",
        "cse",
        "planesA",
        "planesB",
        "growth",
        "speed",
        "method",
    )
    return table(heads, lines)
