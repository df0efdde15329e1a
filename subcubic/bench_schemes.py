"""The schemes that ``subcubic bench`` measures: each found once, planned once a level, recorded at the end."""

from __future__ import annotations

from typing import Any

from catalog.scheme import Ring
from catalog.store import Catalog
from codegen.plan import Plan
from subcubic.output import note
from subcubic.reference import Resolved, resolve


class Schemes:
    """References, as they are met, with their plans.

    Args:
        store: where ids and formats are looked up, and rows are recorded.
    """

    def __init__(self, store: Catalog) -> None:
        self.store = store
        self.found: dict[str, Resolved] = {}
        self.plans: dict[tuple[str, int], Plan] = {}

    def plan(self, reference: str, levels: int) -> tuple[Plan, dict[str, Any]]:
        """A plan, and the keys that its rows have beyond those of every row.

        Raises:
            As ``subcubic.reference.resolve`` and ``codegen.plan.plan``.
        """
        from codegen.plan import plan

        scheme = self.resolved(reference).scheme
        key = (reference, levels)
        if key not in self.plans:
            self.plans[key] = plan(scheme, levels)
        return self.plans[key], {"reference": reference}

    def resolved(self, reference: str) -> Resolved:
        """What a reference means; said on stderr when it is first met."""
        if reference not in self.found:
            item = resolve(reference, self.store, (Ring.Z, Ring.Q))
            self.found[reference] = item
            scheme = item.scheme
            note(f"bench {item.origin}: {scheme.format.described}, rank {scheme.rank} over {scheme.ring}")
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
