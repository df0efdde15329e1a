"""Self-play: a batch of games from given positions to their ends."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from catalog.scheme import Ring
from search.player.board import Board
from search.player.devices import spread
from search.player.fields import Array
from search.player.planning import Player, Search, Weights, plan


class Record(NamedTuple):
    """What a batch of B games leaves: every position with what the search made of it, and the shortest ends.

    Attributes:
        residual: positions [t, B, d0, d1, d2] int8, t moves in all.
        candidates: [t, B, K, 3] int16.
        weights: improved policy over them, [t, B, K] float16.
        left: fewest terms known to finish a position, in its game or in its trees, [t, B].
        going: whether the game was still going on, [t, B].
        terms: fewest terms of each whole game, [B].
        path: moves of that game, [B, t, 3], of which ``steps`` [B] count; the plain bound's terms finish it.
        steps: see ``path``.
        start: the positions that the games began at, [B, d0, d1, d2] int32.
    """

    residual: Array
    candidates: Array
    weights: Array
    left: Array
    going: Array
    terms: Array
    path: Array
    steps: Array
    start: Array


@partial(jax.jit, static_argnames=("board", "count", "change"))
def openings(board: Board, key: Any, count: int, change: bool) -> tuple[Array, list[Array]]:
    """The opening for each game, [count, d0, d1, d2] int32, in a random basis each if ``change``, and the bases.

    Over Z every other game keeps the standard basis, in which the terms of short schemes have small entries: in others
    they seldom are moves.
    """
    residual = jnp.broadcast_to(jnp.asarray(board.opening(), jnp.int32), (count, *board.sizes))
    standard = [jnp.broadcast_to(jnp.eye(size, dtype=jnp.int32), (count, size, size)) for size in board.sizes]
    if not change:
        return residual, standard
    bases = board.bases(key, count)
    if board.ring is Ring.Z:
        kept = (jnp.arange(count) % 2 == 0)[:, None, None]
        bases = [jnp.where(kept, *pair) for pair in zip(standard, bases, strict=True)]
    return board.changed(residual, bases), bases


@partial(jax.jit, static_argnames=("player", "search"))
def play(player: Player, search: Search, weights: Weights, start: Array, key: Any) -> Record:
    """Play from positions [B, d0, d1, d2] int32 until nothing is left or the limit of moves is reached."""
    board, start = player.board, spread(start)
    count, limit = len(start), board.limit
    batch = jnp.arange(count)

    def move(carry: tuple[Array, ...], step: tuple[Any, Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        residual, played, terms, path, steps = carry
        key, at = step
        going = board.bound(residual) > 0
        found = plan(player, search, weights, residual, key)
        total = at + found.terms
        better = going & (total < terms)
        # The way there: what has been played, then the moves in the tree.
        place = jnp.where(jnp.arange(limit) < found.steps[:, None], at + jnp.arange(limit), limit)
        through = played.at[batch[:, None], place].set(found.path, mode="drop")
        path = jnp.where(better[:, None, None], through, path)
        steps = jnp.where(better, at + found.steps, steps)
        terms = jnp.where(better, total, terms)
        played = played.at[:, at].set(found.move * going[:, None])
        after = jnp.where(going[:, None, None, None], board.after(residual, found.move), residual)
        seen = (
            residual.astype(jnp.int8),
            found.candidates.astype(jnp.int16),
            found.weights.astype(jnp.float16),
            found.terms,
            going,
        )
        return (after, played, terms, path, steps), seen

    nothing = jnp.zeros((count, limit, 3), jnp.int32)
    bound = board.bound(start)
    begin = (start, nothing, bound, nothing, jnp.zeros(count, jnp.int32))
    keys = jax.random.split(key, limit)
    (end, _, terms, path, steps), seen = jax.lax.scan(move, begin, (keys, jnp.arange(limit)))
    residual, candidates, improved, terms_seen, going = seen

    def back(left: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        seen, going = here
        left = jnp.where(going, jnp.minimum(left + 1, seen), 0)
        return left, left

    left = jax.lax.scan(back, board.bound(end), (terms_seen, going), reverse=True)[1]
    return Record(residual, candidates, improved, left, going, terms, path, steps, start)
