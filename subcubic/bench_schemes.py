"""The schemes that ``subcubic bench`` measures: each found once, planned once a level, recorded at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from catalog.scheme import Ring, Scheme
from catalog.store import Catalog
from catalog.transform import kron
from codegen.plan import Plan
from subcubic.errors import UsageError
from subcubic.kept_members import cheapest_member
from subcubic.output import note
from subcubic.reference import Resolved, factors, resolve

if TYPE_CHECKING:
    from evaluate.device import DeviceInfo
    from evaluate.variants import Wanted


class Schemes:
    """References, as they are met, with their plans.

    Args:
        store: where ids and formats are looked up, and rows are recorded.
        verb: that asks for them.
    """

    def __init__(self, store: Catalog, verb: str = "bench") -> None:
        self.store = store
        self.verb = verb
        self.found: dict[str, Resolved] = {}
        self.turned: dict[tuple[str, str], Scheme] = {}
        self.plans: dict[tuple[str, int, str], Plan] = {}

    def plan(self, reference: str, levels: int, orbit: str = "") -> tuple[Plan, dict[str, Any]]:
        """A plan, and the keys that its rows have beyond those of every row.

        Args:
            reference: see ``subcubic.reference``.
            levels: of recursion.
            orbit: one of ``evaluate.variants.OPERANDS`` to plan the member of the scheme's orbit that is cheapest when
                a launch is given these; "" for the scheme as it is.

        Raises:
            As ``subcubic.reference.resolve`` and ``codegen.plan.plan``.
        """
        from codegen.plan import plan

        key = (reference, levels, orbit)
        if key not in self.plans:
            scheme = self.resolved(reference).scheme
            self.plans[key] = plan(self._member(reference, scheme, orbit) if orbit else scheme, levels)
        return self.plans[key], {"reference": reference, **({"orbit": orbit} if orbit else {})}

    def _member(self, reference: str, scheme: Scheme, orbit: str) -> Scheme:
        """The cheapest member of an orbit, which is searched once for all levels; of a product's outermost factor."""
        if (reference, orbit) not in self.turned:
            outer, *inner = factors(reference)
            if inner:
                scheme = self.resolved(outer).scheme
            member = cheapest_member(scheme, orbit)
            self.turned[reference, orbit] = reduce(kron, (self.resolved(one).scheme for one in inner), member)
        return self.turned[reference, orbit]

    def resolved(self, reference: str) -> Resolved:
        """What a reference means; said on stderr when it is first met."""
        if reference not in self.found:
            item = resolve(reference, self.store, (Ring.Z, Ring.Q))
            self.found[reference] = item
            scheme = item.scheme
            note(f"{self.verb} {item.origin}: {scheme.format.described}, rank {scheme.rank} over {scheme.ring}")
        return self.found[reference]

    def record(self, document: dict[str, Any]) -> None:
        """Keep each row with its scheme; a built-in scheme or a file is added to the catalog for it.

        The document is printed and saved by then, so a catalog that cannot be written costs a note and not the
        results.
        """
        try:
            added = self.store.add_many((item.scheme, item.provenance) for item in self.found.values())
            ids = {item.id for item in added}
            for item in added:
                if item.status == "new":
                    note(f"stored {item.id[:12]} in the catalog, with its measurements")
            head = {key: value for key, value in document.items() if key not in ("rows", "skipped")}
            rows = (row for row in document["rows"] if row["id"] in ids)
            self.store.record_many((row["id"], {**head, "row": row}) for row in rows)
        except OSError as error:
            note(f"subcubic: the results are not in the catalog: {error}")


def planned(
    known: Schemes, schemes: Sequence[str], levels: Sequence[int] | None, orbit: str
) -> list[tuple[Plan, dict[str, Any]]]:
    """A plan for each scheme and level, with its keys; by default one and two levels, the second where it can be.

    Args:
        known: where the schemes are found.
        schemes: references.
        levels: of recursion; None for the default.
        orbit: as of ``Schemes.plan``.

    Raises:
        As ``Schemes.plan``.
    """
    for reference in schemes:
        known.resolved(reference)
    plans = []
    for reference in schemes:
        for level in levels or [1, 2]:
            try:
                plans.append(known.plan(reference, level, orbit))
            except ValueError as error:
                if levels or level == 1:
                    raise
                note(f"two levels left out: {error}")
    return plans


def measurable(
    plans: Sequence[tuple[Plan, dict[str, Any]]], dtypes: Sequence[str], wanted: Wanted, gpu: DeviceInfo | None
) -> list[tuple[Plan, dict[str, Any]]]:
    """The plans with something to measure; what is too large for a fused kernel or slow to compile is said on stderr.

    Raises:
        UsageError: that leaves nothing.
    """
    from codegen.limits import SLOW_PRODUCTS
    from evaluate.variants import left_out, variants

    slow = SLOW_PRODUCTS["triton" if wanted.path == "triton" else "fused"]
    found, reasons = [], []
    for plan, facts in plans:
        reason = left_out(plan, dtypes, wanted, gpu)
        if reason:
            reasons.append(reason)
        elif gpu and wanted.path != "cublas" and plan.rank > slow:
            note(f"{plan.rank} products: compiling this kernel will take a minute or more")
        if not reason or (wanted.path == "auto" and variants(plan, dtypes, wanted, gpu)):
            found.append((plan, facts))
    if reasons and not found:
        raise UsageError(reasons[0])
    for reason in reasons:
        note(f"left out: {reason}")
    return found
