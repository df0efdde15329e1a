"""Walks over F3 for ranks below those that are known over Z: what needs halves exists over F3 and not over F2.

From the standard algorithm such walks hardly move, there are too many legal flips for one reduction. So a search over
Z goes first, and the walks over F3 begin where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from catalog.bounds import best_known
from catalog.scheme import Format, Ring, Scheme
from catalog.verify import require_exact
from search.campaign import run
from search.checkpoint import STARTS, State
from search.config import Config
from search.events import Checkpoint, Done, Event, Found, Progress

# The search over Z gets one in this many of the steps or seconds.
_SHARE = 4
# Names under which a checkpoint holds the ring whose turn it is, "Z" or "F3", what the search over Z has spent by then,
# and the factors of the best schemes that it has found, [schemes, mk + kn + mn, r] int64.
_STAGE, _SECONDS, _STEPS, _FLIPS, _SCHEMES = "stage", "z_seconds", "z_steps", "z_flips", "z_schemes"


def rank_over_z(format: Format) -> int:
    """The lowest rank known over Z, or that of the standard algorithm beyond the table."""
    return best_known(format, Ring.Z) or format.volume


def share(config: Config) -> dict[str, Any]:
    """The limits of the search over Z."""
    return {
        "steps": None if config.steps is None else max(1, config.steps // _SHARE),
        "budget_s": None if config.budget_s is None else config.budget_s / _SHARE,
    }


def walk_on(
    config: Config,
    over_z: Callable[[State | None], Iterator[Event]],
    resume: State | None,
    should_stop: Callable[[], bool],
) -> Iterator[Event]:
    """The events of a search over Z and then those of walks over F3 from the best schemes that it found.

    Both leave checkpoints, each with the mark of its stage. A resumed search first reports the schemes over Z that it
    has.

    Args:
        config: of the walks over F3; its limits count both parts.
        over_z: starts the search over Z, or goes on with a checkpoint of it.
        resume: a checkpoint of either part.
        should_stop: asked between blocks.

    Raises:
        ValueError: the checkpoint is of a search that was given schemes to start from, or lacks something.
    """
    stage = None if resume is None else str(np.asarray(resume.get(_STAGE, "")))
    if stage not in (None, "Z", "F3"):
        raise ValueError(
            "the checkpoint is of a search that was given starts, or of an earlier version; resume it as it was started"
        )
    try:
        spent = _Spent() if resume is None else _Spent.of(resume, config.format)
    except KeyError as error:
        raise ValueError(f"the checkpoint lacks {error.args[0]!r}; start the search anew") from None
    return _both(config, over_z, resume, stage, spent, should_stop)


@dataclass
class _Spent:
    """What the search over Z has taken, and its best schemes."""

    seconds: float = 0.0
    steps: int = 0
    flips: int = 0
    schemes: list[Scheme] = field(default_factory=list)

    @classmethod
    def of(cls, state: State, format: Format) -> _Spent:
        m, k, n = format
        cuts = [m * k, m * k + k * n]
        schemes = [Scheme(format, Ring.Z, *np.split(factors, cuts)) for factors in np.asarray(state[_SCHEMES])]
        seconds, steps, flips = (np.asarray(state[name]).item() for name in (_SECONDS, _STEPS, _FLIPS))
        return cls(float(seconds), int(steps), int(flips), [require_exact(scheme) for scheme in schemes])

    def mark(self, state: State, stage: str) -> Checkpoint:
        """A checkpoint of one of the two parts."""
        numbers = {_STAGE: stage, _SECONDS: self.seconds, _STEPS: self.steps, _FLIPS: self.flips}
        factors = [np.concatenate(scheme.factors).astype(np.int64) for scheme in self.schemes]
        # The walks over F3 start from what is the search's own; it was given nothing.
        none = np.array([], dtype="U64")
        return Checkpoint({**state, **numbers, _SCHEMES: np.array(factors, np.int64), STARTS: none})

    def add(self, scheme: Scheme) -> None:
        self.schemes = [other for other in self.schemes if other.rank <= scheme.rank]
        if all(other.rank >= scheme.rank for other in self.schemes):
            self.schemes.append(scheme)


def _both(
    config: Config,
    over_z: Callable[[State | None], Iterator[Event]],
    resume: State | None,
    stage: str | None,
    spent: _Spent,
    should_stop: Callable[[], bool],
) -> Iterator[Event]:
    for scheme in spent.schemes:
        yield Found(scheme, scheme.rank, spent.steps, spent.seconds, 0)
    for event in over_z(resume) if stage != "F3" else ():
        if isinstance(event, Found) and event.scheme.format == config.format:
            spent.add(event.scheme)
        if isinstance(event, Checkpoint):
            yield spent.mark(event.state, "Z")
        elif isinstance(event, Done):
            spent.seconds, spent.steps, spent.flips = event.seconds, event.steps, event.flips
            if event.status == "interrupted":
                yield event
                return
        else:
            yield event
    left = replace(
        config,
        steps=None if config.steps is None else max(1, config.steps - spent.steps),
        budget_s=None if config.budget_s is None else max(0.0, config.budget_s - spent.seconds),
    )
    for event in run(left, () if stage == "F3" else spent.schemes, resume if stage == "F3" else None, should_stop):
        if isinstance(event, Checkpoint):
            yield spent.mark(event.state, "F3")
        elif isinstance(event, Progress | Done):
            yield replace(
                event,
                seconds=event.seconds + spent.seconds,
                steps=event.steps + spent.steps,
                flips=event.flips + spent.flips,
            )
        elif isinstance(event, Found):
            yield replace(event, seconds=event.seconds + spent.seconds, steps=event.steps + spent.steps)
        else:
            yield event
