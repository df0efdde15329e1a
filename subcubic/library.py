"""The library face, ``from subcubic import matmul, pack``: the dispatch with this project's schemes and results."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from codegen.plan import Plan
from evaluate.choice import measured
from evaluate.decision import Row
from evaluate.dispatch import Dispatcher
from subcubic.version import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def plan_of(reference: str, levels: int, orbit: str) -> Plan:
    """The plan of a built-in scheme, or of the best one of a format that comes with the project.

    The user's own catalog is left out, so that the same call runs the same kernel for everybody.

    Raises:
        LookupError: there is none, or the member of its orbit would have to be searched.
        ValueError: the reference is no scheme over Z or Q.
    """
    from catalog.scheme import Ring
    from catalog.store import Catalog
    from catalog.transform import kron
    from codegen.plan import plan
    from subcubic.kept_members import cheapest_member, kept_path
    from subcubic.reference import factors, resolve
    from subcubic.starter import shipped

    shelf = Catalog(shipped())
    outer, *inner = (resolve(one, shelf, (Ring.Z, Ring.Q)).scheme for one in factors(reference))
    if orbit:  # of a product the outermost factor is turned
        if not kept_path(outer, orbit).exists():
            raise LookupError(f"{reference} turned for {orbit} is not kept; run python -m subcubic.members")
        outer = cheapest_member(outer, orbit)
    return plan(functools.reduce(kron, inner, outer), levels)


@functools.cache
def rows_of(device: str, paths: Sequence[str]) -> Sequence[Row]:
    """What this project has measured on such a device; nothing where its results were not installed with it."""
    try:
        return measured(RESULTS, device, paths)
    except ValueError:  # somebody's file in that folder must not stop a product
        return []


_dispatcher = Dispatcher(plan_of, rows_of)
matmul, pack = _dispatcher.matmul, _dispatcher.pack
