"""What a user asks for, a format over a ring by a method, as one stream of exact schemes over that ring.

The tree search works over F2, a trained player over F2 or Z, walks also over F3 and over Z with ternary coefficients.
Schemes over Z and Q come from walks over Z or from lifting what was found over F2 (see ``search.delivery``), schemes
over F3 from reducing those over Z: from the standard algorithm that is faster than walking over F3. For a rank below
those known over Z, schemes over F3 and Q come from walks over F3 that begin where a search over Z has ended (see
``search.beyond_z``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from catalog.scheme import Ring, Scheme
from catalog.verify import require_exact
from search.beyond_z import rank_over_z, share, walk_on
from search.campaign import run
from search.checkpoint import State
from search.config import Config
from search.delivery import deliver
from search.events import Done, Event, Found, Progress, Started
from search.query import Query, check, ring_of_walks
from search.walks.blocks import compile_kernel
from search.walks.symmetry import Symmetry, symmetry_for


def require(query: Query, starts: Sequence[Scheme] = ()) -> None:
    """Refuse a query that cannot be carried out here, for want of weights or of memory too.

    Raises:
        ValueError: the message says what and why.
    """
    check(query, starts)
    if query.method == "player":
        from search.player.playing import Table

        Table(query)


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
        Started; Found with schemes over the wanted ring, each proved by the Brent equations, and with ``report_rungs``
        also of smaller formats over the ring of the walks; Notice; Progress whose rank is that of the walks;
        Checkpoint; and Done at the end.

    Raises:
        ValueError: the query makes no sense.
    """
    check(query, starts)
    if query.method == "mcts" and resume:
        raise ValueError("the tree search keeps no checkpoint; start it anew")
    if query.method == "player":
        from search.player.playing import Table

        table = Table(query)
        own = str(table.trained.player.board.ring)
        return _events(query, own, table.compile, table.play(resume, should_stop), resume, should_stop)
    source = _games(query, should_stop) if query.method == "mcts" else _walks(query, starts, resume, should_stop)
    return _events(query, ring_of_walks(query), lambda: _compile(query), source, resume, should_stop)


def _events(
    query: Query,
    ring: str,
    prepare: Callable[[], float],
    source: Iterator[Event],
    resume: State | None,
    should_stop: Callable[[], bool],
) -> Iterator[Event]:
    yield Started(prepare())
    yield from deliver(query, ring, source, resume, should_stop)


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
        return walk_on(config, lambda state: find(part, (), state, should_stop), resume, should_stop)
    return run(config, starts, resume, should_stop)


def _games(query: Query, should_stop: Callable[[], bool]) -> Iterator[Event]:
    """The tree search as the same events; games with the next seeds follow while more schemes are wanted."""
    from search.games import tree

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
                yield Found(require_exact(event.scheme), event.scheme.rank, simulations, seconds, seed - query.seed)
            else:
                yield Progress(rank, simulations, 0, simulations / max(seconds, 1e-9), seconds, 0.0, 1)
        stopped, seed = should_stop(), seed + 1
    yield Done("interrupted" if stopped else "budget", rank, simulations, 0, seconds)


def _compile(query: Query) -> float:
    """Compile what the query needs, or load it from its cache; the seconds that took."""
    if query.method == "mcts":
        from search.games.tree import compile_kernels

        return compile_kernels()
    walk_ring = ring_of_walks(query)
    symmetry = _symmetry(query)
    return compile_kernel(Ring.Z if walk_ring == "ZT" else Ring(walk_ring), symmetry.group if symmetry else None)


def _symmetry(query: Query) -> Symmetry | None:
    """What the walks keep invariant."""
    if query.method != "symmetric":
        return None
    return symmetry_for(query.format, query.target, query.diagonal, query.symmetry)
