"""Cheapest members of orbits, kept in benchmarks/schemes so that a lent GPU does not wait for their search.

``python -m subcubic.members`` searches those that the sets of ``subcubic bench`` need and that are not kept yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

from catalog.canonical import digest
from catalog.scheme import Scheme
from subcubic.output import note
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


def main() -> int:
    """Search and keep what the sets need."""
    from catalog.formats import write
    from catalog.store import Catalog
    from subcubic.bench_schemes import Schemes
    from subcubic.bench_sets import set_lines
    from subcubic.reference import factors
    from subcubic.starter import shipped

    known = Schemes(Catalog(shipped()))
    turned = ((factors(one.scheme)[0], one.operands) for one in set_lines("hopper") if one.turned)
    for reference, operands in dict.fromkeys(turned):
        scheme = known.resolved(reference).scheme
        path = kept_path(scheme, operands)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            note(f"kept {write(cheapest_member(scheme, operands), path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
