"""What a user asks for, a format over a ring by a method, as one stream of exact schemes over that ring.

Walks and tree search work over F2 (walks also over Z with ternary coefficients). Schemes over Z and Q come from
lifting those over F2 (see ``search.lifting``), schemes over F3 from reducing those over Z: from the standard algorithm
that is faster than walking over F3. Below the ranks known over Z walks over F3 take over (see ``search.beyond_z``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from catalog.canonical import digest
from catalog.scheme import Ring, Scheme
from search.beyond_z import rank_over_z, share, walk_on
from search.blocks import compile_kernel
from search.campaign import run
from search.checkpoint import State
from search.config import Config
from search.conversion import carry_over
from search.events import Checkpoint, Done, Event, Found, Notice, Progress, Started
from search.query import Query, check, ring_of_walks
from search.symmetry import Symmetry, symmetry_for

# Name under which a checkpoint holds the digests of the schemes of the target rank that were found.
_KEPT = "kept"
# Steps of all walks after which a scheme above the target is lifted: about half a second of two cores.
_SETTLED_STEPS = 30_000_000
# Seconds for the last lift of a search whose time has ended.
_GRACE_S = 5.0


def find(
    query: Query,
    starts: Sequence[Scheme] = (),
    resume: State | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Search until ``keep`` schemes of the target rank are found, the limit is reached or ``should_stop``.

    Args:
        query: what to look for.
        starts: exact schemes to start the walks from (see ``search.campaign.run``).
        resume: the state of a checkpoint of the same query.
        should_stop: asked between blocks.

    Yields:
        Found with schemes over the wanted ring, and with ``report_rungs`` also of smaller formats over the ring of the
        walks; Notice; Progress whose rank is that of the walks, Checkpoint, and Done at the
        end.

    Raises:
        ValueError: the query makes no sense.
    """
    check(query, starts)
    if query.method == "mcts" and resume:
        raise ValueError("the tree search keeps no checkpoint; start it anew")
    source = _games(query, should_stop) if query.method == "mcts" else _walks(query, starts, resume, should_stop)
    return _in_ring(query, source, resume, should_stop)


def _in_ring(
    query: Query, source: Iterator[Event], resume: State | None, should_stop: Callable[[], bool]
) -> Iterator[Event]:
    """Carry the schemes of a search over to the wanted ring and end it when enough have arrived."""
    yield Started(_compile(query))
    kept: set[str] = set(np.asarray(resume[_KEPT]).tolist()) if resume and _KEPT in resume else set()
    # A resumed walk reports where it stands first; at the target that has been counted already.
    repeated = bool(kept)
    best, flips, failures = query.format.volume, 0, 0
    waiting: Found | None = None
    for event in source:
        arrived = time.monotonic()
        if isinstance(event, Started):
            continue
        if isinstance(event, Notice) or (isinstance(event, Found) and event.scheme.format != query.format):
            yield event
            continue
        if isinstance(event, Found) and repeated and event.rank <= query.target:
            best = min(best, event.rank)
            repeated = False
        elif isinstance(event, Found):
            waiting = event if waiting is None or event.rank <= waiting.rank else waiting
        if waiting is not None and _is_due(query, waiting, event, best):
            give_up = _patience(query, event, arrived, should_stop)
            scheme, done = carry_over(waiting.scheme, query.ring, query.method == "symmetric", give_up), waiting
            waiting = None
            if scheme is None:
                failures += 1
            elif digest(scheme) not in kept:
                best = min(best, scheme.rank)
                now = _clock(event) + time.monotonic() - arrived
                yield replace(done, scheme=scheme, rank=scheme.rank, seconds=now)
                if scheme.rank <= query.target:
                    kept.add(digest(scheme))
                if len(kept) >= query.keep:
                    source.close()  # type: ignore[attr-defined]  # generators have it
                    yield Done("found", best, done.steps, flips, now, failures=failures)
                    return
        if isinstance(event, Progress):
            flips = event.flips
            yield event
        elif isinstance(event, Checkpoint):
            yield Checkpoint({**event.state, _KEPT: np.array(sorted(kept), dtype="U64")})
        elif isinstance(event, Done):
            status: Literal["budget", "interrupted"] = "interrupted" if event.status == "interrupted" else "budget"
            seconds = event.seconds + time.monotonic() - arrived
            yield replace(event, status=status, rank=best, walk_rank=event.rank, seconds=seconds, failures=failures)


def _is_due(query: Query, waiting: Found, event: Event, best: int) -> bool:
    """Whether to carry a scheme over to the wanted ring now.

    Above the target that waits until the walks have gone on for a while or the search ends: most such schemes are
    soon beaten, and lifting one can take as long as finding the next. Counting steps, not seconds, keeps a search
    that is limited by steps repeatable.
    """
    if waiting.rank <= query.target:
        return True
    if waiting.rank >= best or not isinstance(event, Progress | Done):
        return False
    if isinstance(event, Done) or (query.method != "mcts" and ring_of_walks(query) in (query.ring, "ZT")):
        return True
    return event.steps - waiting.steps >= _SETTLED_STEPS


def _patience(query: Query, event: Event, arrived: float, should_stop: Callable[[], bool]) -> Callable[[], bool]:
    """When to give a lift up: past the limit a search may still carry its last scheme over, for a short while."""
    if query.budget_s is None:
        return should_stop
    grace = _GRACE_S if isinstance(event, Done) else 0.0
    deadline = max(arrived, arrived + query.budget_s - _clock(event)) + grace
    stopped = should_stop()

    def give_up() -> bool:
        return time.monotonic() >= deadline or (should_stop() and not stopped)

    return give_up


def _clock(event: Event) -> float:
    """The search's time at an event."""
    return event.seconds if isinstance(event, Found | Progress | Done) else 0.0


def _walks(
    query: Query, starts: Sequence[Scheme], resume: State | None, should_stop: Callable[[], bool]
) -> Iterator[Event]:
    walk_ring = ring_of_walks(query)
    first_will_do = walk_ring in (query.ring, "ZT") and query.keep == 1
    config = Config(
        query.format,
        walk_ring,
        # Else the walks go on at the target, since not every scheme lifts and more than one may be wanted.
        target=query.target if first_will_do else 0,
        goal=query.ring,
        extras=1 << 40,
        steps=query.steps,
        budget_s=query.budget_s,
        seed=query.seed,
        workers=query.workers,
        executor=query.executor,
        walkers=query.walkers,
        checkpoint_s=query.checkpoint_s,
        report_rungs=query.report_rungs,
        symmetry=_symmetry(query),
        climb=walk_ring != "F3",
    )
    if walk_ring == "F3" and not starts:
        part = replace(query, ring="Z", target=rank_over_z(query.format), keep=1, **share(config))
        return walk_on(config, find(part, should_stop=should_stop), resume, should_stop)
    return run(config, starts, resume, should_stop)


def _games(query: Query, should_stop: Callable[[], bool]) -> Iterator[Event]:
    """The tree search as the same events; games with the next seeds follow while more schemes are wanted."""
    from search import tree

    seconds, simulations, rank, stopped = 0.0, 0, query.format.volume, False

    def over() -> bool:
        return (
            stopped
            or (query.steps is not None and simulations >= query.steps)
            or (query.budget_s is not None and seconds >= query.budget_s)
        )

    seed = query.seed
    while not over():
        before, spent = seconds, simulations
        for event in tree.play(
            query.format,
            target=query.target,
            seed=seed,
            budget_s=None if query.budget_s is None else query.budget_s - seconds,
            simulations=None if query.steps is None else query.steps - simulations,
            should_stop=should_stop,
        ):
            simulations, seconds = spent + event.simulations, before + event.seconds
            if isinstance(event, tree.Found):
                rank = min(rank, event.scheme.rank)
                yield Found(event.scheme, event.scheme.rank, simulations, seconds, seed - query.seed)
            else:
                yield Progress(rank, simulations, 0, simulations / max(seconds, 1e-9), seconds, 0.0, 1)
        stopped, seed = should_stop(), seed + 1
    yield Done("interrupted" if stopped else "budget", rank, simulations, 0, seconds)


def _compile(query: Query) -> float:
    """Compile what the query needs, or load it from its cache; the seconds that took."""
    if query.method == "mcts":
        from search.tree import compile_kernels

        return compile_kernels()
    walk_ring = ring_of_walks(query)
    symmetry = _symmetry(query)
    return compile_kernel(Ring.Z if walk_ring == "ZT" else Ring(walk_ring), symmetry.group if symmetry else None)


def _symmetry(query: Query) -> Symmetry | None:
    """What the walks keep invariant."""
    if query.method != "symmetric":
        return None
    return symmetry_for(query.format, query.target, query.diagonal, query.symmetry)
