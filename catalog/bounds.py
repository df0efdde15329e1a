"""Best known ranks and lower bounds, per ring: facts from the literature, gathered in ``best_known.csv``.

The table has the 680 formats with sizes 2..16. Per format: the smallest rank of a published scheme over F2, over Z
with coefficients in {-1, 0, 1} (ZT), over Z and over Q, each column closed under concatenation, Kronecker product and
projection (source D where that beats what is published; a Z scheme counts over F2, source Z). State of August 2026.
Formats with a size of 1 need exactly mkn products. Ranks do not depend on the order of the three sizes.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from catalog.scheme import Format, Ring

SOURCES = {
    "AE": "AlphaEvolve, Novikov et al. 2025 (arXiv 2506.13131)",
    "AIH": "Arai, Ichikawa, Hukushima 2023 (arXiv 2312.16960)",
    "AR": "collection of schemes with few additions (fmm_add_reduction), 2025",
    "AT": "AlphaTensor, Fawzi et al. 2022 (Nature 610)",
    "D": "derived from other entries by concatenation, product or projection",
    "FMM": "catalogue of fast matrix multiplication algorithms, Sedoglavic (fmm.univ-lille.fr)",
    "KM": "Kauers, Moosbauer 2022 (arXiv 2212.01175)",
    "KW": "Kauers, Wood 2025 (arXiv 2505.05896, 2510.19787)",
    "MMC": "matrix multiplication catalogue of solven-eu, 2026",
    "MP": "Moosbauer, Poole 2025 (arXiv 2502.04514)",
    "P": "Perminov 2025-26, collection of schemes (FastMatrixMultiplication)",
    "PA": "Perminov 2025, fewer additions (arXiv 2512.13365, 2512.21980)",
    "PM": "Perminov 2025-26, ternary meta flip graphs (arXiv 2511.20317, 2603.02398)",
    "PS": "Perminov 2026, serendipitous products (arXiv 2606.02480)",
    "PZ2": "Perminov 2025-26, schemes over F2",
    "SLS": "Strassen 1969, Laderman 1976, Smirnov 2013",
    "ST": "Stapleton 2025 (arXiv 2508.03857)",
    "Z": "reduction modulo 2 of a scheme over Z",
}

# Exact ranks and lower bounds that beat the general formulas below, by sorted format.
# Every field: Alekseyev 1985 (2x2x3), Alekseev and Smirnov 2013 (2x2x4).
_EVERY_FIELD = {(2, 2, 3): 11, (2, 2, 4): 14}
# F2, hence Z too: Hopcroft and Kerr 1971 (2x3x3; 2x2xn in closed form below), Wang 2026 (arXiv 2603.07280).
_F2 = {(2, 3, 3): 15, (2, 3, 4): 19, (3, 3, 3): 20, (3, 3, 4): 25, (3, 4, 4): 29}


class Known(NamedTuple):
    """The smallest published rank of a format over one ring, and keys of ``SOURCES`` that have it."""

    rank: int
    sources: tuple[str, ...]


def best_known(format: Format, ring: Ring, *, ternary: bool = False) -> int | None:
    """The smallest published rank of a format, or None beyond the table.

    Args:
        format: sizes in any order.
        ring: over F3 the value for Z is given, which is an upper bound only.
        ternary: over Z, only schemes with coefficients in {-1, 0, 1}.
    """
    known = best_known_source(format, ring, ternary=ternary)
    return None if known is None else known.rank


def best_known_source(format: Format, ring: Ring, *, ternary: bool = False) -> Known | None:
    """As ``best_known``, with the sources."""
    if min(format) == 1:
        return Known(format.volume, ())
    column = {Ring.F2: "F2", Ring.Q: "Q"}.get(ring, "ZT" if ternary and ring is Ring.Z else "Z")
    return _table().get((str(format.sorted), column))


def lower_bound(format: Format, ring: Ring) -> int:
    """A proved lower bound for the rank of a format over a ring, sizes in any order.

    The largest of: the three matrix sizes; the exact and computer-proved values; Blaser 1999, lm+mn+l-m+n-3 for
    n >= l >= 2; Blaser 2003 (J. Complexity 19), 2mn+2n-m-2 for n x m times m x n with m >= n >= 3; Hopcroft and Kerr
    1971, ceil(7n/2) for 2x2xn over F2; and all of these for smaller formats, since deleting rows or columns never
    raises a rank. What holds over F2 holds over Z, which maps onto it.
    """
    small, middle, large = format.sorted
    if small == 1:
        return format.volume
    return max(
        _own_bound((a, b, c), ring)
        for a in range(2, small + 1)
        for b in range(a, middle + 1)
        for c in range(b, large + 1)
    )


def check_target(format: Format, ring: Ring, target: int) -> int:
    """Return a target rank that is not known to be out of reach.

    Raises:
        ValueError: it is not positive, or a lower bound excludes it.
    """
    if target < 1:
        raise ValueError(f"target rank {target} must be at least 1")
    bound = lower_bound(format, ring)
    if target < bound:
        raise ValueError(
            f"impossible: no {format} scheme over {ring} has rank {target}; the proved lower bound is {bound}"
        )
    return target


@lru_cache(maxsize=4096)
def _own_bound(sizes: tuple[int, int, int], ring: Ring) -> int:
    a, b, c = sizes
    bounds = [b * c, _EVERY_FIELD.get(sizes, 0)]
    for m, rest in ((a, (b, c)), (b, (a, c)), (c, (a, b))):
        low, high = rest
        bounds.append(low * m + m * high + low - m + high - 3)
        if low == high and m >= low >= 3:
            bounds.append(2 * m * low + 2 * low - m - 2)
    if ring in (Ring.F2, Ring.Z):
        bounds.append(_F2.get(sizes, 0))
        if b == 2:
            bounds.append((7 * c + 1) // 2)
    return max(bounds)


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], Known]:
    table = {}
    text = files("catalog").joinpath("best_known.csv").read_text(encoding="ascii")
    for row in csv.DictReader(text.splitlines()):
        z_source = "ZT_source" if row["Z"] == row["ZT"] else "Q_source"
        columns = {"F2": "F2_source", "ZT": "ZT_source", "Z": z_source, "Q": "Q_source"}
        for column, source in columns.items():
            table[row["format"], column] = Known(int(row[column]), tuple(row[source].split("+")))
    return table
