"""Formats solved together: every rung starts from schemes of the rungs below it, set side by side.

From the standard algorithm a walk on a large format does not move: there are too many flips for one reduction. Two
schemes of smaller formats that share two sizes, concatenated, start far below (the extensions and mergers of
Kauers-Wood 2025, arXiv 2505.05896); where one of them has a size of 1, that is an extension by the standard algorithm.
All rungs walk at once and hand their best schemes upwards; settled ones step back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catalog.known import classical
from catalog.scheme import Format, Scheme
from catalog.transform import AXES, extend, orient, orientations
from search.restarts import LARGE_VOLUME, Merger, mergers, restart, walk_seed, ways_to
from search.rungs import EXTENDED, OWN, STANDARD, Goal, Rung, Worth
from search.walks.blocks import lowest
from search.walks.counters import BEST_AT, STEPS, STUCK
from search.walks.policies import forget, portfolio
from search.walks.symmetry import Symmetry

# The standard algorithm is a good start up to this many products.
_EASY_VOLUME = 27
_LOWER_WALKERS = 4
# Walks of lower rungs that are not settled, all rungs together, as far as each has at least two.
_LOWER_SHARE = 4
# All terms of a walk move once some of them have for nothing for this part of the steps after which it starts anew.
_RELEASE = 4
# A format is a rung if extending its best known scheme comes within so many products of the best extension.
_PROMISE = 1
# A settled rung still walks in one round of so many: a chain may need another scheme of the rank it has.
_REST_ROUNDS = 16


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
    given: dict[str, Any],
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
        policies = portfolio(size, goal.walked, symmetry is not None)
        if top:
            policies = [replace(policy, then=None, **given) for policy in policies] if given else policies
            policies = list(dict.fromkeys(policies))
        rung = Rung(size, goal, policies, symmetry)
        count = walkers if top else _LOWER_WALKERS
        for name in ("owed", "restarts", "setting", "kind", "begun_at", "cleared", "line"):
            setattr(rung, name, np.zeros(count, np.int64))
        rung.setting[:] = np.arange(count) % len(policies)
        rung.by_policy = np.zeros((len(policies), 2), np.int64)
        rung.line[:] = np.arange(1, count + 1)
        rung.add(classical(size, goal.walked), 0)
        ladder.append(rung)
    own = _hand_out(ladder, starts)
    ladder[-1].starts = own if symmetry is not None else ()
    for level, rung in enumerate(ladder):
        first = _in_turn(own) if rung is ladder[-1] else []
        for index in range(len(rung.owed)):
            scheme = first[index % len(first)] if first else rung.standard(index)
            rung.kind[index], rung.begun_at[index] = OWN if first else STANDARD, scheme.rank
            rung.walks.append(rung.begin(scheme, walk_seed(seed, level, index, 0)))
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
            if walk.lowest_rank <= rung.rank:
                if not rung.clear(index, worth):
                    barred.add(index)
                    walk.counters[STUCK] = 1
                elif rung.add(scheme := lowest(walk), int(rung.line[index])):
                    fresh.append(scheme)
        fresh = [scheme for scheme in fresh if scheme.rank == rung.rank]
        if rung.rank < before:
            rung.spent[1] = rung.spent[0]
            forget(rung.by_policy)
            forget(rung.by_kind)
        ways = {} if rung.symmetry else ways_to(rung.format, ranks)
        for index, walk in enumerate(rung.walks):
            best, idle = walk.lowest_rank, int(walk.counters[STEPS] - walk.counters[BEST_AT])
            # Medium formats are often reached from the standard algorithm as soon; every other walk stays with it.
            alone = index % 2 == 0 and rung.format.volume <= LARGE_VOLUME
            # A scheme from elsewhere, a projection for one, gets its time though an extension has fewer products.
            behind = EXTENDED in ways and ways[EXTENDED][0][0] < best and idle >= block
            behind = behind and not alone and rung.kind[index] != OWN
            done = rung is not ladder[-1] and walk.rank <= rung.floor
            patience = rung.policy(index).restart
            if walk.standing and not (behind or done or index in barred):
                if idle >= patience // _RELEASE or walk.counters[STUCK]:
                    rung.release(index)
            elif behind or done or idle >= patience or walk.counters[STUCK]:
                if not behind and walk.counters[STEPS]:
                    # A walk has done well if it reached the lowest rank by itself.
                    failed = int(index in barred or not best <= min(rung.rank, int(rung.begun_at[index]) - 1))
                    rung.by_policy[rung.setting[index], failed] += 1
                    rung.by_kind[rung.kind[index], failed] += 1
                restart(ladder, level, index, ways, behind, seed)
        ranks[rung.format.sorted] = rung.rank
    return fresh


def _in_turn(schemes: list[Scheme]) -> list[Scheme]:
    """Schemes of least rank and the others by turns: those nearest to the goal, and those that lie elsewhere."""
    ordered = sorted(schemes, key=lambda scheme: scheme.rank)
    least = [scheme for scheme in ordered if scheme.rank == ordered[0].rank]
    others = ordered[len(least) :] or least
    return [group[turn % len(group)] for turn in range(max(len(least), len(others))) for group in (least, others)]


def _hand_out(ladder: list[Rung], starts: Sequence[Scheme]) -> list[Scheme]:
    """Put given schemes into the pools; returns those of the top rung's format, extended ones among them."""
    rungs = {rung.format.sorted: rung for rung in ladder[:-1]}
    top = ladder[-1]
    own = []
    for number, scheme in enumerate(starts, 1):
        if scheme.format.sorted in rungs:
            rungs[scheme.format.sorted].add(orient(scheme, rungs[scheme.format.sorted].format), -number)
        else:
            own.append(grow(scheme, top.format))
    for number, scheme in enumerate(own, 1):
        top.add(scheme, -number)
    return own
