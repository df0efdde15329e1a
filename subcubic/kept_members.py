"""Cheapest members of orbits, kept in benchmarks/schemes so that a lent GPU does not wait for their search."""

from __future__ import annotations

from pathlib import Path

from catalog.canonical import digest
from catalog.scheme import Scheme
from subcubic.version import ROOT

FOLDER = ROOT / "benchmarks" / "schemes"


def cheapest_member(scheme: Scheme, operands: str, folder: Path = FOLDER) -> Scheme:
    """The member of a scheme's orbit that is cheapest for a fused kernel: the kept one, else a search for it.

    Args:
        scheme: over Z or Q.
        operands: what a launch is given, one of ``evaluate.variants.OPERANDS``; given planes cost nothing.
        folder: where members are kept.

    Raises:
        ValueError: a kept file is damaged, or of another format or rank.
        catalog.verify.NotExactError: the scheme or the kept one violates a Brent equation.
    """
    from catalog.formats import read
    from catalog.verify import require_exact
    from codegen.orbit import CONSTANT_B, Objective, cheapest

    path = kept_path(scheme, operands, folder)
    if path.exists():
        kept = require_exact(read(path))
        if (kept.format, kept.rank) != (scheme.format, scheme.rank):
            raise ValueError(f"{path} holds a {kept.format}:{kept.rank} scheme; remove it to search the orbit again")
        return kept
    objectives = {"variable": Objective(), "b_constant": CONSTANT_B, "planes_given": Objective(a=0.0, b=0.0)}
    return cheapest(scheme, objectives[operands]).scheme


def kept_path(scheme: Scheme, operands: str, folder: Path = FOLDER) -> Path:
    """Where a member is kept."""
    return folder / f"{scheme.format}-{scheme.rank}-{digest(scheme)[:12]}-{operands}.json"
