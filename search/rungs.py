"""One format of a campaign: its walks, the pool of its best schemes, and what has worked there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.bounds import best_known
from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from search.walks.blocks import Walk, begin, lowest, to_masks, to_scheme
from search.walks.counters import BEST_AT
from search.walks.policies import Policy
from search.walks.symmetry import Symmetry

Worth = Callable[[Scheme], bool]

# Where a walk can start anew: the standard algorithm, the rung's own pool, a scheme of a lower rung extended, or two
# of lower rungs side by side. In the last two ways only some terms move at first: those of the smaller of two schemes
# side by side and what shares a factor with them, or a part of a scheme of the pool (see ``search.walks.regions``).
STANDARD, OWN, EXTENDED, MERGED, SEAM, NEIGHBOURHOOD = range(6)
KINDS = 6
# Failures that those two begin with: over 20 million steps at 3x5x5 and 4x4x5 they gain rather less than the others.
_DOUBT = 4

# What a checkpoint keeps of a rung beside its pool and its walks.
NUMBERS = (
    "owed",
    "restarts",
    "setting",
    "kind",
    "begun_at",
    "cleared",
    "by_policy",
    "by_kind",
    "spent",
    "line",
    "lines",
)

_POOL = 64
# Descents from the standard algorithm to one rank that a rung above may need: from some of them it gets no further.
_ENOUGH = 4
# A lower rung rests once it has walked for nothing this many steps times the square of its volume, and this multiple
# of the steps up to its last gain. A resting rung still walks in some rounds: 4x4x4:47 takes some 2e9 steps.
_REST_STEPS, _REST_FACTOR = 100_000, 10


@dataclass(frozen=True)
class Goal:
    """What the schemes of a campaign are for.

    Attributes:
        walked: ring of the walks.
        wanted: ring of the schemes in the end, named as on the command line.
    """

    walked: Ring
    wanted: str

    @property
    def carried(self) -> bool:
        """Whether schemes have to be lifted, so that those that cannot be are dead ends."""
        return self.walked is Ring.F2 and self.wanted != "F2"

    def known(self, format: Format) -> int | None:
        """Best known rank over the wanted ring."""
        ring = Ring.Z if self.wanted == "ZT" else Ring(self.wanted)
        return best_known(format, ring, ternary=self.wanted == "ZT")


def _prior() -> NDArray[np.int64]:
    tally = np.zeros((KINDS, 2), np.int64)
    tally[[SEAM, NEIGHBOURHOOD], 1] = _DOUBT
    return tally


@dataclass
class Rung:
    """A format, its walks and its pool.

    Attributes:
        format: what its schemes multiply.
        goal: what they are for.
        policies: settings to choose from.
        symmetry: what the walks keep invariant, None for nothing.
        starts: schemes from which symmetric walks start in place of the standard algorithm.
        walks: the walks; each belongs to one thread at a time.
        owed: [walks] int64. Steps left in the current round.
        restarts: [walks] int64. How often each walk was started anew.
        setting, kind: [walks] int64. Which policy each walk has, and where it started: STANDARD, OWN, ...
        begun_at: [walks] int64. Rank at which it started.
        cleared: [walks] int64. One more than the step of the latest low of a walk that may be walked on from.
        by_policy: [policies, 2] int64. Walks that reached the lowest rank on their own, and those that did not.
        by_kind: [KINDS, 2] int64. Likewise.
        line: [walks] int64. Descent that each walk belongs to: a new one unless it started from the pool.
        pool: [8 * r] uint64 each: value and sign masks of the best schemes, one of every descent, the oldest first.
        lines: [pool] int64. Their descents.
        spent: steps of all walks, and the same at the last gain.
    """

    format: Format
    goal: Goal
    policies: Sequence[Policy]
    symmetry: Symmetry | None = None
    starts: Sequence[Scheme] = ()
    walks: list[Walk] = field(default_factory=list)
    owed: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    restarts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    setting: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    begun_at: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cleared: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    by_policy: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    by_kind: NDArray[np.int64] = field(default_factory=_prior)
    line: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    pool: list[NDArray[np.uint64]] = field(default_factory=list)
    lines: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    spent: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def rank(self) -> int:
        """Rank of the schemes in the pool."""
        return len(self.pool[0]) // 8

    @property
    def floor(self) -> int:
        """Rank at which walks of a lower rung have done their duty: another descent is worth more than a lower rank.

        Below the best known rank over Z nothing over F2 lifts, and the rungs above gain most from unrelated schemes.
        """
        return self.goal.known(self.format) or 0

    @property
    def settled(self) -> bool:
        """Whether more steps here promise little.

        Several descents have reached the best known rank, or long walks brought nothing.
        """
        spent, gained = self.spent
        reached = self.rank <= (self.goal.known(self.format) or 0) and len(self.pool) >= _ENOUGH
        return reached or bool(spent - gained > max(_REST_STEPS * self.format.volume**2, _REST_FACTOR * gained))

    def standard(self, turn: int) -> Scheme:
        """The standard algorithm; on a symmetric rung what depends on whose turn it is, a given start or a diagonal."""
        if self.symmetry is None:
            return classical(self.format, self.goal.walked)
        if self.starts:
            return self.starts[turn % len(self.starts)]
        return self.symmetry.start(self.format.n, turn)

    def in_second_phase(self, index: int) -> bool:
        """Whether a walk is in the second phase of its policy, as at every other start of one that has two."""
        return self.policies[self.setting[index]].then is not None and self.restarts[index] % 2 == 1

    def policy(self, index: int) -> Policy:
        """How a walk moves now."""
        policy = self.policies[self.setting[index]]
        return policy.then if policy.then is not None and self.in_second_phase(index) else policy

    def begin(self, scheme: Scheme, seed: int, free: NDArray[np.int64] | None = None) -> Walk:
        """A walk of the rung's kind, in which only the terms ``free`` move unless that is None."""
        return begin(scheme, seed, symmetry=self.symmetry.group if self.symmetry else None, free=free)

    def release(self, index: int) -> None:
        """Let all terms of a walk move, from its lowest scheme on."""
        walk = self.walks[index]
        self.cleared[index] = self.cleared[index] == walk.counters[BEST_AT] + 1
        self.walks[index] = self.begin(lowest(walk), int(walk.rng[0]))

    def clear(self, index: int, worth: Worth) -> bool:
        """Whether a walk may go on from its lowest scheme. Flips and plus transitions do not change the answer."""
        low = int(self.walks[index].counters[BEST_AT]) + 1
        if self.cleared[index] != low and worth(lowest(self.walks[index])):
            self.cleared[index] = low
        return bool(self.cleared[index] == low)

    def add(self, scheme: Scheme, line: int) -> bool:
        """Keep a scheme if it is new and no worse than the pool; whether it was kept.

        It takes the place of another one of the same descent, or of the oldest where there is no room.
        """
        if self.pool and scheme.rank > self.rank:
            return False
        terms = to_masks(scheme).reshape(2, -1, 4)
        # Terms in a fixed order, so that equal sets of terms are equal arrays.
        order = np.lexsort(terms.transpose(0, 2, 1).reshape(8, -1))
        entry = np.ascontiguousarray(terms[:, order]).ravel()
        if self.pool and scheme.rank < self.rank:
            self.pool.clear()
            self.lines = self.lines[:0]
        elif any(np.array_equal(entry, other) for other in self.pool):
            return False
        same = np.flatnonzero(self.lines == line)
        if len(same) or len(self.pool) == _POOL:
            gone = int(same[0]) if len(same) else 0
            del self.pool[gone]
            self.lines = np.delete(self.lines, gone)
        self.pool.append(entry)
        self.lines = np.append(self.lines, line)
        return True

    def pooled(self, index: int) -> Scheme:
        """A scheme of the pool."""
        value, sign = self.pool[index].reshape(2, -1)
        return to_scheme(self.format, self.goal.walked, value, sign)

    def drawn(self, rng: np.random.Generator) -> int:
        """Place of a random scheme of the pool."""
        return int(rng.integers(len(self.pool)))
