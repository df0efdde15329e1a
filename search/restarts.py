"""Where a walk starts anew: the standard algorithm, the pool of its rung, or schemes of lower rungs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from catalog.known import classical
from catalog.scheme import Format, Scheme
from catalog.transform import AXES, Axis, concatenate, orient
from search.rungs import EXTENDED, MERGED, NEIGHBOURHOOD, OWN, SEAM, STANDARD, Rung
from search.walks.blocks import lowest
from search.walks.counters import STUCK
from search.walks.policies import choose
from search.walks.regions import neighbourhood, seam

# Beyond this many products the standard algorithm is of no use.
LARGE_VOLUME = 64
# Mergers are drawn with weights that fall by half for each product more than the least.
_SLACK = 3
# Symmetric walks: how far above the lowest rank a second phase begins, and how often it does from the pool elsewhere.
_CLOSE, _POOL_SHARE = 3, 0.25


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


def ways_to(format: Format, ranks: dict[Format, int]) -> dict[int, list[tuple[int, Merger]]]:
    """Extensions and other mergers of rungs with the ranks that they give, least first, where those beat the volume."""
    ways: dict[int, list[tuple[int, Merger]]] = {}
    for merger in mergers(format):
        parts = (merger.first.sorted, merger.second.sorted)
        rank = sum(ranks.get(part, part.volume) for part in parts)
        if rank < format.volume and all(part in ranks or min(part) == 1 for part in parts):
            ways.setdefault(EXTENDED if merger.extends else MERGED, []).append((rank, merger))
    return {kind: sorted(found) for kind, found in ways.items()}


def restart(
    ladder: list[Rung], level: int, index: int, ways: dict[int, list[tuple[int, Merger]]], behind: bool, seed: int
) -> None:
    """Start a walk anew, with a policy and from a place that have worked, or have not been tried yet."""
    rung = ladder[level]
    rung.restarts[index] += 1
    number = int(rung.restarts[index])
    rng = np.random.default_rng([seed % (1 << 64), level, index, number])
    # A lower rung that has its best known rank needs other descents to it, not more of the ones it has.
    kinds = [*ways] if level < len(ladder) - 1 and rung.rank <= rung.floor else [OWN, *ways]
    if not ways or rung.format.volume <= LARGE_VOLUME:
        kinds.append(STANDARD)
    if rung.format.volume > LARGE_VOLUME:
        kinds += [NEIGHBOURHOOD] * (OWN in kinds) + [SEAM] * bool(ways)
    free = None
    line = len(rung.walks) * number + index + 1
    kind = EXTENDED if behind else kinds[choose(rung.by_kind[kinds], rng)]
    if rung.symmetry is not None:
        kind, scheme, line = _symmetric_restart(rung, index, rng)
    elif kind == STANDARD:
        scheme = rung.standard(index + number)
    elif kind in (OWN, NEIGHBOURHOOD):
        place = rung.drawn(rng)
        scheme, line = rung.pooled(place), int(rung.lines[place])
        free = neighbourhood(scheme, rng) if kind == NEIGHBOURHOOD else None
    else:
        scheme, new = _merged(ladder, sorted(chain(*ways.values())) if kind == SEAM else ways[kind], rng)
        free = seam(scheme, new) if kind == SEAM else None
    if not rung.in_second_phase(index):
        rung.setting[index] = choose(rung.by_policy, rng)
    rung.kind[index], rung.begun_at[index], rung.line[index] = kind, scheme.rank, line
    # What is made of schemes that may be walked on from is one of them; a walk's own lowest scheme has not been asked.
    rung.cleared[index] = rung.symmetry is None
    rung.walks[index] = rung.begin(scheme, walk_seed(seed, level, index, number), free)


def _symmetric_restart(rung: Rung, index: int, rng: np.random.Generator) -> tuple[int, Scheme, int]:
    """Where a symmetric walk goes on: in the second phase from its own lowest scheme, then from the start.

    Many of the lowest schemes are dead ends and some lead on at once, so that a new one is worth more than another walk
    from an old one. Walks that ended high skip the second phase, or now and then take a scheme of the pool into it.
    """
    walk = rung.walks[index]
    if rung.in_second_phase(index):
        if walk.lowest_rank <= rung.rank + _CLOSE and not walk.counters[STUCK]:
            return OWN, lowest(walk), int(rung.line[index])
        if rng.random() < _POOL_SHARE:
            place = rung.drawn(rng)
            return OWN, rung.pooled(place), int(rung.lines[place])
        rung.restarts[index] += 1
    number = int(rung.restarts[index])
    return STANDARD, rung.standard(index + number // 2), len(rung.walks) * number + index + 1


def _merged(ladder: list[Rung], ways: list[tuple[int, Merger]], rng: np.random.Generator) -> tuple[Scheme, int]:
    """Schemes of lower rungs side by side, those that give few products most often, and the rank of the first.

    That rank says which terms are of the first one only as long as ``concatenate`` keeps every term of both, in their
    order: merging terms that agree in two factors, as projections do, would move the border.
    """
    near = [(rank, merger) for rank, merger in ways if rank <= ways[0][0] + _SLACK]
    weights = np.array([0.5 ** (rank - ways[0][0]) for rank, _ in near])
    _, merger = near[int(rng.choice(len(near), p=weights / weights.sum()))]
    rungs = {rung.format.sorted: rung for rung in ladder}
    parts = []
    for part in (merger.first, merger.second):
        rung = rungs.get(part.sorted)
        parts.append(
            classical(part, ladder[0].goal.walked) if rung is None else orient(rung.pooled(rung.drawn(rng)), part)
        )
    return concatenate(parts[0], parts[1], merger.axis), parts[0].rank


def walk_seed(seed: int, level: int, index: int, restart: int) -> int:
    """Seed of the walk at a place of the ladder after so many restarts."""
    words = np.random.SeedSequence([seed % (1 << 64), level, index, restart, 1]).generate_state(1, np.uint64)
    return int(words[0])
