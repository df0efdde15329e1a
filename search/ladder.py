"""Formats solved together: every rung is the one below it enlarged by one slice.

From the standard algorithm a walk on a large format does not move: there are too many flips for one reduction. A
scheme of the format with one slice less, extended by the standard algorithm of the missing slice, starts far below
(the edge constraints of Arai-Ichikawa-Hukushima 2023 and the extensions of Kauers-Wood 2025 rest on this). All rungs
walk at once and hand their best schemes upwards, so no rank of a smaller format has to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import Axis, extend, orientations
from search.blocks import Policy, Walk, begin, lowest, to_masks, to_scheme
from search.counters import BEST, BEST_AT, STEPS, STUCK
from search.orbits import Symmetry, standard

# The standard algorithm is a good start up to this many products.
_EASY_VOLUME = 27
_LOWER_WALKERS = 2
_POOL = 64
# A lower rung rests once it has walked for nothing this many steps times the square of its volume, and this multiple
# of the steps up to its last gain. A resting rung still walks in one round of four: 4x4x4:47 takes some 2e9 steps.
_REST_STEPS, _REST_FACTOR = 100_000, 10
REST_ROUNDS = 4


@dataclass
class Rung:
    """One format of the ladder, its walks and the pool of its best schemes.

    Attributes:
        format: what its schemes multiply.
        axis: dimension along which the rung below is extended, None on the lowest rung.
        policies: one for every walk.
        walks: the walks; each belongs to one thread at a time.
        owed: [walks] int64. Steps left in the current round.
        restarts: [walks] int64. How often each walk was started anew.
        pool: [8 * r] uint64 each: value and sign masks of the distinct best schemes, the oldest first.
        spent: steps of all walks, and the same at the last gain.
        symmetry: what the walks keep invariant, None for nothing.
    """

    format: Format
    axis: Axis | None
    policies: Sequence[Policy]
    walks: list[Walk] = field(default_factory=list)
    owed: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    restarts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    pool: list[NDArray[np.uint64]] = field(default_factory=list)
    spent: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, np.int64))
    symmetry: Symmetry | None = None

    @property
    def rank(self) -> int:
        """Rank of the schemes in the pool."""
        return len(self.pool[0]) // 8

    def standard(self, ring: Ring, turn: int) -> Scheme:
        """The standard algorithm; of a symmetric rung in a form that depends on whose turn it is."""
        if self.symmetry is None:
            return classical(self.format, ring)
        diagonals = self.symmetry.diagonals
        return standard(self.format.n, diagonals[turn % len(diagonals)])

    def begin(self, scheme: Scheme, seed: int) -> Walk:
        """A walk of the rung's kind."""
        return begin(scheme, seed, symmetric=self.symmetry is not None)

    @property
    def resting(self) -> bool:
        """Whether more steps here promise little."""
        spent, gained = self.spent
        return bool(spent - gained > max(_REST_STEPS * self.format.volume**2, _REST_FACTOR * gained))


def formats_below(format: Format) -> list[tuple[Format, Axis | None]]:
    """The ladder that ends at a format, lowest first, each with the axis along which the one before is extended."""
    axis: Axis = max(("m", "k", "n"), key=lambda name: getattr(format, name))
    smaller = format._replace(**{axis: getattr(format, axis) - 1})
    if format.volume <= _EASY_VOLUME or min(smaller) < 2:
        return [(format, None)]
    return [*formats_below(smaller), (format, axis)]


def default_policies(format: Format, count: int, symmetric: bool = False) -> list[Policy]:
    """A portfolio: small formats want many plus transitions and a low ceiling, large ones the contrary."""
    if symmetric:
        settings, restart = [(20_000, 1), (40_000, 1)], 60_000_000
    elif format.volume <= 40:
        settings = [(10_000, 1), (3_000, 1), (10_000, 1), (1_000, 1), (30_000, 2), (3_000, 1), (10_000, 1), (1_000, 1)]
        restart = 20_000_000
    elif format.volume <= 64:
        settings = [(1_000, 1), (3_000, 1), (1_000, 1), (10_000, 1), (1_000, 1), (3_000, 1), (1_000, 1), (30_000, 2)]
        restart = 10_000_000
    else:
        settings = [(30_000, 2), (100_000, 2), (30_000, 2), (10_000, 1), (100_000, 2), (30_000, 2), (50_000, 2)]
        restart = 50_000_000
    return [Policy(*settings[i % len(settings)], restart) for i in range(count)]


def build(
    format: Format,
    ring: Ring,
    seed: int,
    policies: Sequence[Policy],
    starts: Sequence[Scheme],
    climb: bool,
    symmetry: Symmetry | None = None,
) -> list[Rung]:
    """The rungs with their first walks.

    Args:
        format: of the top rung.
        ring: of every scheme.
        seed: of all random choices.
        policies: one for every walk of the top rung.
        starts: schemes of the top rung's format to start from, beside the standard algorithm.
        climb: whether to have rungs below the top.
        symmetry: what the walks keep invariant; then there is one rung.
    """
    plan = formats_below(format) if climb and symmetry is None else [(format, None)]
    ladder = []
    for level, (size, axis) in enumerate(plan):
        top = level == len(plan) - 1
        rung = Rung(size, axis, policies if top else default_policies(size, _LOWER_WALKERS), symmetry=symmetry)
        count = len(rung.policies)
        rung.owed, rung.restarts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        given = list(starts) if top else []
        for scheme in [classical(size, ring), *given]:
            add(rung, scheme)
        for index in range(count):
            scheme = given[index % len(given)] if given else rung.standard(ring, index)
            rung.walks.append(rung.begin(scheme, _seed(seed, level, index, 0)))
        ladder.append(rung)
    return ladder


def grow(scheme: Scheme, format: Format) -> Scheme:
    """A role permutation of a scheme, extended by the standard algorithm to a format.

    Raises:
        ValueError: no role permutation fits into the format.
    """
    for turned in orientations(scheme):
        missing = [whole - part for part, whole in zip(turned.format, format, strict=True)]
        if min(missing) >= 0:
            axes: tuple[Axis, ...] = ("m", "k", "n")
            for axis, by in zip(axes, missing, strict=True):
                turned = extend(turned, axis, by) if by else turned
            return turned
    raise ValueError(f"a {scheme.format} scheme does not fit into {format}; give one of at most these sizes")


def add(rung: Rung, scheme: Scheme) -> bool:
    """Keep a scheme in the pool if it is new there and no worse; whether it was kept. The oldest makes room."""
    if rung.pool and scheme.rank > rung.rank:
        return False
    terms = to_masks(scheme).reshape(2, -1, 4)
    # Terms in a fixed order, so that equal sets of terms are equal arrays.
    order = np.lexsort(terms.transpose(0, 2, 1).reshape(8, -1))
    entry = np.ascontiguousarray(terms[:, order]).ravel()
    if rung.pool and scheme.rank < rung.rank:
        rung.pool.clear()
    elif any(np.array_equal(entry, other) for other in rung.pool):
        return False
    rung.pool.append(entry)
    if len(rung.pool) > _POOL:
        del rung.pool[0]
    return True


def pooled(rung: Rung, ring: Ring, index: int) -> Scheme:
    """A scheme of the pool."""
    value, sign = rung.pool[index].reshape(2, -1)
    return to_scheme(rung.format, ring, value, sign)


def merge(ladder: list[Rung], ring: Ring, seed: int, block: int) -> list[Scheme]:
    """End a round: gather the best schemes in the order of rungs and walks, restart walks that stagnate.

    Args:
        ladder: the rungs, whose walks have all done their ``block`` steps.
        ring: of every scheme.
        seed: of all random choices.
        block: steps of the round per walk.

    Returns:
        What entered the pool of the top rung.
    """
    fresh: list[Scheme] = []
    for level, rung in enumerate(ladder):
        before = rung.rank
        fresh = []
        for walk in rung.walks:
            if walk.counters[BEST] <= rung.rank:
                scheme = lowest(walk)
                if add(rung, scheme):
                    fresh.append(scheme)
        fresh = [scheme for scheme in fresh if scheme.rank == rung.rank]
        if rung.rank < before:
            rung.spent[1] = rung.spent[0]
        below = ladder[level - 1] if rung.axis else None
        extended = below.rank + rung.format.volume - below.format.volume if below else 0
        for index, walk in enumerate(rung.walks):
            best, idle = int(walk.counters[BEST]), int(walk.counters[STEPS] - walk.counters[BEST_AT])
            behind = below is not None and extended < best and idle >= block
            if not (behind or idle >= rung.policies[index].restart or walk.counters[STUCK]):
                continue
            rung.restarts[index] += 1
            rng = np.random.default_rng([seed % (1 << 64), level, index, int(rung.restarts[index])])
            draw = rng.random()
            if below is not None and rung.axis is not None and (behind or draw < 0.4):
                scheme = extend(pooled(below, ring, int(rng.integers(len(below.pool)))), rung.axis)
            elif draw < 0.9 if below is not None else draw < 0.5:
                scheme = pooled(rung, ring, int(rng.integers(len(rung.pool))))
            else:
                scheme = rung.standard(ring, index + int(rung.restarts[index]))
            rung.walks[index] = rung.begin(scheme, _seed(seed, level, index, int(rung.restarts[index])))
            if behind:
                rung.spent[1] = rung.spent[0]
    return fresh


def _seed(seed: int, level: int, index: int, restart: int) -> int:
    words = np.random.SeedSequence([seed % (1 << 64), level, index, restart, 1]).generate_state(1, np.uint64)
    return int(words[0])
