"""One line of a catalog listing, and tables of them as numpy compound arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.measures import growth, planes
from catalog.provenance import Provenance
from catalog.scheme import MAX_DIMENSION, Format, Ring, Scheme

_IS_HEX = np.isin(np.arange(256), list(b"0123456789abcdef"))

TABLE = np.dtype(
    [
        ("id", "S64"),
        ("format", "u1", (3,)),
        ("ring", "S2"),
        ("rank", "<u4"),
        ("ternary", "u1"),
        ("additions", "<u4"),
        ("additions_cse", "<u4"),
        ("growth", "<f8"),
        ("planes", "<u4", (2,)),
    ]
)


@dataclass(frozen=True)
class Row:
    """What a listing shows of a scheme.

    Attributes:
        id: digest of the scheme, 64 hexadecimal digits.
        format: sizes m, k, n.
        ring: coefficient ring.
        rank: number of products.
        ternary: over Z with all coefficients in {-1, 0, 1}.
        additions: additions of the formulas as they stand.
        additions_cse: additions after common-subexpression elimination.
        growth: Frobenius growth factor; None over F2 and F3, where there is no rounding.
        planes_a: non-trivial combinations of blocks of A.
        planes_b: non-trivial combinations of blocks of B.
        source: provenance's source.
        method: provenance's method.
        created: provenance's time, ISO 8601 in UTC.
    """

    id: str
    format: Format
    ring: Ring
    rank: int
    ternary: bool
    additions: int
    additions_cse: int
    growth: float | None
    planes_a: int
    planes_b: int
    source: str
    method: str
    created: str

    @property
    def merit(self) -> tuple[int, int, int, str]:
        """Order of schemes of one format and ring, best first: rank, planes of A and B, additions after CSE, id."""
        return self.rank, self.planes_a + self.planes_b, self.additions_cse, self.id

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Listing order: format whatever the order of its roles, ring, rank, age."""
        return self.format.sorted, self.format, self.ring, self.rank, self.created, self.id


def summarise(identity: str, scheme: Scheme, provenance: Provenance) -> Row:
    """The row of a scheme; takes as long as the elimination of its common subexpressions."""
    from catalog.additions import additions_cse, additions_naive

    planes_a, planes_b = planes(scheme)
    return Row(
        id=identity,
        format=scheme.format,
        ring=scheme.ring,
        rank=scheme.rank,
        ternary=scheme.is_ternary,
        additions=additions_naive(scheme),
        additions_cse=additions_cse(scheme),
        growth=None if scheme.ring.modulus else growth(scheme),
        planes_a=planes_a,
        planes_b=planes_b,
        source=provenance.source,
        method=provenance.method,
        created=provenance.created_utc,
    )


def to_table(rows: Sequence[Row]) -> NDArray[Any]:
    """The rows as an array of dtype ``TABLE``, without their texts."""
    return np.array(
        [
            (
                row.id.encode(),
                row.format,
                row.ring.value.encode(),
                row.rank,
                row.ternary,
                row.additions,
                row.additions_cse,
                np.nan if row.growth is None else row.growth,
                (row.planes_a, row.planes_b),
            )
            for row in rows
        ],
        dtype=TABLE,
    )


def require_formats(table: NDArray[Any]) -> None:
    """Refuse sizes that no scheme has.

    Raises:
        ValueError: there are some.
    """
    if len(table) and not 1 <= table["format"].min() <= table["format"].max() <= MAX_DIMENSION:
        raise ValueError(f"a size of a format lies outside of 1..{MAX_DIMENSION}")


def from_table(table: NDArray[Any], texts: Sequence[Sequence[str]]) -> list[Row]:
    """Rows from a table and the (source, method, created) of each.

    Raises:
        ValueError: the two do not belong together or a field is invalid.
    """
    if table.dtype != TABLE:
        raise ValueError("the table of schemes has other columns")
    if not _IS_HEX[np.ascontiguousarray(table["id"]).view(np.uint8)].all():
        raise ValueError("an id is not 64 hexadecimal digits")
    require_formats(table)
    rows = []
    for values, (source, method, created) in zip(table.tolist(), texts, strict=True):
        identity, sizes, ring, rank, ternary, additions, additions_cse, factor, (planes_a, planes_b) = values
        row = Row(
            id=identity.decode(),
            format=Format(*(int(size) for size in sizes)),
            ring=Ring(ring.decode()),
            rank=rank,
            ternary=bool(ternary),
            additions=additions,
            additions_cse=additions_cse,
            growth=None if factor != factor else factor,
            planes_a=int(planes_a),
            planes_b=int(planes_b),
            source=source,
            method=method,
            created=created,
        )
        rows.append(row)
    return rows
