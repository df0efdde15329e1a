"""What a user asks for, a format over a ring by a method, as one stream of exact schemes over that ring.

Walks and tree search work over F2 (walks also over Z with ternary coefficients). Schemes over Z and Q come from
lifting those over F2 (see ``search.lifting``), schemes over F3 from reducing those over Z: from the standard algorithm
that is faster than walking over F3. Below the ranks known over Z walks over F3 take over (see ``search.beyond_z``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from catalog.canonical import digest
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import reduce_mod
from search.beyond_z import rank_over_z, share, walk_on
from search.blocks import compile_kernel, require_walkable
from search.campaign import Config, run
from search.checkpoint import State
from search.events import Checkpoint, Done, Event, Found, Notice, Progress, Started
from search.executors import require
from search.game import require_playable
from search.orbits import Symmetry, decompose, parse_diagonal, portfolio, require_square

WalkRing = Literal["F2", "F3", "ZT"]
# Name under which a checkpoint holds the digests of the schemes of the target rank that were found.
_KEPT = "kept"
# Steps of all walks after which a scheme above the target is lifted: about half a second of two cores.
_SETTLED_STEPS = 30_000_000
_SMALL_VOLUME = 27
# Seconds for the last lift of a search whose time has ended.
_GRACE_S = 5.0


@dataclass(frozen=True)
class Query:
    """What to look for and how long.

    Attributes:
        format: the sizes.
        ring: "F2", "F3", "Z", "Q", or "ZT" for Z with coefficients in {-1, 0, 1}.
        target: rank to reach.
        method: "flips" for walks in the flip graph, "symmetric" for walks on orbits of the cyclic shift (square
            formats), "mcts" for the tree search without a network.
        keep: how many distinct schemes of the target rank to find before the search ends.
        steps: limit on steps of all walks together, or on simulations; then the result depends on the seed alone.
        budget_s: limit on seconds, compiling left out.
        seed: of every random choice.
        workers: threads of the walks, or processes of a Dask cluster on this machine; None for one per core.
        executor: "local", "dask" or "dask=tcp://HOST:PORT", see ``search.executors``.
        walkers: walks on the format itself, at least four per worker to keep all of them busy.
        checkpoint_s: seconds between checkpoints.
        report_rungs: whether schemes of smaller formats that the walks pass through are reported as well.
        diagonal: of the symmetric walk's start, for example "10001,01010,00100"; None for a choice by the target.
    """

    format: Format
    ring: str
    target: int
    method: Literal["flips", "symmetric", "mcts"] = "flips"
    keep: int = 1
    steps: int | None = None
    budget_s: float | None = None
    seed: int = 0
    workers: int | None = None
    executor: str = "local"
    walkers: int = 8
    checkpoint_s: float = 10.0
    report_rungs: bool = False
    diagonal: str | None = None


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


def check(query: Query, starts: Sequence[Scheme] = ()) -> None:
    """Refuse a query that cannot be carried out.

    Raises:
        ValueError: the message says what and why.
    """
    if query.ring not in ("F2", "F3", "ZT", "Z", "Q"):
        raise ValueError(f"unknown ring {query.ring!r}; choose F2, F3, ZT, Z or Q")
    if query.keep < 1:
        raise ValueError(f"keep is {query.keep}; it must be at least 1")
    if query.walkers < 1:
        raise ValueError(f"walkers is {query.walkers}; it must be at least 1")
    require(query.executor)
    if query.method == "mcts":
        require_playable(query.format)
        if query.executor != "local":
            raise ValueError(f"the tree search runs in this process; use the executor local, not {query.executor}")
        if query.ring == "ZT":
            raise ValueError("the tree search plays over F2; ask for ring Z, or for ZT with the method flips")
        if starts:
            raise ValueError("the tree search starts at the empty board; use the method flips to start from a scheme")
    else:
        require_walkable(query.format)
    if query.method == "symmetric":
        require_square(query.format)
        if query.ring == "F3":
            raise ValueError("the symmetric walk is over F2; ask for ring Z, whose schemes hold over F3 too")
        for scheme in starts:
            decompose(reduce_mod(scheme, Ring.F2))
        _symmetry(query)
    elif query.diagonal is not None:
        raise ValueError(f"the method {query.method} has no diagonal; leave it out or use the method symmetric")


def _in_ring(
    query: Query, source: Iterator[Event], resume: State | None, should_stop: Callable[[], bool]
) -> Iterator[Event]:
    """Carry the schemes of a search over to the wanted ring and end it when enough have arrived."""
    yield Started(_compile(query))
    convert = _conversion(query)
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
            scheme, done = convert(waiting.scheme, _patience(query, event, arrived, should_stop)), waiting
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
    if isinstance(event, Done) or (query.method != "mcts" and _walk_ring(query) in (query.ring, "ZT")):
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
    walk_ring = _walk_ring(query)
    first_will_do = walk_ring in (query.ring, "ZT") and query.keep == 1
    config = Config(
        query.format,
        walk_ring,
        # Else the walks go on at the target, since not every scheme lifts and more than one may be wanted.
        target=query.target if first_will_do else 0,
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


def _symmetry(query: Query) -> Symmetry | None:
    if query.method != "symmetric":
        return None
    n = query.format.n
    return Symmetry((parse_diagonal(query.diagonal, n),) if query.diagonal else portfolio(n, query.target))


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
    walk_ring = _walk_ring(query)
    return compile_kernel(Ring.Z if walk_ring == "ZT" else Ring(walk_ring), query.method == "symmetric")


def _walk_ring(query: Query) -> WalkRing:
    """Where to walk. Small formats are walked over Z at once: that is as quick, and what it finds is ternary."""
    if query.method != "flips" or query.ring == "F2":
        return "F2"
    if query.ring in ("F3", "Q") and query.target < rank_over_z(query.format):
        return "F3"
    return "ZT" if query.ring == "ZT" or query.format.volume <= _SMALL_VOLUME else "F2"


def _conversion(query: Query) -> Callable[[Scheme, Callable[[], bool]], Scheme | None]:
    """How a scheme that was found becomes one over the wanted ring; None where it does not."""
    from search.lifting import lift

    def convert(scheme: Scheme, give_up: Callable[[], bool]) -> Scheme | None:
        if query.ring == scheme.ring or (scheme.ring is Ring.Z and query.ring in ("ZT", "Q")):
            return scheme
        over_z: Scheme | None = scheme
        if scheme.ring is not Ring.Z:
            try:
                over_z = lift(scheme, rational=query.ring == "Q", keep_bases=False, should_stop=give_up)
            except ValueError:  # the scheme is too large to be lifted; the search has still found it over F2
                return None
        return over_z if over_z is None or query.ring != "F3" else reduce_mod(over_z, Ring.F3)

    return convert
