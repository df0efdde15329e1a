"""The Brent equations of a scheme that the cyclic shift keeps, an unknown and an equation for each orbit.

Lifting a term of an orbit as its two images leaves about a third of the unknowns and of the equations. Nothing is lost
modulo 4: the equations are invariant and 3 is odd, so the sum of the three images of a correction is one as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Scheme
from search.lifts.brent import LIMIT, Brent
from search.lifts.gf2 import Bits
from search.walks.orbits import decompose


@dataclass(frozen=True)
class OrbitBrent(Brent):
    """F(x) = T around orbits and cubes (see ``search.walks.orbits``), in trace form. Letters: N = n * n, o, q as there.

    Attributes:
        start: [3*N*o + N*q] int64. The orbits' first factors, [N, o], second and third ones; the cubes, [N, q].
        orbits: o.
        chosen: [e] the flat indices of the equations (a, b, c) that are the least among their three turns.
        classes: [N, N, N] which of these an equation is a turn of.
    """

    orbits: int = field(kw_only=True)
    chosen: NDArray[np.int64] = field(kw_only=True)
    classes: NDArray[np.int64] = field(kw_only=True)

    @classmethod
    def of(cls, scheme: Scheme) -> OrbitBrent:
        """The equations around ``scheme``.

        Raises:
            ValueError: the cyclic shift does not keep it.
        """
        orbits, cubes = decompose(scheme)
        size = scheme.n**2
        bits = np.arange(size, dtype=np.uint64)[:, None]
        masks = [*orbits.T, cubes]
        start = np.concatenate([(mask >> bits & np.uint64(1)).astype(np.int64).ravel() for mask in masks])
        index = np.arange(size**3).reshape(size, size, size)
        least = np.minimum(index, np.minimum(index.transpose(1, 2, 0), index.transpose(2, 0, 1)))
        chosen, classes = np.unique(least, return_inverse=True)
        return cls(
            scheme.format,
            start,
            Brent.of(scheme).target,
            orbits=len(orbits),
            chosen=chosen,
            classes=classes.reshape(index.shape),
        )

    @property
    def rank(self) -> int:
        """Terms of the scheme."""
        return len(self.start) // self.format.n**2

    @property
    def jacobian_bytes(self) -> int:
        """Memory that Hensel lifting takes."""
        size = self.format.n**2
        words = (len(self.start) + 63) // 64
        return 8 * (words * (len(self.chosen) + 2048) + size**2 * (self.orbits + size))

    def factors(self, point: NDArray) -> list[NDArray]:
        """U, V, W as matrices [N, r] of a point: all turns of the orbits, then the cubes."""
        n = self.format.n
        a, b, c, x = self._parts(point)
        u, v, w = ([a, b, c, x], [b, c, a, x], [c, a, b, x])
        third = np.concatenate(w, axis=1).reshape(n, n, -1).transpose(1, 0, 2).reshape(n * n, -1)
        return [np.concatenate(u, axis=1), np.concatenate(v, axis=1), third]

    def residual(self, point: NDArray[np.int64]) -> NDArray[np.int64]:
        """T - F(point) in the chosen equations, [e] int64, exact modulo 2**64 (integer overflow wraps)."""
        n, size = self.format.n, self.format.n**2
        a, b, c, x = self._parts(point)
        one, cube = (
            ((u[:, None, :] * v[None, :, :]).reshape(size * size, -1) @ w.T).reshape(size, size, size)
            for u, v, w in ((a, b, c), (x, x, x))
        )
        sums = one + one.transpose(1, 2, 0) + one.transpose(2, 0, 1) + cube
        # T has C not transposed, the trace form does.
        target = self.target.reshape(size, size, n, n).transpose(0, 1, 3, 2).reshape(size, size, size)
        return (target - sums).ravel()[self.chosen]

    def jacobian(self, order: NDArray[np.int64]) -> Bits:
        """The derivative of F modulo 2, [1, e, ceil(x / 64)] uint64, with unknown ``order[j]`` in column j.

        Raises:
            ValueError: it would take too much memory.
        """
        if not self.jacobian_fits:
            raise ValueError(
                f"lifting this symmetric {self.format} scheme of rank {self.rank} would take "
                f"{self.jacobian_bytes / 2**30:.2f} GiB, the limit is {LIMIT >> 30} GiB; lift the smaller schemes "
                "that it is made of instead"
            )
        column = np.empty_like(order)
        column[order] = np.arange(len(order))
        matrix = np.zeros((len(self.chosen), (len(order) + 63) // 64), dtype=np.uint64)
        a, b, c, x = self._parts(self.start)
        of_a, of_b, of_c, of_x = self._parts(column)
        # d/da of abc + bca + cab meets every turn of an equation once; so does d/dx of xxx, once for each place.
        for unknowns, second, third in ((of_a, b, c), (of_b, c, a), (of_c, a, b), (of_x, x, x)):
            for term in range(unknowns.shape[1]):
                v, w = np.flatnonzero(second[:, term]), np.flatnonzero(third[:, term])
                rows = self.classes[:, v[:, None], w[None, :]]
                where = unknowns[:, term][:, None, None]
                bit = np.uint64(1) << (where & 63).astype(np.uint64)
                # Two turns of one equation in the same column cancel.
                np.bitwise_xor.at(matrix, (rows, where >> 6), bit)
        return matrix[None]

    def _parts(self, point: NDArray) -> list[NDArray]:
        """The factors of the orbits, three times [N, o], and the cubes, [N, q]."""
        size = self.format.n**2
        cuts = [place * size * self.orbits for place in (1, 2, 3)]
        return [part.reshape(size, -1) if part.size else part.reshape(size, 0) for part in np.split(point, cuts)]
