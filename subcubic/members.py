"""``python -m subcubic.members`` searches the members of orbits that the sets of ``bench`` need and keeps them."""

from __future__ import annotations

import sys

from catalog.formats import write
from catalog.store import Catalog
from subcubic.bench_schemes import Schemes
from subcubic.bench_sets import set_lines
from subcubic.kept_members import cheapest_member, kept_path
from subcubic.output import note
from subcubic.reference import factors
from subcubic.starter import shipped


def main() -> int:
    """Search and keep what is not kept yet."""
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
