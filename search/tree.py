"""Tree search over the TensorGame without a network: PUCT guided by the slice-rank bound.

After AlphaTensor (Fawzi et al., Nature 610, 2022), with its network replaced by a constructive bound: priors and
values are lengths that can really be reached, and a position whose bound closes the game within the target ends the
search. Each game starts in a random basis. Half of the games start at the empty board, the others replay all but a
few terms of the shortest game so far and look for a shorter end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from catalog.scheme import Format, Ring, Scheme
from catalog.verify import require_exact
from search.game import (
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

# Simulations of one game, and of one call of the kernel (between calls the clock and the stop flag are read).
GAME = 320
_CHUNK = 16
_EXPLORATION, _WIDE, _SHARPNESS = 0.5, 1.0, 4.0


@dataclass(frozen=True)
class Progress:
    """State of a search after a game.

    Attributes:
        simulations: run so far.
        best: rank of the best scheme so far.
        seconds: since the start, compiling left out.
        compile_seconds: spent compiling before the clock started.
    """

    simulations: int
    best: int
    seconds: float
    compile_seconds: float


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
        Found for every new best rank below the standard algorithm's, Progress after every game.

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
    compile_seconds = _compile()
    from search.slice_bound import complete, pack
    from search.tree_kernels import allocate, simulate

    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    sizes = factor_sizes(format)
    dimensions = np.array(sizes, dtype=np.int64)
    tree = allocate(sizes, GAME + 1)
    whole = opening(format)
    best = complete(whole)
    done, game = 0, 0
    while True:
        kept, open_terms = (best[:0], best) if game % 2 == 0 else _replay(best, rng)
        basis = random_basis(sizes, rng)
        root = tensor_of(change_basis(open_terms, basis), sizes)
        state = rng.integers(1, 1 << 63, 1).astype(np.uint64)
        tree.state[:] = 0
        # Below the root only an end shorter than the known one counts; the aim is the target itself.
        aim = max(target - len(kept), 0)
        ended = False
        while tree.state[4] < GAME and not ended:
            left = GAME if simulations is None else simulations - done
            before = int(tree.state[4])
            packed = pack(root)
            simulate(tree, packed, dimensions, aim, min(_CHUNK, left), state, _EXPLORATION, _WIDE, _SHARPNESS)
            done += int(tree.state[4]) - before
            ended = (
                tree.state[1] <= aim
                or done == simulations
                or should_stop()
                or (budget_s is not None and time.perf_counter() - started >= budget_s)
            )
            if tree.state[4] == before:
                break
        if len(kept) + tree.state[1] < len(best):
            played = tree.best_moves[: tree.state[2]].copy()
            rest = root ^ tensor_of(played, sizes)
            end = change_basis(np.concatenate([played, complete(rest)]), inverse_basis(basis))
            best = np.concatenate([kept, end])
            scheme = require_exact(scheme_of(format, best))
            yield Found(scheme, done, time.perf_counter() - started)
        game += 1
        yield Progress(done, len(best), time.perf_counter() - started, compile_seconds)
        if len(best) <= target or ended:
            return


def _replay(best: Moves, rng: np.random.Generator) -> tuple[Moves, Moves]:
    """Split the shortest game into the terms replayed and the terms to be played anew, which lie close together."""
    count = int(rng.integers(min(6, len(best)), len(best) + 1))
    order = rng.permutation(len(best))
    return best[order[count:]], best[order[:count]]


def _compile() -> float:
    """Compile the kernels, or load them from the cache; returns the seconds it took."""
    started = time.perf_counter()
    from search.slice_bound import pack
    from search.tree_kernels import allocate, simulate

    sizes = (1, 1, 1)
    root = pack(np.ones(sizes, dtype=bool))
    simulate(allocate(sizes, 2), root, np.array(sizes), 0, 1, np.ones(1, dtype=np.uint64), 0.5, 1.0, 1.0)
    return time.perf_counter() - started
