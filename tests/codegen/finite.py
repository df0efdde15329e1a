"""Plans over finite rings, and a provenance that no comment survives unless it is made safe."""

from catalog.known import classical, winograd
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from codegen.plan import Plan, plan

HOSTILE = Provenance(
    method="flips",
    seed=3,
    parents=("ab" * 32,),
    source="https://example.org/a_b?x=1&y={2}",
    discoverer='Ana "A" Müller; B. {C} & D_E',
    citation='50% of #1\n*/ int x; /* --> """ $x$ | <b> ~^ arXiv:2212.01175, 2022 SCHEME SCHEME_ @misc{x} \\',
    licence="CC BY 4.0\\",
)


def finite() -> dict[str, Plan]:
    return {
        "winograd over F2": plan(winograd(Ring.F2), any_ring=True),
        "winograd over F3": plan(winograd(Ring.F3), levels=2, any_ring=True),
        "classical over F2": plan(classical(Format(2, 3, 4), Ring.F2), any_ring=True),
    }


def hostile() -> Plan:
    return plan(winograd(), provenance=HOSTILE)
