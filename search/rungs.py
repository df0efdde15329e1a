"""One format of a campaign: its walks, the pool of its best schemes, and what has worked there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.bounds import best_known
from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from search.blocks import Walk, begin, lowest, to_masks, to_scheme
from search.counters import BEST_AT
from search.policies import Policy
from search.symmetry import Symmetry

Worth = Callable[[Scheme], bool]

# Where a walk can start anew: the standard algorithm, the rung's own pool, a scheme of a lower rung extended, or two
# of lower rungs side by side.
STANDARD, OWN, EXTENDED, MERGED = range(4)

# What a checkpoint keeps of a rung beside its pool and its walks.
NUMBERS = ("owed", "restarts", "setting", "kind", "begun_at", "cleared", "by_policy", "by_kind", "spent")

_POOL = 64
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
        by_kind: [4, 2] int64. Likewise.
        pool: [8 * r] uint64 each: value and sign masks of the distinct best schemes, the oldest first.
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
    by_kind: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 2), np.int64))
    pool: list[NDArray[np.uint64]] = field(default_factory=list)
    spent: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def rank(self) -> int:
        """Rank of the schemes in the pool."""
        return len(self.pool[0]) // 8

    @property
    def floor(self) -> int:
        """Rank at which walks of a lower rung stop: below the best known one over Z nothing over F2 lifts."""
        return (self.goal.known(self.format) or 0) if self.goal.carried else 0

    @property
    def settled(self) -> bool:
        """Whether more steps here promise little: the best known rank is reached, or long walks brought nothing."""
        spent, gained = self.spent
        reached = self.rank <= (self.goal.known(self.format) or 0)
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

    def begin(self, scheme: Scheme, seed: int) -> Walk:
        """A walk of the rung's kind."""
        return begin(scheme, seed, symmetry=self.symmetry.group if self.symmetry else None)

    def clear(self, index: int, worth: Worth) -> bool:
        """Whether a walk may go on from its lowest scheme. Flips and plus transitions do not change the answer."""
        low = int(self.walks[index].counters[BEST_AT]) + 1
        if self.cleared[index] != low and worth(lowest(self.walks[index])):
            self.cleared[index] = low
        return bool(self.cleared[index] == low)

    def add(self, scheme: Scheme) -> bool:
        """Keep a scheme if it is new and no worse than the pool; whether it was kept. The oldest makes room."""
        if self.pool and scheme.rank > self.rank:
            return False
        terms = to_masks(scheme).reshape(2, -1, 4)
        # Terms in a fixed order, so that equal sets of terms are equal arrays.
        order = np.lexsort(terms.transpose(0, 2, 1).reshape(8, -1))
        entry = np.ascontiguousarray(terms[:, order]).ravel()
        if self.pool and scheme.rank < self.rank:
            self.pool.clear()
        elif any(np.array_equal(entry, other) for other in self.pool):
            return False
        self.pool.append(entry)
        if len(self.pool) > _POOL:
            del self.pool[0]
        return True

    def pooled(self, index: int) -> Scheme:
        """A scheme of the pool."""
        value, sign = self.pool[index].reshape(2, -1)
        return to_scheme(self.format, self.goal.walked, value, sign)

    def drawn(self, rng: np.random.Generator) -> Scheme:
        """A random scheme of the pool."""
        return self.pooled(int(rng.integers(len(self.pool))))
