"""Walks over F3 for ranks below those that are known over Z: what needs halves exists over F3 and not over F2.

From the standard algorithm such walks hardly move, there are too many legal flips for one reduction. So a search over
Z goes first, and the walks over F3 begin where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from catalog.bounds import best_known
from catalog.scheme import Format, Ring, Scheme
from search.campaign import Config, run
from search.checkpoint import State
from search.events import Checkpoint, Done, Event, Found, Progress

# The search over Z gets one in this many of the steps or seconds.
_SHARE = 4
# Names under which a checkpoint holds what the search over Z has spent.
_SECONDS, _STEPS = "z_seconds", "z_steps"


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
    config: Config, over_z: Iterator[Event], resume: State | None, should_stop: Callable[[], bool]
) -> Iterator[Event]:
    """The events of a search over Z and then those of walks over F3 from the best schemes that it found.

    Args:
        config: of the walks over F3; its limits count both parts.
        over_z: the search over Z; not begun when there is a checkpoint.
        resume: a checkpoint of the walks over F3.
        should_stop: asked between blocks.
    """
    seconds, steps, flips = 0.0, 0, 0
    starts: list[Scheme] = []
    if resume is not None:
        seconds, steps = float(np.asarray(resume[_SECONDS])), int(np.asarray(resume[_STEPS]))
    else:
        for event in over_z:
            if isinstance(event, Found) and event.scheme.format == config.format:
                starts = [scheme for scheme in starts if scheme.rank <= event.rank] + [event.scheme]
            if isinstance(event, Found | Progress):
                yield event
            elif isinstance(event, Done):
                seconds, steps, flips = event.seconds, event.steps, event.flips
                if event.status == "interrupted":
                    yield event
                    return
    left = replace(
        config,
        steps=None if config.steps is None else max(1, config.steps - steps),
        budget_s=None if config.budget_s is None else max(0.0, config.budget_s - seconds),
    )
    for event in run(left, starts, resume, should_stop):
        if isinstance(event, Checkpoint):
            yield Checkpoint({**event.state, _SECONDS: seconds, _STEPS: steps})
        elif isinstance(event, Progress | Done):
            yield replace(event, seconds=event.seconds + seconds, steps=event.steps + steps, flips=event.flips + flips)
        elif isinstance(event, Found):
            yield replace(event, seconds=event.seconds + seconds, steps=event.steps + steps)
        else:
            yield event
