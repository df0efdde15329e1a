"""A search with a budget: blocks of flip-graph walks on workers, merged in a fixed order, as a stream of events.

All walks take rounds of equally many steps; after a round the results are merged in walk order, and every random
choice comes from a generator seeded by the position of the walk. What a campaign finds within a number of steps is
therefore the same for any executor and any number of workers, and a checkpoint continues it exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from catalog.canonical import digest
from catalog.scheme import Scheme
from catalog.verify import require_exact
from search import checkpoint, executors, ladder
from search.config import Config
from search.events import Checkpoint, Done, Event, Found, Notice, Progress, Started
from search.lifts.lifting import liftable
from search.rungs import Goal, Rung
from search.starts import as_start
from search.walks.blocks import Walk, lowest
from search.walks.counters import FLIPS, STEPS, STUCK

# Rounds double from the first to the last length, steps per walk: small formats end in milliseconds, and a block of
# a large one takes about a fifth of a second.
_FIRST_BLOCK, _LAST_BLOCK = 1_000, 4_096_000


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
        starts: exact schemes of the format in any orientation, of one slice more, which are projected, or smaller ones,
            to start from in place of the standard algorithm.
        resume: the state of a checkpoint.
        should_stop: asked between blocks.

    Raises:
        ValueError: a start does not suit the format and ring, or the checkpoint belongs to another search or one that
            had other starts.
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
        starts = [as_start(scheme, config.format, config.ring) for scheme in starts]
        names = ("plus_interval", "margin", "restart")
        given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
        goal = Goal(ring, config.goal or config.ring)
        self.rungs = ladder.build(
            config.format, goal, config.seed, config.walkers, given, starts, config.climb, config.symmetry
        )
        self.worth = self._leads_on if goal.carried else _anything
        self.totals = checkpoint.Totals()
        self.starts = [digest(scheme) for scheme in starts]
        if resume is not None:
            checkpoint.restore(resume, self.rungs, self.totals, ring, config.seed, self.starts)
        self.top = self.rungs[-1]
        self.setup_seconds = time.monotonic() - begun

    def events(self) -> Iterator[Event]:
        with executors.opened(self.config.executor, self.config.workers or executors.cores()) as executor:
            yield Started(
                executor.prepare(self.config.scheme_ring, self.config.symmetry.group if self.config.symmetry else None)
            )
            yield from self._search(executor)

    def _search(self, executor: executors.Executor) -> Iterator[Event]:
        config, totals = self.config, self.totals
        self.begun = time.monotonic() - totals.seconds - self.setup_seconds
        improved = saved = time.monotonic()
        totals.rank = totals.rank or self.top.rank
        yield self._found(self._standing())
        exhausted = False
        while totals.rank > config.target and not self._over() and not exhausted:
            if not any(rung.owed.any() for rung in self.rungs):
                self._owe()
            begun, flips, steps = time.monotonic(), totals.flips, totals.steps
            for walk in self._advance(executor):
                if isinstance(walk, Notice):
                    yield walk
                elif self._is_gain(walk):
                    totals.rank, totals.extras, improved = walk.lowest_rank, 0, time.monotonic()
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
                yield self._checkpoint()
        totals.seconds = time.monotonic() - self.begun
        yield from self._byproducts()
        status: Literal["found", "budget", "interrupted"] = "budget"
        if totals.rank <= config.target:
            status = "found"
        else:
            if self.should_stop():
                status = "interrupted"
            yield self._checkpoint()
        yield Done(status, totals.rank, totals.steps, totals.flips, totals.seconds, exhausted)

    def _checkpoint(self) -> Checkpoint:
        config = self.config
        return Checkpoint(checkpoint.save(self.rungs, self.totals, config.scheme_ring, config.seed, self.starts))

    def _leads_on(self, scheme: Scheme) -> bool:
        """Whether a scheme may have a lift, so that it is worth walking on from."""
        return liftable(scheme, symmetric=self.config.symmetry is not None, should_stop=self.should_stop)

    def _standing(self) -> Scheme:
        """A scheme of the lowest rank; after a checkpoint amid a round the pool may not have it yet."""
        for index, walk in enumerate(self.top.walks):
            if walk.lowest_rank == self.totals.rank < self.top.rank and self.top.clear(index, self.worth):
                return lowest(walk)
        return self.top.pooled(0)

    def _is_gain(self, walk: Walk) -> bool:
        """Whether a walk of the top rung has just reached a new lowest rank from which one may go on."""
        places = [index for index, own in enumerate(self.top.walks) if own is walk]
        return bool(places) and walk.lowest_rank < self.totals.rank and self.top.clear(places[0], self.worth)

    def _over(self) -> bool:
        config = self.config
        return (
            (config.steps is not None and self.totals.steps >= config.steps)
            or (config.budget_s is not None and time.monotonic() - self.begun >= config.budget_s)
            or self.should_stop()
        )

    def _found(self, scheme: Scheme) -> Found:
        seconds = time.monotonic() - self.begun
        return Found(require_exact(scheme), scheme.rank, self.totals.steps, seconds, self.totals.blocks)

    def _owe(self) -> None:
        """Begin a round: all walks of the top rung owe one block, of the lower rungs those whose turn it is."""
        self.totals.rounds += 1
        ladder.owe(self.rungs, self.totals.rounds, self._block)

    @property
    def _block(self) -> int:
        return min(_FIRST_BLOCK << min(self.totals.rounds, 32), _LAST_BLOCK)

    def _advance(self, executor: executors.Executor) -> Iterator[Walk | Notice]:
        """Work off what is owed, as far as the limits allow; yields each walk, in order, after its block."""
        config, totals = self.config, self.totals
        left = 1 << 62 if config.steps is None else config.steps - totals.steps
        jobs: list[tuple[Rung, int, int, int, executors.Job]] = []
        for rung in self.rungs:
            target = config.target if rung is self.top else rung.floor
            for index, walk in enumerate(rung.walks):
                steps = min(int(rung.owed[index]), left)
                if steps:
                    left -= steps
                    before = int(walk.counters[STEPS]), int(walk.counters[FLIPS])
                    job = executor.submit(walk, steps, target, rung.policy(index))
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
                ended = walk.counters[STUCK] or walk.rank <= (0 if rung is self.top else rung.floor)
                rung.owed[index] = 0 if ended else rung.owed[index] - done
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
            best = min(rung.walks, key=lambda walk: walk.lowest_rank)
            if best.lowest_rank < rung.rank:
                yield self._found(lowest(best))

    def _merge(self) -> Iterator[Found]:
        """End a round; report new schemes of a rank that has stood for a whole long round."""
        yield from self._byproducts()
        before = self.top.rank
        fresh = ladder.merge(self.rungs, self.config.seed, self._block, self.worth)
        if self.top.rank == before and self._block == _LAST_BLOCK:
            for scheme in fresh[: max(0, self.config.extras - self.totals.extras)]:
                self.totals.extras += 1
                yield self._found(scheme)


def _cancel(jobs: Sequence[tuple[Rung, int, int, int, executors.Job]]) -> None:
    for *_, job in jobs:
        job.cancel()


def _anything(_scheme: Scheme) -> bool:
    return True
