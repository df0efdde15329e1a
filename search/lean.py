"""Schemes of equal rank with fewer additions: walks over ternary schemes that are steered by the additions.

A round takes a scheme, leaves it by a walk with plus transitions (``search.walks``) that comes back to the same rank
elsewhere in the flip graph, and anneals what it finds by flips and elementary changes of basis, the additions after a
greedy elimination being the energy. Flip graphs with elimination in the loop gave 3x3x3:23 its 58 additions (Perminov
2025, arXiv 2512.21980); the changes of basis are ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from catalog.scheme import Format, Ring, Scheme
from catalog.verify import require_exact
from search.walks.blocks import advance, begin, lowest, to_masks
from search.walks.policies import Policy

_MOVES = 30_000
_HOT, _COLD = 1.0, 0.3
# Steps of the walk between two schemes, and how often it takes a plus.
_STEPS, _LEAVE = 200_000, Policy(plus_interval=3_000, margin=2, restart=1 << 40, split=0.5)
_BITS = 62


@dataclass(frozen=True)
class Lean:
    """A scheme with fewer additions than all before it.

    Attributes:
        scheme: exact, ternary over Z.
        additions: of a program that a greedy elimination finds for it; longer searches may find fewer.
        round: in which it was found, 0 for the one that anneals the start itself.
    """

    scheme: Scheme
    additions: int
    round: int


def fewer_additions(
    start: Scheme,
    *,
    seed: int = 0,
    rounds: int | None = None,
    budget_s: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Lean]:
    """Yield schemes of the start's format and rank, each with fewer additions than the one before.

    For a seed they are the same ones every time; with a budget only how far the search gets differs.

    Args:
        start: exact and ternary over Z.
        seed: of all random choices.
        rounds: how many rounds at most; None for no limit but the time.
        budget_s: seconds after which no round is begun; None for no limit.
        should_stop: asked between rounds.

    Raises:
        ValueError: the start is not ternary, too large, or both limits are missing.
    """
    if rounds is None and budget_s is None:
        raise ValueError("give rounds or budget_s; without either the search has no end")
    if not start.is_ternary:
        raise ValueError(f"{start} is not ternary over Z; walks for few additions need coefficients in {{-1, 0, 1}}")
    if max(len(factor) for factor in start.factors) > _BITS:
        raise ValueError(
            f"{start.format} has more than {_BITS} blocks in a matrix; use smaller schemes and compose them"
        )
    return _rounds(start, seed, rounds, budget_s, should_stop)


def _rounds(
    start: Scheme, seed: int, rounds: int | None, budget_s: float | None, should_stop: Callable[[], bool]
) -> Iterator[Lean]:
    begun = time.monotonic()
    seeds = np.random.SeedSequence(seed)
    best, fewest, here, number = start, None, start, 0
    while (rounds is None or number < rounds) and not should_stop():
        if budget_s is not None and number and time.monotonic() - begun > budget_s:
            return
        walk_seed, moves_seed = (int(word) for word in seeds.spawn(1)[0].generate_state(2, np.uint64))
        if number:
            here = _elsewhere(best if number % 2 else here, walk_seed)
        scheme, additions = anneal(here, moves_seed)
        if fewest is None or additions < fewest:
            best, fewest = require_exact(scheme), additions
            yield Lean(best, additions, number)
        number += 1


def _elsewhere(scheme: Scheme, seed: int) -> Scheme:
    """Another scheme of the same rank, or the same one where the walk does not come back."""
    walk = begin(scheme, seed)
    advance(walk, _STEPS, scheme.rank - 1, _LEAVE)
    found = lowest(walk)
    return found if found.rank == scheme.rank else scheme


def anneal(scheme: Scheme, seed: int, moves: int = _MOVES) -> tuple[Scheme, int]:
    """The scheme of fewest additions that an annealed walk meets, and its additions after greedy elimination."""
    from search.walks.lean_kernels import lean_walk

    format, rank = scheme.format, scheme.rank
    value, sign = to_masks(scheme).reshape(2, rank, 4)[:, :, :3].transpose(0, 2, 1).astype(np.int64)
    plus, minus = value & ~sign, sign.copy()
    best = np.zeros((2, 3, rank), np.int64)
    costs = np.array([-1, -1], np.int64)
    rng = np.array([seed | 1], np.uint64)
    lean_walk(plus, minus, np.array(format, np.int64), best, costs, rng, moves, _HOT, _COLD)
    return _scheme(format, *best), int(costs[1]) + rank - format.m * format.n


def _scheme(format: Format, plus: np.ndarray, minus: np.ndarray) -> Scheme:
    factors = []
    for mode, size in enumerate((format.m * format.k, format.k * format.n, format.m * format.n)):
        bits = np.arange(size, dtype=np.int64)[:, None]
        factors.append((plus[mode][None] >> bits & 1) - (minus[mode][None] >> bits & 1))
    return Scheme(format, Ring.Z, *factors)
