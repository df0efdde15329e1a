"""Tree search over the TensorGame without a network: PUCT guided by the slice-rank bound.

After AlphaTensor (Fawzi et al., Nature 610, 2022), with its network replaced by a constructive bound: priors and
values are lengths that can really be reached, and a position whose bound closes the game within the target ends the
search. Each game starts in a random basis. A few long games start at the empty board; then most games are short and
replay the shortest game so far but for a few terms that lie close together, to look for another end that is shorter
or as long. Those small plateau moves are what reaches 2x3x3:15 and 3x3x3:23.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from catalog.scheme import Format, Ring, Scheme
from catalog.verify import require_exact
from search.games.game import (
    Moves,
    change_basis,
    factor_sizes,
    inverse_basis,
    opening,
    random_basis,
    require_playable,
    scheme_of,
    tensor_of,
)

# A game from the empty board opens the search and then comes back once in so many games.
_FULL_GAMES, _FULL_EVERY = 2, 100
_FULL_SIMULATIONS, _REPLAY_SIMULATIONS = 320, 4
# Terms that a replay leaves open.
_OPEN_TERMS = (6, 12)
# Between kernel calls of so many simulations the clock and the stop flag are read.
_CHUNK = 16
_PROGRESS_S = 0.25
_EXPLORATION, _WIDE, _SHARPNESS = 0.5, 1.0, 4.0


@dataclass(frozen=True)
class Progress:
    """State of a search, a few times a second and at its end.

    Attributes:
        simulations: run so far.
        best: rank of the best scheme so far.
        seconds: since the start, compiling left out.
    """

    simulations: int
    best: int
    seconds: float


@dataclass(frozen=True)
class Found:
    """A scheme of lower rank than any before, exact over F2.

    Attributes:
        scheme: over F2.
        simulations: run so far.
        seconds: since the start, compiling left out.
    """

    scheme: Scheme
    simulations: int
    seconds: float


def play(
    format: Format,
    ring: Ring = Ring.F2,
    target: int = 1,
    *,
    seed: int = 0,
    budget_s: float | None = None,
    simulations: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Progress | Found]:
    """Play until a scheme of the target rank is found or the budget ends.

    With the same seed and ``simulations`` (and no ``budget_s``) the same schemes are found.

    Args:
        format: of the product; factors of up to 12 entries.
        ring: F2, the only ring of this game.
        target: rank at which to stop.
        seed: of all random choices.
        budget_s: seconds to play, compiling left out; None for no limit.
        simulations: how many to run; None for no limit.
        should_stop: asked between short runs of simulations; true ends the search.

    Yields:
        Found for every new best rank below the standard algorithm's, Progress now and then and at the end.

    Raises:
        ValueError: the ring is not F2, the format is too large, or a number lies outside its range.
    """
    format = require_playable(format)
    if Ring(ring) is not Ring.F2:
        raise ValueError(f"the tree search plays over F2, not {ring}; search F2 and lift the result")
    if target < 1:
        raise ValueError(f"{target=} must be at least 1")
    if simulations is not None and simulations < 1:
        raise ValueError(f"{simulations=} must be at least 1")
    if budget_s is not None and not budget_s > 0:  # refuses NaN too
        raise ValueError(f"{budget_s=} must be positive")
    if seed < 0:
        raise ValueError(f"{seed=} must not be negative")
    return _games(format, target, seed, budget_s, simulations, should_stop)


def _games(
    format: Format,
    target: int,
    seed: int,
    budget_s: float | None,
    simulations: int | None,
    should_stop: Callable[[], bool],
) -> Iterator[Progress | Found]:
    compile_kernels()
    from search.games.slice_bound import complete, pack
    from search.games.tree_kernels import allocate, simulate

    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    sizes = factor_sizes(format)
    dimensions = np.array(sizes, dtype=np.int64)
    tree = allocate(sizes, _FULL_SIMULATIONS + 1)
    best = complete(opening(format))
    done, reported = 0, 0.0
    for game in itertools.count():
        full = game < _FULL_GAMES or game % _FULL_EVERY == 0
        kept, replayed = (best[:0], best) if full else _replay(best, rng)
        basis = random_basis(sizes, rng)
        root = tensor_of(change_basis(replayed, basis), sizes)
        packed, state = pack(root), rng.integers(1, 1 << 63, 1).astype(np.uint64)
        aim = max(target - len(kept), 0) if full else len(replayed) - 1
        planned = _FULL_SIMULATIONS if full else _REPLAY_SIMULATIONS
        if simulations is not None:
            planned = min(planned, simulations - done)
        tree.state[:] = 0
        stopped = False
        while tree.state[4] < planned and not stopped:
            chunk = min(_CHUNK, planned - int(tree.state[4]))
            simulate(tree, packed, dimensions, aim, chunk, state, _EXPLORATION, _WIDE, _SHARPNESS)
            out_of_time = budget_s is not None and time.perf_counter() - started >= budget_s
            stopped = should_stop() or out_of_time
            if tree.state[1] <= aim:
                break
        done += int(tree.state[4])
        if len(kept) + tree.state[1] <= len(best):
            played = tree.best_moves[: tree.state[2]].copy()
            end = np.concatenate([played, complete(root ^ tensor_of(played, sizes))])
            shorter = len(kept) + len(end) < len(best)
            best = np.concatenate([kept, change_basis(end, inverse_basis(basis))])
            if shorter:
                yield Found(require_exact(scheme_of(format, best)), done, time.perf_counter() - started)
        ended = stopped or len(best) <= target or done == simulations
        elapsed = time.perf_counter() - started
        if ended or elapsed >= reported + _PROGRESS_S:
            reported = elapsed
            yield Progress(done, len(best), elapsed)
        if ended:
            return


def _replay(best: Moves, rng: np.random.Generator) -> tuple[Moves, Moves]:
    """Split the shortest game into the terms replayed and a few terms to be played anew.

    The latter are gathered one by one, each time a term whose factors add least to the spans of those before.
    """
    low, high = _OPEN_TERMS
    count = int(rng.integers(min(low, len(best)), min(high, len(best)) + 1))
    rest = list(rng.permutation(best))
    chosen = [rest.pop()]
    spans: list[list[int]] = [[], [], []]
    while True:
        for span, mask in zip(spans, chosen[-1].tolist(), strict=True):
            reduced = _reduced(mask, span)
            if reduced:
                span.append(reduced)
                span.sort(reverse=True)
        if len(chosen) == count:
            return np.array(rest, dtype=np.int64).reshape(-1, 3), np.array(chosen)
        growth = [
            sum(_reduced(mask, span) != 0 for mask, span in zip(term.tolist(), spans, strict=True)) for term in rest
        ]
        chosen.append(rest.pop(int(np.argmin(growth))))


def _reduced(mask: int, span: list[int]) -> int:
    """What is left of a vector after elimination by an echelon basis in descending order."""
    for vector in span:
        mask = min(mask, mask ^ vector)
    return mask


def compile_kernels() -> float:
    """Compile the kernels, or load them from the cache; returns the seconds it took."""
    started = time.perf_counter()
    from search.games.slice_bound import pack
    from search.games.tree_kernels import allocate, simulate

    sizes = (1, 1, 1)
    root = pack(np.ones(sizes, dtype=bool))
    simulate(allocate(sizes, 2), root, np.array(sizes), 0, 1, np.ones(1, dtype=np.uint64), 0.5, 1.0, 1.0)
    return time.perf_counter() - started
