"""Tree search by the network: Gumbel MuZero's policy (Danihelka et al., ICLR 2022) over moves that it proposes.

All rank-one tensors are far too many children for a node, so each node holds K moves drawn from the network's policy
(as in Sampled MuZero, Hubert et al., ICML 2021). A node's value is the network's, but never worse than what the plain
slice-rank bound can finish. B is the batch of games, K the candidates, t the moves of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from flax import nnx

from search.player.board import Board
from search.player.fields import Array
from search.player.network import Network, Sizes

_NEVER = -1e9
_NO_PATH = 1 << 20
Weights = Any  # the network's parameters


@dataclass(frozen=True)
class Player:
    """A board and the network that plays on it; its weights are kept apart.

    Attributes:
        board: format and ring.
        sizes: of the network.
    """

    board: Board
    sizes: Sizes = Sizes()

    def fresh(self, seed: int) -> Weights:
        """Weights before any training."""
        return nnx.split(Network(self.board, self.sizes, nnx.Rngs(seed)))[1]

    def blank(self) -> Weights:
        """Shapes and types of the weights in their place; nothing is allocated."""
        return self._parts[1]

    @cached_property
    def _parts(self) -> tuple[Any, Weights]:
        graph, weights = nnx.split(nnx.eval_shape(lambda: Network(self.board, self.sizes, nnx.Rngs(0))))
        return graph, weights

    def network(self, weights: Weights) -> Network:
        """The network with these weights."""
        return nnx.merge(self._parts[0], weights)


@dataclass(frozen=True)
class Search:
    """How a move is looked for.

    Attributes:
        simulations: of each move.
        candidates: moves drawn at each node.
        temperature: of drawing them.
        value: "network", or "bound" for the plain slice-rank bound alone, as without a network.
    """

    simulations: int = 32
    candidates: int = 16
    temperature: float = 1.0
    value: str = "network"

    def __post_init__(self) -> None:
        for name, number in (("simulations", self.simulations), ("candidates", self.candidates)):
            if number < 1:
                raise ValueError(f"{name} is {number}; it must be at least 1")
        if self.candidates > 64:
            raise ValueError(f"candidates is {self.candidates}; a node holds at most 64")
        if self.value not in ("network", "bound"):
            raise ValueError(f"value is {self.value!r}; choose network or bound")


class Plan(NamedTuple):
    """What the search makes of positions.

    Attributes:
        move: to play, [B, 3].
        candidates: at the root, [B, K, 3].
        weights: the improved policy over them, [B, K]; 0 for a move drawn twice.
        terms: fewest that finish the position as far as the tree has seen: moves and the bound behind them, [B].
        path: the moves of that finish, [B, t, 3], of which ``steps`` [B] count.
        steps: see ``path``.
    """

    move: Array
    candidates: Array
    weights: Array
    terms: Array
    path: Array
    steps: Array


def memory(board: Board, search: Search, games: int) -> int:
    """Bytes that the trees of a batch of games take, an estimate from below."""
    d0, d1, d2 = board.sizes
    node = 24 * search.candidates + 6 * search.candidates + d0 * d1 * d2 + 40
    return games * (search.simulations + 1) * node


@partial(jax.jit, static_argnames=("player", "search"))
def plan(player: Player, search: Search, weights: Weights, residual: Array, key: Any) -> Plan:
    """Search from positions [B, d0, d1, d2] int32."""
    first, second = jax.random.split(key)
    depth = jnp.zeros(len(residual), jnp.int32)
    logits, value, root = _node(player, search, weights, residual, depth, first)
    out = mctx.gumbel_muzero_policy(
        weights,
        second,
        mctx.RootFnOutput(prior_logits=logits, value=value, embedding=root),
        partial(_step, player, search),
        search.simulations,
        max_num_considered_actions=search.candidates,
    )
    tree = out.search_tree
    seen = tree.node_visits > 0
    terms = jnp.where(seen, tree.embeddings["depth"] + tree.embeddings["bound"], _NO_PATH)
    best = terms.argmin(-1)
    path, steps = _path(tree, best, player.board.limit)
    candidates = root["candidates"].astype(jnp.int32)
    return Plan(
        jnp.take_along_axis(candidates, out.action[:, None, None], 1)[:, 0],
        candidates,
        out.action_weights * (logits > _NEVER / 2),
        jnp.take_along_axis(terms, best[:, None], 1)[:, 0],
        path,
        steps,
    )


def _node(
    player: Player, search: Search, weights: Weights, residual: Array, depth: Array, key: Any
) -> tuple[Array, Array, dict[str, Array]]:
    """Logits [B, K], value [B] and what a node of the tree holds."""
    network = player.network(weights)
    view = network.look(residual)
    moves, chances = network.propose(view, key, search.candidates, search.temperature)
    bound = player.board.bound(residual)
    best = -bound.astype(jnp.float32)
    value = jnp.maximum(-view.terms_left(), best) if search.value == "network" else best
    over = (bound == 0) | (depth >= player.board.limit)
    node = {
        "residual": residual.astype(jnp.int8),
        "candidates": moves.astype(jnp.int16),
        "depth": depth,
        "bound": bound,
        "over": over,
    }
    return jnp.where(repeated(moves), _NEVER, chances), jnp.where(over, best, value), node


def repeated(moves: Array) -> Array:
    """Which of K moves [B, K, 3] stand further ahead already, [B, K]."""
    same = (moves[:, :, None] == moves[:, None, :]).all(-1)
    return (same & jnp.tril(jnp.ones(same.shape[-2:], bool), -1)).any(-1)


def _step(
    player: Player, search: Search, weights: Weights, key: Any, action: Array, node: dict[str, Array]
) -> tuple[mctx.RecurrentFnOutput, dict[str, Array]]:
    """Play a candidate. A game that is over stays as it is, for nothing."""
    over = node["over"]
    move = jnp.take_along_axis(node["candidates"].astype(jnp.int32), action[:, None, None], 1)[:, 0]
    before = node["residual"].astype(jnp.int32)
    residual = jnp.where(over[:, None, None, None], before, player.board.after(before, move))
    depth = node["depth"] + ~over
    logits, value, made = _node(player, search, weights, residual, depth, key)
    made["over"] |= over
    going = jnp.where(over, 0.0, 1.0)
    return mctx.RecurrentFnOutput(reward=-going, discount=going, prior_logits=logits, value=value), made


def _path(tree: Any, node: Array, most: int) -> tuple[Array, Array]:
    """The moves from the root to a node of each game, [B, most, 3], and how many they are, [B]."""
    batch = jnp.arange(len(node))
    steps = tree.embeddings["depth"][batch, node]

    def back(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        node, path = carry
        parent, action = tree.parents[batch, node], tree.action_from_parent[batch, node]
        at = tree.embeddings["depth"][batch, node] - 1
        move = tree.embeddings["candidates"][batch, parent, action].astype(jnp.int32)
        # Above the root nothing is written: out of the array's range.
        path = path.at[batch, jnp.where(parent < 0, most, at)].set(move, mode="drop")
        return jnp.where(parent < 0, node, parent), path

    path = jnp.zeros((len(node), most, 3), jnp.int32)
    # Where a game is over, nodes below repeat it: the shallowest of them is the best, so the depth bounds the steps.
    return jax.lax.fori_loop(0, most, back, (node, path))[1], steps
