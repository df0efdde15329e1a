"""From the ring of the walks to the wanted one: which schemes of a search are carried over, and when.

What is over the wanted ring already, or over Z, is passed on at once. Of the rest one scheme at a time waits for its
lift: most of those above the target are soon beaten, and lifting one can take as long as finding the next.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from catalog.canonical import digest
from catalog.scheme import Scheme
from search.checkpoint import State
from search.events import Checkpoint, Done, Event, Found, Notice, Progress, Started
from search.lifts.conversion import carry_over, needs_lift
from search.query import Query

# Name under which a checkpoint holds the digests of the schemes of the target rank that were found.
_KEPT = "kept"
# Steps of all walks after which a scheme above the target is lifted: about half a second of two cores.
_SETTLED_STEPS = 30_000_000
# Seconds for the last lift of a search whose time has ended or that was told to stop.
_GRACE_S = 5.0


def deliver(
    query: Query, walk_ring: str, source: Iterator[Event], resume: State | None, should_stop: Callable[[], bool]
) -> Iterator[Event]:
    """Carry the schemes of a search over to the wanted ring and end it when enough have arrived.

    Args:
        query: what is wanted.
        walk_ring: of the walks, for the last event.
        source: the events of the search, whose schemes are exact.
        resume: the checkpoint from which the search goes on.
        should_stop: asked many times a second while a scheme is lifted.

    Yields:
        The events of ``source`` without Started. Of the schemes of the query's format those over the wanted ring that
        are better than all before or reach the target; the others as they come.
    """
    kept: set[str] = set(np.asarray(resume[_KEPT]).tolist()) if resume and _KEPT in resume else set()
    # A resumed walk reports where it stands first; at the target that has been counted already.
    repeated = bool(kept)
    best, flips, queue = query.format.volume, 0, _Queue(query)
    for event in source:
        arrived = time.monotonic()
        if isinstance(event, Started):
            continue
        if isinstance(event, Notice) or (isinstance(event, Found) and event.scheme.format != query.format):
            yield event
            continue
        ready: Found | None = None
        if isinstance(event, Found) and repeated and event.rank <= query.target:
            best, repeated = min(best, event.rank), False
        elif isinstance(event, Found) and needs_lift(event.scheme, query.ring):
            queue.add(event)
        elif isinstance(event, Found) and (event.rank < best or event.rank <= query.target):
            ready = _carried(event, carry_over(event.scheme, query.ring, False, should_stop))
        if ready is None and queue.is_due(event, best):
            ready = queue.lift(event, arrived, should_stop)
        if ready is not None and (identity := digest(ready.scheme)) not in kept:
            best = min(best, ready.rank)
            now = _clock(event) + time.monotonic() - arrived
            yield replace(ready, seconds=now)
            if ready.rank <= query.target:
                kept.add(identity)
            if len(kept) >= query.keep:
                source.close()  # type: ignore[attr-defined]  # generators have it
                yield Done("found", best, ready.steps, flips, now, failures=queue.failures, given_up=queue.given_up)
                return
        if isinstance(event, Progress):
            flips = event.flips
            yield event
        elif isinstance(event, Checkpoint):
            yield Checkpoint({**event.state, _KEPT: np.array(sorted(kept), dtype="U64")})
        elif isinstance(event, Done):
            status: Literal["budget", "interrupted"] = "interrupted" if event.status == "interrupted" else "budget"
            yield replace(
                event,
                status=status,
                rank=best,
                # A search over Z that was to be walked on from has said already how far its own walks came.
                walk_rank=event.rank if event.walk_rank is None else event.walk_rank,
                walk_ring=event.walk_ring or walk_ring,
                seconds=event.seconds + time.monotonic() - arrived,
                failures=queue.failures + event.failures,
                given_up=queue.given_up + event.given_up,
            )


@dataclass
class _Queue:
    """The scheme whose lift is put off, if any, and what has become of the others.

    Attributes:
        query: what is wanted.
        waiting: of the lowest rank that has not been lifted, the latest.
        since: steps of all walks when the first one of that rank came.
        cut_short: whether its lift has been tried and given up; there is one more chance at the end.
        failures: how many schemes did not lift.
        given_up: how many lifts were given up for good.
    """

    query: Query
    waiting: Found | None = None
    since: int = 0
    cut_short: bool = False
    failures: int = 0
    given_up: int = 0

    def add(self, found: Found) -> None:
        """Let a scheme wait in place of another one of its rank or above."""
        if self.waiting is not None and found.rank > self.waiting.rank:
            return
        if self.waiting is None or found.rank < self.waiting.rank:
            self.since = found.steps
        self.given_up += self.cut_short
        self.waiting, self.cut_short = found, False

    def is_due(self, event: Event, best: int) -> bool:
        """Whether to lift what waits now: at the target at once, above it later unless it was beaten.

        Later is when the walks have gone on for a while, or at the end. Counting steps, not seconds, keeps a search
        that is limited by steps repeatable.
        """
        if self.waiting is None or best <= self.waiting.rank > self.query.target:
            return False
        if isinstance(event, Done) or self.cut_short:
            return isinstance(event, Done)
        if self.waiting.rank <= self.query.target:
            return True
        return isinstance(event, Progress) and event.steps - self.since >= _SETTLED_STEPS

    def lift(self, event: Event, arrived: float, should_stop: Callable[[], bool]) -> Found | None:
        """Lift what waits.

        Args:
            event: during which.
            arrived: when the event came, on the monotonic clock.
            should_stop: of the search.
        """
        assert self.waiting is not None
        patience = _Patience(self.query, event, arrived, should_stop)
        symmetric = self.query.method == "symmetric"
        try:
            scheme = carry_over(self.waiting.scheme, self.query.ring, symmetric, patience.is_over)
        except ValueError:  # too large to be lifted; the search has still found it
            self.waiting, self.given_up = None, self.given_up + 1
            return None
        if scheme is None and patience.was_over:
            self.cut_short = not isinstance(event, Done)
            self.given_up += isinstance(event, Done)
            return None
        self.failures += scheme is None
        lifted, self.waiting = _carried(self.waiting, scheme), None
        return lifted


class _Patience:
    """When to give a lift up: at the limit of time or a request to stop, and at the end a short while after that."""

    def __init__(self, query: Query, event: Event, arrived: float, should_stop: Callable[[], bool]) -> None:
        self.should_stop, self.stopped, self.was_over = should_stop, should_stop(), False
        if self.stopped:
            left = 0.0
        else:
            left = math.inf if query.budget_s is None else max(0.0, query.budget_s - _clock(event))
        self.deadline = arrived + left + (_GRACE_S if isinstance(event, Done) else 0.0)

    def is_over(self) -> bool:
        """Whether it is; noted for good, so that a lift which was cut short is told from one that has failed."""
        over = time.monotonic() >= self.deadline or (self.should_stop() and not self.stopped)
        self.was_over = self.was_over or over
        return self.was_over


def _carried(found: Found, scheme: Scheme | None) -> Found | None:
    return None if scheme is None else replace(found, scheme=scheme, rank=scheme.rank)


def _clock(event: Event) -> float:
    """The search's time at an event."""
    return event.seconds if isinstance(event, Found | Progress | Done) else 0.0
