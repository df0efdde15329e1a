"""The Brent equations at one point over F2 or F3, for lifting. Letters in shapes: e equations, x unknowns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Scheme
from search.lifts.gf2 import Bits

# Bytes that one lift may take.
LIMIT = 3 << 30


@dataclass(frozen=True)
class Brent:
    """F(x) = T around a scheme: e = mk * kn * mn equations in x unknowns (all of U, then V, then W).

    Attributes:
        format: of the scheme.
        start: [x] int64, the coefficients over F2, or those over F3 in -1, 0 and 1.
        target: [e] int64, T, the matrix multiplication tensor.
        prime: 2 or 3.
    """

    format: Format
    start: NDArray[np.int64]
    target: NDArray[np.int64]
    prime: int = field(default=2, kw_only=True)

    @classmethod
    def of(cls, scheme: Scheme) -> Brent:
        """The equations around ``scheme``."""
        m, k, n = scheme.format
        target = np.zeros((m, k, k, n, m, n), dtype=np.int64)
        i, j, col = (index.ravel() for index in np.indices((m, k, n)))
        target[i, j, j, col, i, col] = 1
        start = np.concatenate([factor.ravel() for factor in scheme.factors])
        return cls(scheme.format, start, target.ravel(), prime=scheme.ring.modulus)

    @property
    def rows(self) -> tuple[int, int, int]:
        """Rows of U, V and W."""
        m, k, n = self.format
        return m * k, k * n, m * n

    @property
    def rank(self) -> int:
        """Terms of the scheme."""
        return len(self.start) // sum(self.rows)

    @property
    def jacobian_fits(self) -> bool:
        """Whether Hensel lifting keeps below the limit of memory."""
        return self.jacobian_bytes <= LIMIT

    @property
    def jacobian_bytes(self) -> int:
        """Memory that Hensel lifting takes."""
        # The matrix, the sums of pivot rows in its elimination, and the products of U and V in a residual.
        a, b, _ = self.rows
        rows = len(self.target) + 2048 if self.prime == 2 else 2 * (len(self.target) + 1296)
        return 8 * ((len(self.start) + 63) // 64 * rows + a * b * self.rank)

    def factors(self, point: NDArray) -> list[NDArray]:
        """U, V, W as matrices [rows, r] of a point [x]."""
        a, b, _ = self.rows
        return [part.reshape(-1, self.rank) for part in np.split(point, [a * self.rank, (a + b) * self.rank])]

    def residual(self, point: NDArray[np.int64]) -> NDArray[np.int64]:
        """T - F(point), [e] int64, exact modulo 2**64 (integer overflow wraps)."""
        u, v, w = self.factors(point)
        products = (u[:, None, :] * v[None, :, :]).reshape(-1, self.rank)
        return self.target - (products @ w.T).ravel()

    def residual_mod(self, point: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
        """T - F(point) in 0..modulus-1, [e] int64, of a point in -modulus/2..modulus/2.

        Exact while r * modulus**2 / 4 is below 2**63.
        """
        u, v, w = self.factors(point)
        half = modulus // 2
        products = ((u[:, None, :] * v[None, :, :]).reshape(-1, self.rank) + half) % modulus - half
        return (self.target - (products @ w.T).ravel()) % modulus

    def jacobian(self, order: NDArray[np.int64]) -> Bits:
        """The derivative of F, with unknown ``order[j]`` in column j.

        Returns:
            [p - 1, e, ceil(x / 64)] uint64. Over F2 one plane; over F3 where it is not zero and where it is 2.

        Raises:
            ValueError: it would take too much memory.
        """
        if not self.jacobian_fits:
            raise ValueError(
                f"lifting this {self.format} scheme of rank {self.rank} would take {self.jacobian_bytes / 2**30:.2f}"
                f" GiB, the limit is {LIMIT >> 30} GiB; lift the smaller schemes that it is made of instead"
            )
        words = (len(order) + 63) // 64
        column = np.empty_like(order)
        column[order] = np.arange(len(order))
        planes = np.zeros((self.prime - 1, *self.rows, words), dtype=np.uint64)
        factors = self.factors(self.start)
        columns = self.factors(column)
        for term in range(self.rank):
            support = [np.flatnonzero(factor[:, term]) for factor in factors]
            for mode in range(3):
                rows = [np.arange(self.rows[i]) if i == mode else support[i] for i in range(3)]
                at = np.ix_(*rows)
                shape = [1, 1, 1]
                shape[mode] = -1
                where = columns[mode][:, term].reshape(shape)
                bits = np.uint64(1) << (where & 63).astype(np.uint64)
                planes[0][(*at, where >> 6)] |= bits
                if self.prime == 3:
                    first, second = (factors[i][:, term][at[i]] for i in range(3) if i != mode)
                    planes[1][(*at, where >> 6)] |= np.where(first * second < 0, bits, np.uint64(0))
        return planes.reshape(self.prime - 1, -1, words)
