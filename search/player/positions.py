"""Positions to learn from: random sums of rank-one terms, and what is left of the player's own best games."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from search.player.board import Board
from search.player.fields import Array


class Sums(NamedTuple):
    """Positions made of known terms.

    Attributes:
        residual: [B, d0, d1, d2] int32.
        moves: the terms in random order, [B, t, 3], of which ``left`` [B] add up to the residual.
        left: see ``moves``.
    """

    residual: Array
    moves: Array
    left: Array


@partial(jax.jit, static_argnames=("board", "count"))
def random_sums(board: Board, key: Any, count: int) -> Sums:
    """Sums of one to as many random terms as the standard algorithm has. No scheme is among what they are made of."""
    keys = jax.random.split(key, 4)
    left = jax.random.randint(keys[3], (count,), 1, board.limit + 1)
    drawn = []
    for mode in range(3):
        playable = jnp.asarray(board.playable(mode).nonzero()[0])
        drawn.append(playable[jax.random.randint(keys[mode], (count, board.limit), 0, len(playable))])
    moves = jnp.stack(drawn, -1)
    return Sums(board.total(moves, left), moves, left)


@partial(jax.jit, static_argnames=("board", "count", "fewest"))
def parts_of_games(board: Board, key: Any, games: Array, number: Array, rank: Array, count: int, fewest: int) -> Sums:
    """What is left of own games after some of their terms.

    Args:
        board: format and ring.
        key: of the choices.
        games: [G, t, 3], of which ``number`` count, each of ``rank`` terms.
        number: see ``games``.
        rank: see ``games``.
        count: B.
        fewest: terms left, if the games have so many.
    """
    keys = jax.random.split(key, 3)
    chosen = games[jax.random.randint(keys[0], (count,), 0, jnp.maximum(number, 1))]
    late = jnp.arange(board.limit) >= rank
    order = jnp.argsort(jax.random.uniform(keys[1], chosen.shape[:2]) + late, -1)
    moves = jnp.take_along_axis(chosen, order[..., None], 1)
    left = jax.random.randint(keys[2], (count,), jnp.minimum(fewest, rank), rank + 1)
    return Sums(board.total(moves, left), moves, left)
