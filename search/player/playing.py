"""Games from the opening by a trained network, as the events of a search; nothing is learned.

A block is a batch of games. It depends on its number and on the seed alone, so a search that
goes on from a checkpoint plays on as if it had never ended.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from catalog.scheme import Scheme
from catalog.transform import orient
from search.checkpoint import State
from search.events import Checkpoint, Done, Event, Found, Progress
from search.player.ending import left_after, scheme_of
from search.player.episodes import Record, openings, play
from search.player.footprint import of_play, require_room
from search.player.planning import Player, Search
from search.player.trained import Trained, trained_for
from search.query import Query

_SMALLER = "--games, --simulations, --candidates or --channels in the training of these weights"


@dataclass
class _Totals:
    """What was spent and reached: blocks, simulations, seconds, the shortest game's scheme and when it was found."""

    blocks: int = 0
    steps: int = 0
    seconds: float = 0.0
    best: Scheme | None = None
    gained: float = 0.0


@functools.lru_cache(maxsize=4)
def _compiled(player: Player, search: Search, games: int) -> Any:
    """Self-play as a compiled function of weights, positions and a key."""
    start = jax.ShapeDtypeStruct((games, *player.board.sizes), np.int32)
    return play.lower(player, search, player.blank(), start, jax.random.key(0)).compile()


class Table:
    """A trained network at the board that a query is about.

    Args:
        query: what to look for.

    Raises:
        OSError: the weights cannot be read.
        ValueError: they do not fit, or the games do not fit into the device's memory.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self.trained: Trained = trained_for(query.format, query.ring, Path(query.weights) if query.weights else None)
        own = self.trained
        needed = of_play(own.player.board, own.player.sizes, own.search, own.games, jax.device_count())
        require_room(needed, _SMALLER)
        self._compiled: Any = None

    def compile(self) -> float:
        """Compile what a block needs, or load it from JAX's cache; the seconds that took."""
        begun = time.perf_counter()
        self._opening(0)
        self._compiled = _compiled(self.trained.player, self.trained.search, self.trained.games)
        return time.perf_counter() - begun

    def play(self, resume: State | None, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Play blocks until the limit or ``should_stop``; when there are enough schemes the caller closes this.

        Args:
            resume: the state of a checkpoint of the same query.
            should_stop: asked between blocks.

        Raises:
            ValueError: the checkpoint is of another search.
        """
        query, own = self._query, self.trained
        totals = _Totals() if resume is None else self._restored(resume)
        each = own.search.simulations * own.player.board.limit
        if totals.best is not None:  # a search that goes on first says where it stands
            yield Found(totals.best, totals.best.rank, totals.steps, totals.seconds, totals.blocks)
        begun = saved = time.monotonic()
        before, stopped = totals.seconds, should_stop()
        while not stopped and not self._over(totals):
            entered = time.monotonic()
            start, bases, key = self._opening(totals.blocks)
            record = jax.tree.map(np.asarray, self._compiled(own.weights, start, key))
            games = own.games if query.steps is None else min(own.games, -(-(query.steps - totals.steps) // each))
            now = before + time.monotonic() - begun
            for game in range(games):
                rank = query.format.volume if totals.best is None else totals.best.rank
                if not (record.terms[game] < rank or record.terms[game] <= query.target):
                    continue
                scheme = self._scheme(record, bases, game)
                if scheme.rank < rank:
                    totals.best, totals.gained = scheme, now
                yield Found(scheme, scheme.rank, totals.steps + (game + 1) * each, now, totals.blocks)
            totals.blocks, totals.steps = totals.blocks + 1, totals.steps + games * each
            totals.seconds = before + time.monotonic() - begun
            rate = games * each / max(time.monotonic() - entered, 1e-9)
            yield Progress(self._rank(totals), totals.steps, 0, rate, totals.seconds, totals.seconds - totals.gained, 1)
            stopped = should_stop()
            if time.monotonic() - saved >= query.checkpoint_s:
                saved = time.monotonic()
                yield self._checkpoint(totals)
        yield self._checkpoint(totals)
        status: Literal["budget", "interrupted"] = "interrupted" if stopped else "budget"
        yield Done(status, self._rank(totals), totals.steps, 0, totals.seconds)

    def _over(self, totals: _Totals) -> bool:
        query = self._query
        return (query.steps is not None and totals.steps >= query.steps) or (
            query.budget_s is not None and totals.seconds >= query.budget_s
        )

    def _rank(self, totals: _Totals) -> int:
        return self._query.format.volume if totals.best is None else totals.best.rank

    def _opening(self, block: int) -> tuple[Any, list[np.ndarray], Any]:
        """Positions, their bases and a key for the games of a block."""
        own = self.trained
        first, second = jax.random.split(jax.random.fold_in(jax.random.key(self._query.seed), block))
        start, bases = openings(own.player.board, first, own.games, own.change_basis)
        return start, [np.asarray(basis) for basis in bases], second

    def _scheme(self, record: Record, bases: list[np.ndarray], game: int) -> Scheme:
        """The scheme of a game, proved, with the sizes in the order that was asked for."""
        board = self.trained.player.board
        path = record.path[game, : record.steps[game]]
        left = left_after(board, record.start[game], path)
        return orient(scheme_of(board, path, left, tuple(basis[game] for basis in bases)), self._query.format)

    def _checkpoint(self, totals: _Totals) -> Checkpoint:
        best = () if totals.best is None else totals.best.factors
        return Checkpoint(
            {
                "weights": np.array(self._seal()),
                "seed": self._query.seed,
                "blocks": totals.blocks,
                "steps": totals.steps,
                "seconds": totals.seconds,
                "gained": totals.gained,
                **{f"best/{side}": factor for side, factor in zip("UVW", best, strict=False)},
            }
        )

    def _restored(self, state: State) -> _Totals:
        try:
            if str(state["weights"]) != self._seal() or int(state["seed"]) != self._query.seed:
                raise ValueError("the checkpoint was made with other weights or another seed; start a new search")
            totals = _Totals(int(state["blocks"]), int(state["steps"]), float(state["seconds"]))
            totals.gained = float(state["gained"])
            if "best/U" in state:
                factors = (np.asarray(state[f"best/{side}"]) for side in "UVW")
                totals.best = Scheme(self._query.format, self.trained.player.board.ring, *factors)
        except KeyError as error:
            raise ValueError(f"the checkpoint is no state of a player's search; it lacks {error}") from None
        return totals

    def _seal(self) -> str:
        """What tells these weights and how they play from others."""
        import hashlib

        own = self.trained
        hashed = hashlib.sha256(repr((own.player, own.search, own.games, own.change_basis)).encode())
        for leaf in jax.tree.leaves(own.weights):
            hashed.update(np.asarray(leaf).tobytes())
        return hashed.hexdigest()
