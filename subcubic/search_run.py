"""Carries out a search: consumes its events, proves and stores what it yields, keeps its run folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.bounds import best_known
from catalog.provenance import Provenance
from catalog.scheme import Format, Scheme
from catalog.store import Catalog
from catalog.transform import orient
from search.events import Checkpoint, Done, Found, Notice, Progress, Started
from search.executors import cores
from search.find import find
from search.query import GAMES, Query
from subcubic.byproducts import Byproducts
from subcubic.interrupts import interruptible
from subcubic.options import scheme_ring
from subcubic.output import note
from subcubic.progress import Display
from subcubic.reference import provenance
from subcubic.runs import Run

# Below the target a scheme is stored when it has been the best for this long, so that a short search leaves one.
_SETTLE_S = 1.0
# At the target rank schemes are stored in batches of what was found within this time.
_BATCH_S = 0.25
_LOG_S = 1.0


@dataclass
class Outcome:
    """What a search came to, as ``search --json`` reports it."""

    status: str = "budget"
    rank: int | None = None
    id: str | None = None
    ids: list[str] = field(default_factory=list)
    seconds: float = 0.0
    compile_seconds: float = 0.0
    steps: int = 0
    flips: int = 0
    walk_rank: int | None = None
    walk_ring: str | None = None
    lift_failures: int = 0
    lifts_given_up: int = 0
    by_products: list[str] = field(default_factory=list)


def carry_out(
    query: Query,
    catalog: Catalog,
    run: Run,
    starts: Sequence[Scheme] = (),
    parents: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> Outcome:
    """Search, from the run's checkpoint when it has one, until the query is met, its limit or an interrupt.

    Every scheme is checked exactly by the catalog before it is stored. The first Ctrl-C (or SIGTERM, or
    ``runs stop``) ends the search at its next block and saves its state, the second one at once; while the walks are
    being compiled the first one ends it at once.

    Raises:
        ValueError: the query makes no sense or the checkpoint is of another search.
        OSError: the catalog or the run folder cannot be written.
    """
    with run.only_here():
        return _carry_out(query, catalog, run, starts, parents, quiet)


def _carry_out(
    query: Query, catalog: Catalog, run: Run, starts: Sequence[Scheme], parents: Sequence[str], quiet: bool
) -> Outcome:
    outcome, shelf = Outcome(), _Shelf(query, catalog, run, parents)
    # A resumed search may find nothing new; what it had found before is its result all the same.
    earlier = run.status()
    shelf.best, stored = earlier.get("rank"), earlier.get("id") is not None
    run.clear_stop()
    run.write_status(status="running", rank=shelf.best, id=earlier.get("id"))
    logged = 0.0
    with (
        interruptible("block", at_work=False) as interrupted,
        Display(str(query.format), query.target, quiet) as display,
    ):
        try:
            state = run.checkpoint()
            at = sum(int(state[name]) for name in ("steps", "z_steps") if state is not None and name in state)
            for event in find(query, starts, state, lambda: bool(interrupted) or run.asked_to_stop()):
                if isinstance(event, Found):
                    # A resumed search first says where it stands, which the run has stored already; unless that counts
                    # among the schemes to keep, and the first one to arrive here is new.
                    again = stored and event.steps <= at
                    if not (again and shelf.best is not None and event.rank >= shelf.best):
                        shelf.offer(event)
                    stored = False
                elif isinstance(event, Progress):
                    shelf.settle(event.seconds)
                    display.update(event, shelf.best)
                    if time.monotonic() - logged >= _LOG_S:
                        logged = time.monotonic()
                        run.log(
                            seconds=event.seconds,
                            rank=shelf.best,
                            walk_rank=event.rank,
                            steps=event.steps,
                            per_second=event.per_second,
                            since_improvement_s=event.since_improvement_s,
                        )
                        last = shelf.ids[-1] if shelf.ids else earlier.get("id")
                        run.write_status(status="running", rank=shelf.best, seconds=event.seconds, id=last)
                elif isinstance(event, Checkpoint):
                    shelf.flush(everything=True)
                    run.write_checkpoint(event.state)
                elif isinstance(event, Done):
                    outcome.status, outcome.steps, outcome.flips = event.status, event.steps, event.flips
                    outcome.seconds = event.seconds
                    outcome.walk_rank, outcome.walk_ring = event.walk_rank, event.walk_ring
                    outcome.lift_failures, outcome.lifts_given_up = event.failures, event.given_up
                elif isinstance(event, Notice):
                    display.say(event.text)
                    run.log(notice=event.text)
                elif isinstance(event, Started):
                    interrupted.at_work = True
                    outcome.compile_seconds = event.compile_seconds
            shelf.flush(everything=True)
        except BaseException as error:
            # What was found stays found, whatever ended the search; where it cannot be stored the run has failed.
            try:
                shelf.flush(everything=True)
            finally:
                status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                run.write_status(status=status, rank=shelf.best, id=shelf.ids[-1] if shelf.ids else earlier.get("id"))
            raise
    outcome.rank, outcome.ids, outcome.by_products = shelf.best, shelf.ids, shelf.by_products
    outcome.id = shelf.ids[-1] if shelf.ids else earlier.get("id")
    run.write_status(status=outcome.status, rank=outcome.rank, seconds=outcome.seconds, id=outcome.id)
    return outcome


class _Shelf:
    """Brings schemes to the catalog in batches: at the target rank soon, above it once they have settled."""

    def __init__(self, query: Query, catalog: Catalog, run: Run, parents: Sequence[str]) -> None:
        self.query, self.catalog, self.run, self.parents = query, catalog, run, tuple(parents)
        self.best: int | None = None
        self.ids: list[str] = []
        self.waiting: list[Found] = []
        self.smaller, self.by_products = Byproducts(catalog), list[str]()
        self.flushed = time.monotonic()
        rows = catalog.rows(query.format, scheme_ring(query.ring), ternary=query.ring == "ZT", holding=True)
        self.stored = min((row.rank for row in rows), default=None)

    def offer(self, found: Found) -> None:
        if found.scheme.format != self.query.format:
            self.smaller.offer(found)  # lower ranks may follow soon, so it waits for the next checkpoint
            return
        if found.rank >= self.query.format.volume > self.query.target:
            return  # the standard algorithm is no find
        if self.best is not None and found.rank > self.best:
            return
        if self.best is None or found.rank < self.best:
            self.best, self.ids, self.waiting = found.rank, [], []
        if self.stored is not None and found.rank > self.stored:
            return  # the catalog has better ones
        self.waiting.append(found)
        self.settle(found.seconds)

    def settle(self, seconds: float) -> None:
        """Store what has waited long enough, ``seconds`` being the search's present time."""
        if not self.waiting or self.best is None:
            return
        at_target = self.best <= self.query.target
        if at_target and time.monotonic() - self.flushed >= _BATCH_S:
            self.flush()
        elif not at_target and seconds - self.waiting[0].seconds >= _SETTLE_S:
            self.flush()

    def flush(self, *, everything: bool = False) -> None:
        """Store what waits; with ``everything`` also what smaller formats have reached."""
        self.flushed = time.monotonic()
        # What waits is forgotten only once it is stored, so that a failure can be tried again.
        done = self.catalog.add_many((found.scheme, self._made(found)) for found in self.waiting)
        found, self.waiting = self.waiting, []
        for item, added in zip(found, done, strict=True):
            self.ids.append(added.id)
            self.run.log(stored=added.id, rank=item.rank, seconds=item.seconds, status=added.status)
        if everything:
            smaller = self.smaller.worth_storing()
            for item, added in zip(
                smaller, self.catalog.add_many((found.scheme, self._made(found)) for found in smaller), strict=True
            ):
                self.by_products.append(added.id)
                self.run.log(by_product=added.id, format=str(item.scheme.format), rank=item.rank, status=added.status)
            self.smaller.clear()

    def _made(self, found: Found) -> Provenance:
        options: dict[str, Any] = {
            "ring": self.query.ring,
            "target": self.query.target,
            "keep": self.query.keep,
            "steps": self.query.steps,
            "budget_s": self.query.budget_s,
            "searched": str(self.query.format),
            "found_at_step": found.steps,
            "found_in_block": found.block,
            "found_after_s": round(found.seconds, 3),
            "run": self.run.name,
        }
        if self.query.method == "symmetric":
            options["symmetry"] = self.query.symmetry
        if self.query.method == "player":
            options["weights"] = self.query.weights or "shipped"
        if self.query.diagonal is not None:
            options["diagonal"] = self.query.diagonal
        return provenance(self.query.method, seed=self.query.seed, options=options, parents=self.parents)


def target_of(format: Format, ring: str, target: int | None) -> int:
    """The wanted rank, the best known one when none is given, else one less than the standard algorithm's."""
    if target is not None:
        return target
    known = known_rank(format, ring)
    return known if known is not None else max(1, format.volume - 1)


def known_rank(format: Format, ring: str) -> int | None:
    """Best known rank over a ring named as on the command line (``ZT`` is ternary Z)."""
    return best_known(format, scheme_ring(ring), ternary=ring == "ZT")


def parents(catalog: Catalog, references: Sequence[str], format: Format) -> list[Scheme]:
    """The stored schemes that a search is to start from, turned to the format where their sizes allow it."""
    schemes = [catalog.get(reference).scheme for reference in references]
    return [orient(s, format) if s.format.sorted == format.sorted else s for s in schemes]


def echo(query: Query, run: Run, stored: int | None) -> None:
    """Say on stderr what was understood and what is known."""
    limit = f"{query.steps} steps" if query.steps is not None else f"{query.budget_s:g} s"
    known = known_rank(query.format, query.ring)
    workers = ", the workers" if "=" in query.executor else f", {query.workers or cores()} workers"
    where = "" if query.executor == "local" else f" of {query.executor}"
    hands = "" if query.method in GAMES else workers + where
    note(
        f"search {query.format} ({query.format.described}) over {query.ring}: target rank {query.target}, best known "
        f"{'-' if known is None else known}, stored {'-' if stored is None else stored}; method {query.method}, "
        f"limit {limit}, seed {query.seed}{hands}; run {run.name}"
    )
