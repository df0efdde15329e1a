"""Formats solved together: every rung starts from schemes of the rungs below it, set side by side.

From the standard algorithm a walk on a large format does not move: there are too many flips for one reduction. Two
schemes of smaller formats that share two sizes, concatenated, start far below (the extensions and mergers of
Kauers-Wood 2025, arXiv 2505.05896); where one of them has a size of 1, that is an extension by the standard algorithm.
All rungs walk at once and hand their best schemes upwards; settled ones step back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from catalog.known import classical
from catalog.scheme import Format, Scheme
from catalog.transform import Axis, concatenate, extend, orient, orientations
from search.blocks import lowest
from search.counters import BEST, BEST_AT, RANK, STEPS, STUCK
from search.meta import AXES
from search.orbits import Symmetry
from search.policies import choose, forget, portfolio
from search.rungs import EXTENDED, MERGED, OWN, STANDARD, Goal, Rung, Worth

# The standard algorithm is a good start up to this many products.
_EASY_VOLUME = 27
# Beyond this many products it is of no use.
_LARGE_VOLUME = 64
_LOWER_WALKERS = 4
# Walks of lower rungs that are not settled, all rungs together, as far as each has at least two.
_LOWER_SHARE = 4
# A format is a rung if extending its best known scheme comes within so many products of the best extension.
_PROMISE = 1
# A settled rung still walks in one round of so many: a chain may need another scheme of the rank it has.
_REST_ROUNDS = 16
# Mergers are drawn with weights that fall by half for each product more than the least.
_SLACK = 3


class Merger(NamedTuple):
    """Two formats that are a given one when they stand side by side along an axis."""

    axis: Axis
    first: Format
    second: Format

    @property
    def extends(self) -> bool:
        """Whether one of them is a single slice, for which there is only the standard algorithm."""
        return getattr(self.first, self.axis) == 1


def mergers(format: Format) -> Iterator[Merger]:
    """All ways to divide a format into two along one dimension."""
    for axis in AXES:
        size = getattr(format, axis)
        for part in range(1, size // 2 + 1):
            first, second = (format._replace(**{axis: length}) for length in (part, size - part))
            yield Merger(axis, first, second)


def formats_below(format: Format, goal: Goal) -> list[Format]:
    """The rungs of a format, itself last: what it is extended from, what that is extended from, and so on."""
    found: set[Format] = set()

    def promise(merger: Merger) -> int:
        return sum(goal.known(part) or part.volume for part in (merger.first, merger.second))

    def visit(size: Format) -> None:
        if size.volume > _EASY_VOLUME:
            extensions = [merger for merger in mergers(size) if merger.extends]
            least = min(map(promise, extensions))
            for merger in extensions:
                for part in (merger.first.sorted, merger.second.sorted) if promise(merger) <= least + _PROMISE else ():
                    if min(part) > 1 and part not in found:
                        found.add(part)
                        visit(part)

    visit(format)
    return [*sorted(found, key=lambda size: (size.volume, size)), format]


def build(
    format: Format,
    goal: Goal,
    seed: int,
    walkers: int,
    given: dict[str, int],
    starts: Sequence[Scheme],
    climb: bool,
    symmetry: Symmetry | None = None,
) -> list[Rung]:
    """The rungs with their first walks.

    Args:
        format: of the top rung.
        goal: what the schemes are for.
        seed: of all random choices.
        walkers: walks of the top rung.
        given: fields of ``Policy`` that are the same for all walks of the top rung.
        starts: schemes to start from, over the walked ring. Those that fit into a lower rung go to its pool, smaller
            ones are extended.
        climb: whether to have rungs below the top.
        symmetry: what the walks keep invariant; then there is one rung.
    """
    plan = formats_below(format, goal) if climb and symmetry is None else [format]
    ladder = []
    for level, size in enumerate(plan):
        top = level == len(plan) - 1
        policies = portfolio(size, symmetry is not None)
        if top:
            policies = list(dict.fromkeys(replace(policy, **given) for policy in policies))
        rung = Rung(size, goal, policies, symmetry)
        count = walkers if top else _LOWER_WALKERS
        for name in ("owed", "restarts", "policy", "kind", "begun_at", "cleared"):
            setattr(rung, name, np.zeros(count, np.int64))
        rung.policy[:] = np.arange(count) % len(policies)
        rung.by_policy = np.zeros((len(policies), 2), np.int64)
        rung.add(classical(size, goal.walked))
        ladder.append(rung)
    own = _hand_out(ladder, starts)
    for level, rung in enumerate(ladder):
        first = own if rung is ladder[-1] else []
        for index in range(len(rung.owed)):
            scheme = first[index % len(first)] if first else rung.standard(index)
            rung.kind[index], rung.begun_at[index] = OWN if first else STANDARD, scheme.rank
            rung.walks.append(rung.begin(scheme, _seed(seed, level, index, 0)))
    return ladder


def grow(scheme: Scheme, format: Format) -> Scheme:
    """A role permutation of a scheme, extended by the standard algorithm to a format.

    Raises:
        ValueError: no role permutation fits into the format.
    """
    for turned in orientations(scheme):
        missing = [whole - part for part, whole in zip(turned.format, format, strict=True)]
        if min(missing) >= 0:
            for axis, by in zip(AXES, missing, strict=True):
                turned = extend(turned, axis, by) if by else turned
            return turned
    raise ValueError(f"a {scheme.format} scheme does not fit into {format}; give one of at most these sizes")


def owe(ladder: list[Rung], number: int, block: int) -> None:
    """Begin a round: the walks that are to move owe a block of steps.

    Args:
        ladder: the rungs.
        number: of the round.
        block: steps of each walk.
    """
    moving = [rung for rung in ladder[:-1] if not rung.settled]
    for rung in ladder:
        rung.owed[:] = block if rung is ladder[-1] or number % _REST_ROUNDS == 0 else 0
    for rung in moving:
        rung.owed[: max(2, _LOWER_SHARE // len(moving))] = block


def merge(ladder: list[Rung], seed: int, block: int, worth: Worth) -> list[Scheme]:
    """End a round: gather the best schemes in the order of rungs and walks, restart walks that stagnate.

    Args:
        ladder: the rungs, whose walks have done the steps that they owed.
        seed: of all random choices.
        block: steps of the round per walk.
        worth: whether a scheme may be kept and walked on from.

    Returns:
        What entered the pool of the top rung.
    """
    fresh: list[Scheme] = []
    ranks: dict[Format, int] = {}
    for level, rung in enumerate(ladder):
        before, fresh, barred = rung.rank, [], set()
        for index, walk in enumerate(rung.walks):
            if walk.counters[BEST] <= rung.rank:
                if not rung.clear(index, worth):
                    barred.add(index)
                elif rung.add(scheme := lowest(walk)):
                    fresh.append(scheme)
        fresh = [scheme for scheme in fresh if scheme.rank == rung.rank]
        if rung.rank < before:
            rung.spent[1] = rung.spent[0]
            forget(rung.by_policy)
            forget(rung.by_kind)
        ways = {} if rung.symmetry else _ways(rung.format, ranks)
        extended = ways[EXTENDED][0][0] if EXTENDED in ways else rung.format.volume
        for index, walk in enumerate(rung.walks):
            best, idle = int(walk.counters[BEST]), int(walk.counters[STEPS] - walk.counters[BEST_AT])
            # Medium formats are often reached from the standard algorithm as soon; every other walk stays with it.
            behind = extended < best and idle >= block and (index % 2 or rung.format.volume > _LARGE_VOLUME)
            done = rung is not ladder[-1] and walk.counters[RANK] <= rung.floor
            patience = rung.policies[rung.policy[index]].restart
            if behind or done or index in barred or idle >= patience or walk.counters[STUCK]:
                if not behind:
                    # A walk has done well if it reached the lowest rank by itself.
                    failed = int(index in barred or not best <= min(rung.rank, int(rung.begun_at[index]) - 1))
                    rung.by_policy[rung.policy[index], failed] += 1
                    rung.by_kind[rung.kind[index], failed] += 1
                _restart(ladder, level, index, ways, behind, seed)
        ranks[rung.format.sorted] = rung.rank
    return fresh


def _hand_out(ladder: list[Rung], starts: Sequence[Scheme]) -> list[Scheme]:
    """Put given schemes into the pools; returns those of the top rung's format, extended ones among them."""
    rungs = {rung.format.sorted: rung for rung in ladder[:-1]}
    top = ladder[-1]
    own = []
    for scheme in starts:
        if scheme.format.sorted in rungs:
            rungs[scheme.format.sorted].add(orient(scheme, rungs[scheme.format.sorted].format))
        else:
            own.append(grow(scheme, top.format))
    for scheme in own:
        top.add(scheme)
    return own


def _ways(format: Format, ranks: dict[Format, int]) -> dict[int, list[tuple[int, Merger]]]:
    """Extensions and other mergers of rungs with the ranks that they give, least first, where those beat the volume."""
    ways: dict[int, list[tuple[int, Merger]]] = {}
    for merger in mergers(format):
        parts = (merger.first.sorted, merger.second.sorted)
        rank = sum(ranks.get(part, part.volume) for part in parts)
        if rank < format.volume and all(part in ranks or min(part) == 1 for part in parts):
            ways.setdefault(EXTENDED if merger.extends else MERGED, []).append((rank, merger))
    return {kind: sorted(found) for kind, found in ways.items()}


def _restart(
    ladder: list[Rung], level: int, index: int, ways: dict[int, list[tuple[int, Merger]]], behind: bool, seed: int
) -> None:
    """Start a walk anew, with a policy and from a place that have worked, or have not been tried yet."""
    rung = ladder[level]
    rung.restarts[index] += 1
    restart = int(rung.restarts[index])
    rng = np.random.default_rng([seed % (1 << 64), level, index, restart])
    rung.policy[index] = choose(rung.by_policy, rng)
    kinds = [OWN, *ways]
    if not ways or rung.format.volume <= _LARGE_VOLUME:
        kinds.append(STANDARD)
    kind = EXTENDED if behind else kinds[choose(rung.by_kind[kinds], rng)]
    if kind == STANDARD:
        scheme = rung.standard(index + restart)
    elif kind == OWN:
        scheme = rung.drawn(rng)
    else:
        scheme = _merged(ladder, ways[kind], rng)
    # What is made of schemes that may be walked on from is one of them; at the start there is one step to clear.
    rung.kind[index], rung.begun_at[index], rung.cleared[index] = kind, scheme.rank, 1
    rung.walks[index] = rung.begin(scheme, _seed(seed, level, index, restart))


def _merged(ladder: list[Rung], ways: list[tuple[int, Merger]], rng: np.random.Generator) -> Scheme:
    """Schemes of lower rungs side by side, those that give few products most often."""
    near = [(rank, merger) for rank, merger in ways if rank <= ways[0][0] + _SLACK]
    weights = np.array([0.5 ** (rank - ways[0][0]) for rank, _ in near])
    _, merger = near[int(rng.choice(len(near), p=weights / weights.sum()))]
    rungs = {rung.format.sorted: rung for rung in ladder}
    parts = []
    for part in (merger.first, merger.second):
        rung = rungs.get(part.sorted)
        parts.append(classical(part, ladder[0].goal.walked) if rung is None else orient(rung.drawn(rng), part))
    return concatenate(parts[0], parts[1], merger.axis)


def _seed(seed: int, level: int, index: int, restart: int) -> int:
    words = np.random.SeedSequence([seed % (1 << 64), level, index, restart, 1]).generate_state(1, np.uint64)
    return int(words[0])
