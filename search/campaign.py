"""A search with a budget: blocks of flip-graph walks on workers, merged in a fixed order, as a stream of events.

All walks take rounds of equally many steps; after a round the results are merged in walk order, and every random
choice comes from a generator seeded by the position of the walk. What a campaign finds within a number of steps is
therefore the same for any executor and any number of workers, and a checkpoint continues it exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import reduce_mod
from catalog.verify import require_exact
from search import checkpoint, executors, ladder
from search.blocks import Policy, Walk, lowest, require_walkable
from search.counters import BEST, FLIPS, STEPS, STUCK
from search.events import Checkpoint, Done, Event, Found, Notice, Progress, Started
from search.orbits import Symmetry, require_square

# Steps over F3: a plus leads away from the sparse schemes, where equal factors are, and new walks do better than long
# ones (3x3x3:23, 2x3x4:20).
_PLUS_F3, _RESTART_F3 = 1_000_000, 5_000_000
# Rounds double from the first to the last length, steps per walk: small formats end in milliseconds, and a block of
# a large one takes about a fifth of a second.
_FIRST_BLOCK, _LAST_BLOCK = 1_000, 4_096_000


@dataclass(frozen=True)
class Config:
    """What to look for and how long.

    Attributes:
        format: the sizes; every matrix has at most 64 blocks.
        ring: "F2", "F3", or "ZT" for Z with coefficients in {-1, 0, 1}.
        target: rank at which the campaign ends.
        steps: steps of all walks together before it ends, counted from the start of the campaign; None for no limit.
        budget_s: seconds before it ends, counted likewise and without compiling; None for no limit.
        seed: of every random choice.
        workers: threads, or processes of a Dask cluster on this machine; None for one per core.
        executor: "local", "dask" or "dask=tcp://HOST:PORT", see ``search.executors``.
        walkers: walks on this format. Rounds end together: four walks or more per worker keep all of them busy.
        plus_interval, margin, restart: see ``search.blocks.Policy``; None for a portfolio that suits the format.
        climb: whether to search smaller formats as well and extend what is found there.
        symmetry: to walk on orbits of the cyclic shift (see ``search.walk_symmetric``), square formats over F2 only;
            then no smaller format is searched.
        checkpoint_s: seconds between checkpoints.
        extras: how many other distinct schemes of the lowest rank are reported beside the first one.
        report_rungs: whether schemes of smaller formats are reported as well, one of every new lowest rank.

    Raises:
        ValueError: a value makes no sense or there is no limit.
    """

    format: Format
    ring: Literal["F2", "F3", "ZT"]
    target: int
    steps: int | None = None
    budget_s: float | None = None
    seed: int = 0
    workers: int | None = None
    executor: str = "local"
    walkers: int = 8
    plus_interval: int | None = None
    margin: int | None = None
    restart: int | None = None
    climb: bool = True
    symmetry: Symmetry | None = None
    checkpoint_s: float = 10.0
    extras: int = 8
    report_rungs: bool = False

    def __post_init__(self) -> None:
        require_walkable(self.format)
        executors.require(self.executor)
        if self.ring not in ("F2", "F3", "ZT"):
            raise ValueError(f"flip-graph walks need ring F2, F3 or ZT, not {self.ring}")
        if self.symmetry is not None:
            require_square(self.format)
            if self.ring != "F2":
                raise ValueError(f"symmetric walks need ring F2, not {self.ring}; lift what they find")
        if self.steps is None and self.budget_s is None:
            raise ValueError("a campaign needs a limit; give steps or budget_s")
        limits = [("target", self.target, 0), ("steps", self.steps, 1), ("budget_s", self.budget_s, 0)]
        limits += [("workers", self.workers, 1), ("walkers", self.walkers, 1), ("margin", self.margin, 0)]
        limits += [("plus_interval", self.plus_interval, 1), ("restart", self.restart, 1)]
        for name, value, least in limits:
            if value is not None and not value >= least:  # refuses NaN too
                raise ValueError(f"{name} is {value}; it must be at least {least}")

    @property
    def scheme_ring(self) -> Ring:
        """Ring of the schemes that are yielded."""
        return Ring.Z if self.ring == "ZT" else Ring(self.ring)


def run(
    config: Config,
    starts: Sequence[Scheme] = (),
    resume: checkpoint.State | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Search until the target, the limit or ``should_stop``.

    Blocks in flight are finished before the iterator ends. A run that did not find its target yields a last
    checkpoint before ``Done``.

    Args:
        config: what to look for. To continue a run, pass the same one (limits and workers may differ).
        starts: exact schemes of the format in any orientation, or smaller ones that are then extended, to start from
            in place of the standard algorithm.
        resume: the state of a checkpoint.
        should_stop: asked between blocks.

    Raises:
        ValueError: a start does not suit the format and ring, or the checkpoint belongs to another search.
    """
    return _Run(config, starts, resume, should_stop).events()


class _Run:
    """The moving parts of one campaign: rungs, totals and clocks."""

    def __init__(
        self,
        config: Config,
        starts: Sequence[Scheme],
        resume: checkpoint.State | None,
        should_stop: Callable[[], bool],
    ) -> None:
        begun = time.monotonic()
        self.config, self.should_stop = config, should_stop
        ring = config.scheme_ring
        starts = [_as_start(scheme, config.format, config.ring) for scheme in starts]
        self.rungs = ladder.build(
            config.format, ring, config.seed, _policies(config), starts, config.climb, config.symmetry
        )
        self.totals = checkpoint.Totals()
        if resume is not None:
            checkpoint.restore(resume, self.rungs, self.totals, ring, config.seed)
        self.top = self.rungs[-1]
        self.setup_seconds = time.monotonic() - begun

    def events(self) -> Iterator[Event]:
        with executors.opened(self.config.executor, self.config.workers or executors.cores()) as executor:
            yield Started(executor.prepare(self.config.scheme_ring, self.config.symmetry is not None))
            yield from self._search(executor)

    def _search(self, executor: executors.Executor) -> Iterator[Event]:
        config, totals = self.config, self.totals
        self.begun = time.monotonic() - totals.seconds - self.setup_seconds
        improved = saved = time.monotonic()
        totals.rank = totals.rank or self.top.rank
        standing = [lowest(walk) for walk in self.top.walks if walk.counters[BEST] == totals.rank]
        yield self._found(standing[0] if standing else ladder.pooled(self.top, config.scheme_ring, 0))
        exhausted = False
        while totals.rank > config.target and not self._over() and not exhausted:
            if not any(rung.owed.any() for rung in self.rungs):
                self._owe()
            begun, flips, steps = time.monotonic(), totals.flips, totals.steps
            for walk in self._advance(executor):
                if isinstance(walk, Notice):
                    yield walk
                elif walk.format == config.format and walk.counters[BEST] < totals.rank:
                    totals.rank, totals.extras, improved = int(walk.counters[BEST]), 0, time.monotonic()
                    yield self._found(lowest(walk))
                    if totals.rank <= config.target:
                        break
            if totals.rank > config.target and not any(rung.owed.any() for rung in self.rungs):
                exhausted = totals.steps == steps
                yield from self._merge()
            now = time.monotonic()
            totals.seconds = now - self.begun
            rate = (totals.flips - flips) / max(now - begun, 1e-9)
            yield Progress(
                totals.rank, totals.steps, totals.flips, rate, totals.seconds, now - improved, len(self.top.pool)
            )
            if now - saved >= config.checkpoint_s and totals.rank > config.target:
                saved = now
                yield Checkpoint(checkpoint.save(self.rungs, totals, config.scheme_ring, config.seed))
        totals.seconds = time.monotonic() - self.begun
        yield from self._byproducts()
        status: Literal["found", "budget", "interrupted"] = "budget"
        if totals.rank <= config.target:
            status = "found"
        else:
            if self.should_stop():
                status = "interrupted"
            yield Checkpoint(checkpoint.save(self.rungs, totals, config.scheme_ring, config.seed))
        yield Done(status, totals.rank, totals.steps, totals.flips, totals.seconds, exhausted)

    def _over(self) -> bool:
        config = self.config
        return (
            (config.steps is not None and self.totals.steps >= config.steps)
            or (config.budget_s is not None and time.monotonic() - self.begun >= config.budget_s)
            or self.should_stop()
        )

    def _found(self, scheme: Scheme) -> Found:
        seconds = time.monotonic() - self.begun
        return Found(scheme, scheme.rank, self.totals.steps, seconds, self.totals.blocks)

    def _owe(self) -> None:
        """Begin a round: every walk owes one block, save those of resting rungs in most rounds."""
        self.totals.rounds += 1
        for rung in self.rungs:
            idle = rung is not self.top and rung.resting and self.totals.rounds % ladder.REST_ROUNDS
            rung.owed[:] = 0 if idle else self._block

    @property
    def _block(self) -> int:
        return min(_FIRST_BLOCK << min(self.totals.rounds, 32), _LAST_BLOCK)

    def _advance(self, executor: executors.Executor) -> Iterator[Walk | Notice]:
        """Work off what is owed, as far as the limits allow; yields each walk, in order, after its block."""
        config, totals = self.config, self.totals
        left = 1 << 62 if config.steps is None else config.steps - totals.steps
        jobs: list[tuple[ladder.Rung, int, int, int, executors.Job]] = []
        for rung in self.rungs:
            target = config.target if rung is self.top else 0
            for index, walk in enumerate(rung.walks):
                steps = min(int(rung.owed[index]), left)
                if steps:
                    left -= steps
                    before = int(walk.counters[STEPS]), int(walk.counters[FLIPS])
                    job = executor.submit(walk, steps, target, rung.policies[index])
                    jobs.append((rung, index, *before, job))

        def cancel_when_over() -> None:
            if self._over():
                _cancel(jobs)

        try:
            for rung, index, steps, flips, job in jobs:
                moved = yield from executors.wait(job, executor, cancel_when_over)
                if moved is None:
                    continue
                walk = rung.walks[index] = moved
                done = int(walk.counters[STEPS]) - steps
                rung.owed[index] = 0 if walk.counters[STUCK] else rung.owed[index] - done
                rung.spent[0] += done
                totals.steps += done
                totals.flips += int(walk.counters[FLIPS]) - flips
                totals.blocks += not rung.owed[index]
                yield walk
        finally:
            _cancel(jobs)

    def _byproducts(self) -> Iterator[Found]:
        """Report new lowest ranks of smaller formats, before the end of a round takes them into the pools."""
        for rung in self.rungs[:-1] if self.config.report_rungs else ():
            best = min(rung.walks, key=lambda walk: int(walk.counters[BEST]))
            if best.counters[BEST] < rung.rank:
                yield self._found(lowest(best))

    def _merge(self) -> Iterator[Found]:
        """End a round; report new schemes of a rank that has stood for a whole long round."""
        yield from self._byproducts()
        before = self.top.rank
        fresh = ladder.merge(self.rungs, self.config.scheme_ring, self.config.seed, self._block)
        if self.top.rank == before and self._block == _LAST_BLOCK:
            for scheme in fresh[: max(0, self.config.extras - self.totals.extras)]:
                self.totals.extras += 1
                yield self._found(scheme)


def _cancel(jobs: Sequence[tuple[ladder.Rung, int, int, int, executors.Job]]) -> None:
    for *_, job in jobs:
        job.cancel()


def _policies(config: Config) -> list[Policy]:
    names = ("plus_interval", "margin", "restart")
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    if config.ring == "F3":
        given = {"plus_interval": _PLUS_F3, "restart": _RESTART_F3, **given}
    return [
        replace(policy, **given)
        for policy in ladder.default_policies(config.format, config.walkers, config.symmetry is not None)
    ]


def _as_start(scheme: Scheme, format: Format, ring: str) -> Scheme:
    """A given scheme in the ring and format of the campaign, turned and extended as needed."""
    if ring != "ZT" and scheme.ring is not Ring(ring):
        scheme = reduce_mod(scheme, Ring(ring))
    if ring == "ZT" and not scheme.is_ternary:
        raise ValueError(f"{scheme} is not ternary over Z; it cannot start a ZT search")
    return require_exact(ladder.grow(scheme, format))
