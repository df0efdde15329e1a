"""The player's network: equivariant under changes of bases by construction.

AlphaTensor's network reads the entries of a residual and has to learn that positions in other bases are the same
(Fawzi et al., Nature 610, 2022). This one has a value for every vector of each factor space: x stands for the
combination of slices with these coefficients, of which it sees the rank, and u for what can be played. Vectors are
mixed by the Fourier transform between a space and its dual alone (``search.player.fields.characters``) and else treated
alike, so a change of bases permutes what goes in and what comes out: what is learned in one basis holds in all.

A move is chosen factor after factor, the longest first. After u, the network is told for each y whether u lies in the
span of the slice y: where it does not, no move with u lowers that slice's rank. After u and v it is told by how much
the rank of each slice z changes.

B is the batch, K moves of each position, n the vectors of a factor, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from search.player.board import Board
from search.player.fields import (
    Array,
    Row,
    add,
    characters,
    combinations,
    eliminated,
    in_span,
    masked,
    negative,
    pack,
    rows_of,
)

# Logits stay in this range: what has never been played keeps some chance.
_CAP = 12.0
_NEVER = -1e9


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network.

    Attributes:
        channels: of every vector.
        rounds: of mixing between a space, its dual and the whole.
        spare: lengths above that of the standard algorithm that the value can tell apart.
    """

    channels: int = 32
    rounds: int = 2
    spare: int = 5


class View(NamedTuple):
    """What the network makes of positions.

    Attributes:
        points: of each mode, for combinations of slices, [B, n, C].
        duals: of each mode, for vectors that can be played, [B, n, C].
        whole: [B, C].
        ranks: of the combinations of each mode, [B, n] int32.
        echelon: rows of the second factor's slices after elimination, words [B, n].
        rows: rows of the third factor's slices, words [B, n].
        value: logits of the number of terms left, [B, lengths].
    """

    points: tuple[Array, ...]
    duals: tuple[Array, ...]
    whole: Array
    ranks: tuple[Array, ...]
    echelon: list[Row]
    rows: list[Row]
    value: Array

    def terms_left(self) -> Array:
        """The expected number of terms left, [B] float32."""
        return jax.nn.softmax(self.value) @ jnp.arange(self.value.shape[-1], dtype=jnp.float32)


class _Mlp(nnx.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int, rngs: nnx.Rngs, scale: float = 1.0) -> None:
        last = nnx.initializers.variance_scaling(scale, "fan_in", "truncated_normal")
        self.inner = nnx.Linear(inputs, hidden, rngs=rngs)
        self.outer = nnx.Linear(hidden, outputs, kernel_init=last, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.outer(nnx.gelu(self.inner(x)))


class _Round(nnx.Module):
    """Every space hears from its dual and from the whole, then the whole from all of them."""

    def __init__(self, channels: int, parts: int, rngs: nnx.Rngs) -> None:
        width = (2 + parts) * channels
        self.points = nnx.List([_Mlp(width, 2 * channels, channels, rngs) for _ in range(3)])
        self.duals = nnx.List([_Mlp(width, 2 * channels, channels, rngs) for _ in range(3)])
        self.whole = _Mlp(6 * channels, 2 * channels, channels, rngs)

    def __call__(
        self, points: list[Array], duals: list[Array], whole: Array, mixing: list[Array]
    ) -> tuple[list[Array], list[Array], Array, Array]:
        points, duals, means = list(points), list(duals), []
        for mode in range(3):
            told = jnp.broadcast_to(whole[..., None, :], points[mode].shape)
            heard = _transformed(mixing[mode], duals[mode])
            points[mode] += self.points[mode](jnp.concatenate([_normal(points[mode]), heard, told], -1))
            heard = _transformed(mixing[mode], points[mode])
            duals[mode] += self.duals[mode](jnp.concatenate([_normal(duals[mode]), heard, told], -1))
            means += [points[mode].mean(-2), duals[mode].mean(-2)]
        pooled = _normal(jnp.concatenate(means, -1))
        return points, duals, whole + self.whole(pooled), pooled


class Network(nnx.Module):
    """Policy and value of a board.

    Args:
        board: format and ring.
        sizes: of the network.
        rngs: of the first weights.
    """

    def __init__(self, board: Board, sizes: Sizes, rngs: nnx.Rngs) -> None:
        self.board = board
        parts, width = board.p - 1, sizes.channels
        most = [min(size for at, size in enumerate(board.sizes) if at != mode) for mode in range(3)]
        self.ranks = nnx.List([nnx.Embed(most[mode] + 1, width, rngs=rngs) for mode in range(3)])
        self.rounds = nnx.List([_Round(width, parts, rngs) for _ in range(sizes.rounds)])
        self.value = _Mlp(7 * width, 4 * width, board.limit + sizes.spare + 1, rngs, 0.01)
        self.first = _Mlp(2 * width, 2 * width, 1, rngs, 0.01)
        self.given = nnx.List([_Mlp((2 + i) * width, 2 * width, width, rngs) for i in range(2)])
        self.facts = nnx.List([_Mlp(2 * width + (2, 3)[i], 2 * width, width, rngs) for i in range(2)])
        self.later = nnx.List([_Mlp((parts + 2) * width, 2 * width, 1, rngs, 0.01) for i in range(2)])

    def look(self, residual: Array) -> View:
        """Look at positions [B, d0, d1, d2]."""
        board, (a, b, c) = self.board, self.board.order
        words, ranks, echelons = {}, {}, {}
        for mode, rows in ((a, c), (b, c), (c, b)):
            words[mode] = rows_of(combinations(board.p, board.slices(residual, mode, rows)))
            echelons[mode], ranks[mode] = eliminated(words[mode])
        points = [self.ranks[mode](ranks[mode]) for mode in range(3)]
        duals = [jnp.zeros_like(point) for point in points]
        whole = jnp.zeros_like(points[0][..., 0, :])
        mixing = [jnp.asarray(characters(board.p, size)) for size in board.sizes]
        pooled = whole
        for one in self.rounds:
            points, duals, whole, pooled = one(points, duals, whole, mixing)
        value = self.value(jnp.concatenate([pooled, whole], -1))
        return View(
            tuple(_normal(point) for point in points),
            tuple(_normal(dual) for dual in duals),
            whole,
            tuple(ranks[mode] for mode in range(3)),
            echelons[b],
            words[c],
            value,
        )

    def first_factor(self, view: View) -> Array:
        """Log-probabilities of the first factor, [B, n]."""
        duals = view.duals[self.board.order[0]]
        told = jnp.broadcast_to(view.whole[..., None, :], duals.shape)
        return self._logits(self.first(jnp.concatenate([duals, told], -1)), 0)

    def second_factor(self, view: View, u: Array) -> Array:
        """Log-probabilities of the second factor, [B, K, n], after the first factors u [B, K]."""
        a, b, _ = self.board.order
        inside = in_span(self._packed(a, u), [_each(row) for row in view.echelon])
        return self._later(0, view, b, [_at(view.duals[a], u)], jax.nn.one_hot(inside.astype(jnp.int32), 2))

    def third_factor(self, view: View, u: Array, v: Array) -> Array:
        """Log-probabilities of the third factor, [B, K, n], after the first two, [B, K] each."""
        a, b, c = self.board.order
        taken = negative(self._packed(a, u))
        signs = jnp.asarray(self.board.vectors(b))[v]
        rows = []
        for i, row in enumerate(view.rows):
            sign = signs[..., i][..., None]
            signed = add(masked(taken, sign > 0), masked(negative(taken), sign < 0))
            rows.append(add(_each(row), signed))
        change = eliminated(rows)[1] - view.ranks[c][..., None, :]
        given = [_at(view.duals[a], u), _at(view.duals[b], v)]
        return self._later(1, view, c, given, jax.nn.one_hot(change + 1, 3))

    def log_probability(self, view: View, moves: Array) -> Array:
        """Of moves [B, K, 3], [B, K]."""
        u, v, w = (moves[..., mode] for mode in self.board.order)
        first = jnp.take_along_axis(self.first_factor(view), u, -1)
        second = jnp.take_along_axis(self.second_factor(view, u), v[..., None], -1)[..., 0]
        return first + second + jnp.take_along_axis(self.third_factor(view, u, v), w[..., None], -1)[..., 0]

    def propose(self, view: View, key: Any, count: int, temperature: float = 1.0) -> tuple[Array, Array]:
        """Draw moves [B, count, 3] int32, and their log-probabilities [B, count]."""
        keys = jax.random.split(key, 3)
        first = self.first_factor(view)
        u = jax.random.categorical(keys[0], first[:, None, :] / temperature, shape=(len(first), count))
        second = self.second_factor(view, u)
        v = jax.random.categorical(keys[1], second / temperature)
        third = self.third_factor(view, u, v)
        w = jax.random.categorical(keys[2], third / temperature)
        chances = jnp.take_along_axis(first, u, -1)
        for each, drawn in ((second, v), (third, w)):
            chances += jnp.take_along_axis(each, drawn[..., None], -1)[..., 0]
        factors = dict(zip(self.board.order, (u, v, w), strict=True))
        return jnp.stack([factors[mode] for mode in range(3)], -1), chances

    def _later(self, step: int, view: View, mode: int, given: list[Array], facts: Array) -> Array:
        """Log-probabilities of a factor after the duals of those before, [B, K, C] each, and facts [B, K, n, f]."""
        told = jnp.broadcast_to(view.whole[:, None, :], given[0].shape)
        told = self.given[step](jnp.concatenate([*given, told], -1))[..., None, :]
        shape = (*facts.shape[:-1], told.shape[-1])
        both = [jnp.broadcast_to(part, shape) for part in (view.points[mode][:, None], told)]
        seen = self.facts[step](jnp.concatenate([*both, facts], -1))
        mixed = _transformed(jnp.asarray(characters(self.board.p, self.board.sizes[mode])), seen)
        own = jnp.broadcast_to(view.duals[mode][:, None], shape)
        return self._logits(
            self.later[step](jnp.concatenate([mixed, own, jnp.broadcast_to(told, shape)], -1)), step + 1
        )

    def _logits(self, raw: Array, step: int) -> Array:
        playable = jnp.asarray(self.board.playable(self.board.order[step]))
        return jax.nn.log_softmax(jnp.where(playable, _CAP * jnp.tanh(raw[..., 0] / _CAP), _NEVER))

    def _packed(self, mode: int, numbers: Array) -> Row:
        """Words [B, K, 1] of vectors [B, K]."""
        return pack(self.board.p, jnp.asarray(self.board.vectors(mode))[numbers][..., None, :])


def _transformed(mixing: Array, values: Array) -> Array:
    """Values [..., n, C] summed with each real part of the characters, [..., n, parts * C]."""
    mixed = jnp.einsum("pxu,...uc->...xpc", mixing, values)
    return mixed.reshape(*values.shape[:-1], -1)


def _normal(values: Array) -> Array:
    values -= values.mean(-1, keepdims=True)
    return values * jax.lax.rsqrt((values * values).mean(-1, keepdims=True) + 1e-5)


def _each(row: Row) -> Row:
    """Words [B, n] for each of K moves."""
    return tuple(word[:, None, :] for word in row)


def _at(values: Array, numbers: Array) -> Array:
    """Values [B, n, C] at numbers [B, K]."""
    return jnp.take_along_axis(values, numbers[..., None], -2)
