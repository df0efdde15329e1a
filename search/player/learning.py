"""Losses and steps of training, on three kinds of positions.

Random sums of rank-one terms, as AlphaTensor's synthetic demonstrations; positions of self-play, for the search's
improved policy; and what is left of the player's own shortest games.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from search.player.board import Board
from search.player.devices import spread
from search.player.episodes import Record
from search.player.fields import Array
from search.player.network import Network, View
from search.player.planning import Player, Search, Weights, repeated
from search.player.positions import Sums, parts_of_games, random_sums

# Terms of a sum whose chances are raised at a time.
SHOWN = 2


@dataclass(frozen=True)
class Lessons:
    """How the network is trained.

    Attributes:
        batch: random sums of a step; with them come a quarter as many positions of self-play and half as many of own
            games.
        rate: highest learning rate.
        half: steps after which it is half as high, down to a tenth.
        warm: steps on random sums alone, before the first game.
        steps: between batches of games.
        memory: positions of self-play that are kept.
    """

    batch: int = 512
    rate: float = 1e-3
    half: int = 8000
    warm: int = 4000
    steps: int = 100
    memory: int = 1 << 15


class Replay(NamedTuple):
    """The last positions of self-play, a ring of N of them.

    Attributes:
        residual: [N, d0, d1, d2] int8.
        candidates: [N, K, 3] int16.
        weights: [N, K] float16.
        left: [N] int32.
        stored: how many were ever stored, int32.
    """

    residual: Array
    candidates: Array
    weights: Array
    left: Array
    stored: Array


class Games(NamedTuple):
    """Own games of the lowest rank.

    Attributes:
        moves: [G, t, 3] int32.
        number: of games.
        rank: of each; the standard algorithm's before any.
    """

    moves: Array
    number: Array
    rank: Array


def optimizer(lessons: Lessons) -> optax.GradientTransformation:
    """AdamW on clipped gradients, with a rate that rises for 200 steps and then decays."""
    decay = optax.exponential_decay(lessons.rate, lessons.half, 0.5, end_value=lessons.rate / 10)
    rate = optax.join_schedules([optax.linear_schedule(0.0, lessons.rate, 200), decay], [200])
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=1e-4))


def empty_replay(board: Board, search: Search, lessons: Lessons) -> Replay:
    """Nothing stored yet."""
    size, many = lessons.memory, search.candidates
    return Replay(
        jnp.zeros((size, *board.sizes), jnp.int8),
        jnp.zeros((size, many, 3), jnp.int16),
        jnp.zeros((size, many), jnp.float16),
        jnp.zeros(size, jnp.int32),
        jnp.zeros((), jnp.int32),
    )


@jax.jit
def stored(replay: Replay, record: Record) -> Replay:
    """The replay with the positions of games that were going on."""
    size = len(replay.left)
    going = record.going.reshape(-1)
    place = jnp.where(going, (replay.stored + jnp.cumsum(going) - 1) % size, size)

    def put(old: Array, new: Array) -> Array:
        return old.at[place].set(new.reshape(-1, *new.shape[2:]), mode="drop")

    return Replay(
        put(replay.residual, record.residual),
        put(replay.candidates, record.candidates),
        put(replay.weights, record.weights),
        put(replay.left, record.left),
        replay.stored + going.sum(),
    )


@partial(jax.jit, static_argnames=("player", "lessons", "warm"))
def train(
    player: Player, lessons: Lessons, warm: bool, state: tuple[Weights, Any], replay: Replay, games: Games, key: Any
) -> tuple[tuple[Weights, Any], Array]:
    """Take ``lessons.steps`` steps; ``warm`` ones see random sums alone.

    Returns:
        The new weights and the optimizer's state, and the mean losses [6]: policy and value on random sums, on
        self-play and on own games.
    """
    rule = optimizer(lessons)

    def step(state: tuple[Weights, Any], key: Any) -> tuple[tuple[Weights, Any], Array]:
        weights, moments = state
        (_, parts), gradient = jax.value_and_grad(loss, argnums=1, has_aux=True)(
            player, weights, lessons.batch, None if warm else (replay, games), key
        )
        updates, moments = rule.update(gradient, moments, weights)
        return (optax.apply_updates(weights, updates), moments), parts

    state, parts = jax.lax.scan(step, state, jax.random.split(key, lessons.steps))
    return state, parts.mean(0)


def loss(
    player: Player, weights: Weights, batch: int, own: tuple[Replay, Games] | None, key: Any
) -> tuple[Array, Array]:
    """The loss and its six parts; ``own`` are positions of self-play and own games."""
    network, board = player.network(weights), player.board
    keys = jax.random.split(key, 3)
    sums = random_sums(board, keys[0], batch)
    if own is None:
        sums = spread(sums)
        policy, value = _on_sums(network, network.look(sums.residual), sums)
        return policy.mean() + value.mean(), jnp.stack([policy.mean(), value.mean(), *jnp.zeros(4)])
    replay, games = own
    ends = parts_of_games(board, keys[2], games.moves, games.number, games.rank, max(batch // 2, 1), 1)
    at = jax.random.randint(keys[1], (max(batch // 4, 1),), 0, jnp.clip(replay.stored, 1, len(replay.left)))
    # One look at all positions together.
    sums = Sums(*(jnp.concatenate(pair) for pair in zip(sums, ends, strict=True)))
    view = network.look(spread(jnp.concatenate([sums.residual, replay.residual[at].astype(jnp.int32)])))
    known = len(sums.left)
    policy, value = _on_sums(network, jax.tree.map(lambda array: array[:known], view), sums)
    played = _on_self_play(
        network,
        jax.tree.map(lambda array: array[known:], view),
        replay.candidates[at].astype(jnp.int32),
        replay.weights[at].astype(jnp.float32),
        replay.left[at],
    )
    shown, some = (policy[:batch].mean(), value[:batch].mean()), games.number > 0
    own_ends = [jnp.where(some, part[batch:].mean(), 0.0) for part in (policy, value)]
    own_play = [jnp.where(replay.stored > 0, part, 0.0) for part in played]
    total = sum(shown) + 0.5 * sum(own_play) + sum(own_ends)
    return total, jnp.stack([*shown, *own_play, *own_ends])


def _on_sums(network: Network, view: View, sums: Sums) -> tuple[Array, Array]:
    """Any term of a sum is a good move, and their number is its value. Both losses [B]."""
    moves = sums.moves[:, :SHOWN]
    on = jnp.arange(moves.shape[1]) < sums.left[:, None]
    chances = jnp.where(on, network.log_probability(view, moves), 0.0)
    return -chances.sum(-1) / jnp.maximum(on.sum(-1), 1), _value_loss(view, sums.left)


def _on_self_play(network: Network, view: View, moves: Array, target: Array, left: Array) -> tuple[Array, Array]:
    """The search's policy against the network's among the candidates alone: others were not looked at."""
    again = repeated(moves)
    logits = jnp.where(again, -1e9, network.log_probability(view, moves))
    chances = jnp.where(again, 0.0, jax.nn.log_softmax(logits))
    divergence = (target * (jnp.log(target + 1e-6) - chances)).sum(-1)
    return divergence.mean(), _value_loss(view, left).mean()


def _value_loss(view: View, left: Array) -> Array:
    """[B]."""
    chances = jax.nn.log_softmax(view.value)
    at = jnp.clip(left, 0, chances.shape[-1] - 1)[:, None]
    return -jnp.take_along_axis(chances, at, -1)[:, 0]
