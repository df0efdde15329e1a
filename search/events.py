"""What a campaign reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catalog.scheme import Scheme
from search.checkpoint import State


@dataclass(frozen=True)
class Started:
    """The first event: the kernels are compiled, or loaded from their cache, and the clock starts."""

    compile_seconds: float


@dataclass(frozen=True)
class Found:
    """A scheme of a new lowest rank, or another one of the lowest rank.

    Attributes:
        scheme: exact; over the ring of the walks from a campaign, over the wanted ring from ``search.find``, where only
            schemes of smaller formats stay over that of the walks.
        rank: its rank.
        steps: of all walks up to here.
        seconds: since the start, without compiling.
        block: running number of the block of steps that found it; 0 for a start.
    """

    scheme: Scheme
    rank: int
    steps: int
    seconds: float
    block: int


@dataclass(frozen=True)
class Progress:
    """Where the campaign stands; ``per_second`` counts flips of all workers in the round that has just ended."""

    rank: int
    steps: int
    flips: int
    per_second: float
    seconds: float
    since_improvement_s: float
    pool: int


@dataclass(frozen=True)
class Notice:
    """Something that a person should know while the campaign waits, in one sentence."""

    text: str


@dataclass(frozen=True)
class Checkpoint:
    """Everything that ``run`` needs to continue: arrays and numbers by name."""

    state: State


@dataclass(frozen=True)
class Done:
    """The end.

    Attributes:
        status: why it ended.
        rank: lowest rank of the schemes yielded.
        steps: of all walks.
        flips: accepted ones of them.
        seconds: since the start, without compiling.
        exhausted: whether no walk had a move left.
        walk_rank: lowest rank of the walks, where their schemes had to be carried over to another ring.
        failures: how many schemes did not lift to that ring.
        given_up: how many lifts were given up, for lack of time or memory.
        walk_ring: ring of the walks that ``walk_rank`` is of, None as there.
    """

    status: Literal["found", "budget", "interrupted"]
    rank: int
    steps: int
    flips: int
    seconds: float
    exhausted: bool = False
    walk_rank: int | None = None
    failures: int = 0
    given_up: int = 0
    walk_ring: str | None = None


Event = Started | Found | Progress | Notice | Checkpoint | Done
