"""The one value type of the project: a bilinear scheme for the product of an m x k by a k x n matrix.

Letters used in every shape description: ``m, k, n`` the format, ``r`` the rank. A is m x k, B is k x n and
C = AB is m x n; all three are flattened row-major and C is not transposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Factor = NDArray[np.int64]

_FORMAT = re.compile(r"\s*(\d+)\s*[xX,]\s*(\d+)\s*[xX,]\s*(\d+)\s*")
MAX_DIMENSION = 64
_LONGEST = 80  # characters of a format, blanks included; Python makes no number of thousands of digits


class Ring(StrEnum):
    """Coefficient ring in which the Brent equations hold. A rank means nothing without it."""

    F2 = "F2"
    F3 = "F3"
    Z = "Z"
    Q = "Q"

    @classmethod
    def _missing_(cls, value: object) -> None:
        shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."
        raise ValueError(f"{shown} is not a valid Ring; choose one of {', '.join(ring.value for ring in cls)}")

    @property
    def modulus(self) -> int:
        """Characteristic of the ring: 2, 3, or 0 for Z and Q."""
        return {"F2": 2, "F3": 3}.get(self.value, 0)


class Format(NamedTuple):
    """The sizes of one matrix product: A is m x k, B is k x n. Written ``m x k x n``, as catalogs do."""

    m: int
    k: int
    n: int

    @classmethod
    def parse(cls, text: str) -> Format:
        """Read ``"3x4x5"``.

        Raises:
            ValueError: ``text`` is not three sizes in 1..64 joined by ``x``.
        """
        found = _FORMAT.fullmatch(text)
        if not found or len(text) > _LONGEST:
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
            raise ValueError(f"format {shown!r} is not of the form MxKxN, for example 3x4x5")
        return cls(*(int(size) for size in found.groups())).checked()

    def checked(self) -> Format:
        """Return itself.

        Raises:
            ValueError: a size lies outside 1..64.
        """
        for name, size in zip("mkn", self, strict=True):
            if not 1 <= size <= MAX_DIMENSION:
                raise ValueError(f"format {self} has {name}={size}; sizes must lie in 1..{MAX_DIMENSION}")
        return self

    def __str__(self) -> str:
        return f"{self.m}x{self.k}x{self.n}"

    @property
    def described(self) -> str:
        """The format spelled out, so that nobody has to guess the order of the letters."""
        return f"A {self.m}x{self.k} . B {self.k}x{self.n}"

    @property
    def volume(self) -> int:
        """Products of the standard algorithm, m*k*n."""
        return self.m * self.k * self.n

    @property
    def sorted(self) -> Format:
        """The same sizes in ascending order; ranks do not depend on the order of the roles."""
        return Format(*sorted(self))


@dataclass(frozen=True, eq=False)
class Scheme:
    """A sum of ``r`` rank-one terms that claims to equal the matrix multiplication tensor.

    ``sum_r U[a,r] V[b,r] W[c,r] = denominator * T[a,b,c]`` over the ring (Brent 1970). Building a Scheme does not
    prove this: see ``catalog.verify``.

    Attributes:
        format: sizes m, k, n.
        ring: coefficient ring; entries over F2 are kept in {0, 1}, over F3 in {-1, 0, 1}.
        U: [m*k, r] int64, read-only. Coefficients of A.
        V: [k*n, r] int64, read-only. Coefficients of B.
        W: [m*n, r] int64, read-only. Coefficients with which each product enters C.
        denominators: what U, V and W are divided by; (1, 1, 1) except over Q.

    Raises:
        ValueError: a shape, an entry or a denominator does not fit.
    """

    format: Format
    ring: Ring
    U: Factor
    V: Factor
    W: Factor
    denominators: tuple[int, ...] = field(default=(1, 1, 1), kw_only=True)

    def __post_init__(self) -> None:
        fmt = Format(*(int(size) for size in self.format)).checked()
        ring = Ring(self.ring)
        rows = {"U": fmt.m * fmt.k, "V": fmt.k * fmt.n, "W": fmt.m * fmt.n}
        factors = {name: _integers(name, getattr(self, name), ring) for name in rows}
        rank = factors["U"].shape[1]
        for name, count in rows.items():
            if factors[name].shape != (count, rank):
                raise ValueError(
                    f"{name} of a {fmt} scheme must have shape ({count}, {rank}), not {factors[name].shape}"
                )
        denominators = tuple(int(d) for d in self.denominators)
        if len(denominators) != 3 or min(denominators) < 1:
            raise ValueError(f"denominators must be three positive integers, not {self.denominators}")
        if ring is not Ring.Q and denominators != (1, 1, 1):
            raise ValueError(f"denominators {denominators} need ring Q, not {ring}")
        for name, value in {"format": fmt, "ring": ring, "denominators": denominators, **factors}.items():
            object.__setattr__(self, name, value)

    @property
    def m(self) -> int:
        """Rows of A and C."""
        return self.format.m

    @property
    def k(self) -> int:
        """Columns of A, rows of B."""
        return self.format.k

    @property
    def n(self) -> int:
        """Columns of B and C."""
        return self.format.n

    @property
    def rank(self) -> int:
        """Number of rank-one terms, i.e. of block products."""
        return int(self.U.shape[1])

    @property
    def denominator(self) -> int:
        """Product of the three denominators."""
        du, dv, dw = self.denominators
        return du * dv * dw

    @property
    def is_ternary(self) -> bool:
        """Whether this is a scheme over Z whose coefficients all lie in {-1, 0, 1}."""
        return self.ring is Ring.Z and all(f.min(initial=0) >= -1 and f.max(initial=0) <= 1 for f in self.factors)

    @property
    def factors(self) -> tuple[Factor, Factor, Factor]:
        """The three factor matrices (U, V, W)."""
        return self.U, self.V, self.W

    def __repr__(self) -> str:
        return f"Scheme({self.format}, rank {self.rank} over {self.ring})"


def _integers(name: str, values: ArrayLike, ring: Ring) -> Factor:
    """A read-only int64 copy of a factor matrix, reduced to the ring's residues.

    Raises:
        ValueError: not a matrix of integers that fit in 64 bits.
    """
    array = np.asarray(values)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix, not an array of {array.ndim} dimensions")
    try:
        with np.errstate(invalid="ignore"):
            exact = array.astype(np.int64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold integers that fit in 64 bits ({error})") from None
    if array.dtype != np.int64 and not np.array_equal(exact, array):
        raise ValueError(f"{name} must hold integers that fit in 64 bits; clear denominators first")
    if ring.modulus == 2:
        exact = exact & 1
    elif ring.modulus == 3:
        exact = exact % 3
        exact = exact - 3 * (exact == 2)
    exact = np.array(exact, order="C")
    exact.setflags(write=False)
    return exact
