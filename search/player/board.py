"""TensorGame for many games at once: residual tensors over F2 or Z, moves, the plain slice-rank bound, other bases.

As in ``search.games.game`` a move is a rank-one tensor u (x) v (x) w that is taken away (Fawzi et al., Nature 610,
2022); u, v and w are numbers of vectors (see ``search.player.fields``) over F2, or with entries in {-1, 0, 1} over Z.
In the shapes, B stands for a batch of games, [d0, d1, d2] = [mk, kn, mn] for the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from catalog.known import classical
from catalog.scheme import Format, Ring
from search.games.game import factor_sizes
from search.player.fields import Array, digits, eliminated, pack, rows_of

# Vectors of the largest factor: 2**12 for 2x3x4 and 3x3x4, 3**6 for 2x2x3. The network looks at all of them at once.
_MOST_POINTS = 1 << 12
# Ranks over Q are those modulo this prime, whose products fit int32. A scheme found is proved exactly in any case.
_PRIME = 32749


@dataclass(frozen=True)
class Board:
    """A format over a ring.

    Attributes:
        format: of the product.
        ring: F2, or Z for residuals over the integers and moves with entries in {-1, 0, 1}.

    Raises:
        ValueError: the ring is another one, or a factor has too many vectors.
    """

    format: Format
    ring: Ring

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", Format(*self.format).checked())
        object.__setattr__(self, "ring", Ring(self.ring))
        if self.ring not in (Ring.F2, Ring.Z):
            raise ValueError(f"the player plays over F2 or Z, not {self.ring}; search one of them and reduce or lift")
        if (largest := self.p ** max(self.sizes)) > _MOST_POINTS:
            raise ValueError(
                f"format {self.format} over {self.ring} has factors of {largest} vectors and the player affords "
                f"{_MOST_POINTS}; use the method flips for it"
            )

    @property
    def p(self) -> int:
        """The characteristic in which the network looks at a residual; 3 tells the signs of a game over Z apart."""
        return 2 if self.ring is Ring.F2 else 3

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Entries of A, B and C."""
        return factor_sizes(self.format)

    @property
    def limit(self) -> int:
        """Moves after which a game ends: what the standard algorithm takes."""
        return self.format.volume

    def opening(self) -> NDArray[np.int8]:
        """The matrix multiplication tensor, [d0, d1, d2]."""
        u, v, w = (factor.astype(np.int64) for factor in classical(self.format, Ring.Z).factors)
        return np.einsum("at,bt,ct->abc", u, v, w).astype(np.int8)

    def vectors(self, mode: int) -> NDArray[np.int8]:
        """The vectors of a factor by number, [p**d, d]."""
        return digits(self.p, self.sizes[mode])

    def points(self, mode: int) -> int:
        """How many vectors a factor has, zero among them."""
        return int(self.p ** self.sizes[mode])

    @cached_property
    def order(self) -> tuple[int, int, int]:
        """In which the factors of a move are chosen: the longest first, the shortest last."""
        a, b, c = sorted(range(3), key=lambda mode: -self.sizes[mode])
        return a, b, c

    def playable(self, mode: int) -> NDArray[np.bool_]:
        """Which numbers may be played: not zero and, of two of opposite sign, one only unless the factor comes last."""
        vectors = self.vectors(mode)
        return np.asarray(vectors.any(axis=1) if mode == self.order[2] else _leading(vectors) > 0)

    def numbers(self, factors: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64] | None:
        """Terms [t, d] of each factor as moves [t, 3]; None if an entry is no digit."""
        u, v, w = (np.asarray(factor, dtype=np.int64) for factor in factors)
        parts = [u % 2, v % 2, w % 2] if self.ring is Ring.F2 else [u, v, w]
        if any(abs(part).max(initial=0) > 1 for part in parts):
            return None
        last = self.order[2]
        for mode in self.order[:2]:
            sign = np.where(_leading(parts[mode]) < 0, -1, 1)[:, None]
            parts[mode], parts[last] = parts[mode] * sign, parts[last] * sign
        return np.stack([part % self.p @ self.p ** np.arange(part.shape[1]) for part in parts], axis=1)

    def terms(self, moves: Array) -> Array:
        """The rank-one tensors of moves [..., 3], [..., d0, d1, d2] int32."""
        u, v, w = (jnp.asarray(self.vectors(mode), jnp.int32)[moves[..., mode]] for mode in range(3))
        return u[..., :, None, None] * v[..., None, :, None] * w[..., None, None, :]

    def reduced(self, tensor: Array) -> Array:
        """A tensor as the ring has it: modulo 2 over F2."""
        return tensor & 1 if self.ring is Ring.F2 else tensor

    def after(self, residual: Array, moves: Array) -> Array:
        """What is left of residuals [B, d0, d1, d2] after a move each, [B, 3]."""
        return self.reduced(residual - self.terms(moves))

    def total(self, moves: Array, count: Array) -> Array:
        """The sums of the first ``count`` [B] of moves [B, t, 3], [B, d0, d1, d2] int32."""
        on = jnp.arange(moves.shape[-2]) < count[..., None]
        return self.reduced((self.terms(moves) * on[..., None, None, None]).sum(-4))

    def slices(self, residual: Array, mode: int, rows: int) -> tuple[Array, ...]:
        """Words [B, d_mode, d_rows] of the slices along a mode, whose rows run along another, modulo p."""
        other = 3 - mode - rows
        return pack(self.p, jnp.moveaxis(residual, (-3 + mode, -3 + rows, -3 + other), (-3, -2, -1)))

    def bound(self, residual: Array) -> Array:
        """The plain slice-rank bound, [B] int32: the least sum, over the modes, of the ranks of the slices as they are.

        It is constructive (``search.player.ending``); 0 means that nothing is left. Unlike ``search.games.slice_bound``
        it depends on the basis and is far from the rank, so it leads no search by itself.
        """
        sums = []
        for mode in range(3):
            rows, columns = ((1, 2), (0, 2), (0, 1))[mode]
            if self.ring is Ring.F2:
                ranks = eliminated(rows_of(self.slices(residual, mode, rows)))[1]
            else:
                ranks = _rank(jnp.moveaxis(residual, (-3 + mode, -3 + rows, -3 + columns), (-3, -2, -1)))
            sums.append(ranks.sum(-1))
        return jnp.minimum(jnp.minimum(sums[0], sums[1]), sums[2])

    def bases(self, key: Any, count: int) -> list[Array]:
        """Random invertible matrices over the ring for each factor, three of [count, d, d] int32.

        Over Z they are products of two signed unit triangular matrices with few entries, so that residuals stay small.
        """
        found = []
        for mode, size in enumerate(self.sizes):
            low, high = jax.random.split(jax.random.fold_in(key, mode))
            triangles = []
            for one, part in ((low, jnp.tril), (high, jnp.triu)):
                if self.ring is Ring.F2:
                    entries = jax.random.randint(one, (count, size, size), 0, 2)
                else:
                    entries = jax.random.choice(
                        one, jnp.array([-1, 0, 1]), (count, size, size), p=jnp.array([0.1, 0.8, 0.1])
                    )
                strict = part(entries, -1 if part is jnp.tril else 1)
                triangles.append(strict + jnp.eye(size, dtype=jnp.int32))
            found.append(self.reduced(triangles[0] @ triangles[1]))
        return found

    def changed(self, residual: Array, bases: list[Array]) -> Array:
        """Residuals [B, d0, d1, d2] in other bases, three of [B, d, d]."""
        return self.reduced(jnp.einsum("nabc,nia,njb,nkc->nijk", residual, *bases))


def _leading(vectors: NDArray[Any]) -> NDArray[Any]:
    """The first entry that is not zero of each vector [t, d]; 0 where there is none."""
    return np.take_along_axis(vectors, (vectors != 0).argmax(axis=1)[:, None], 1)[:, 0]


def _rank(matrices: Array) -> Array:
    """Ranks over Q of integer matrices [..., h, w] with small entries."""
    height, width = matrices.shape[-2:]
    left, rank = matrices.astype(jnp.int32) % _PRIME, jnp.zeros(matrices.shape[:-2], jnp.int32)
    for _ in range(min(height, width)):
        flat = left.reshape(*left.shape[:-2], height * width)
        at = (flat != 0).argmax(-1)[..., None]
        pivot = jnp.take_along_axis(flat, at, -1)[..., None]
        row = jnp.take_along_axis(left, (at // width)[..., None], -2)
        column = jnp.take_along_axis(left, (at % width)[..., None], -1)
        rank += pivot[..., 0, 0] != 0
        left = (pivot * left - column * row) % _PRIME
    return rank
