"""Change of bases, the continuous part of the symmetry group of matrix multiplication (de Groote 1978)."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import ArrayLike

from catalog.scheme import Factor, Ring, Scheme

Matrix = list[list[Fraction]]


def sandwich(scheme: Scheme, x: ArrayLike, y: ArrayLike, z: ArrayLike) -> Scheme:
    """Change bases: C = X (X^-1 A Y)(Y^-1 B Z) Z^-1, with the inner product done by the scheme.

    Args:
        scheme: the scheme to transform.
        x: [m, m] integers, invertible in the ring.
        y: [k, k] integers, invertible in the ring.
        z: [n, n] integers, invertible in the ring.

    Raises:
        ValueError: a matrix has the wrong shape or no inverse in the ring.
    """
    sizes = scheme.format
    bases = []
    for name, matrix, size in zip("XYZ", (x, y, z), sizes, strict=True):
        array = np.asarray(matrix)
        if array.shape != (size, size):
            raise ValueError(f"{name} must have shape ({size}, {size}), not {array.shape}")
        bases.append(([[Fraction(int(e)) for e in row] for row in array.tolist()], inverse(name, array, scheme.ring)))
    (bx, ix), (by, iy), (bz, iz) = bases
    # A' = P A Q turns a coefficient matrix u' on A' into P^T u' Q^T on A; C = X C' Z^-1 turns W' into X w' Z^-1.
    u = _two_sided(_flip(ix), scheme.U, _flip(by), sizes.m, sizes.k)
    v = _two_sided(_flip(iy), scheme.V, _flip(bz), sizes.k, sizes.n)
    w = _two_sided(bx, scheme.W, iz, sizes.m, sizes.n)
    factors, denominators = zip(
        *(_clear(f, d) for f, d in zip((u, v, w), scheme.denominators, strict=True)), strict=True
    )
    if scheme.ring is not Ring.Q:
        denominators = (1, 1, 1)
    return Scheme(sizes, scheme.ring, *factors, denominators=denominators)


def _flip(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def inverse(name: str, array: np.ndarray, ring: Ring) -> Matrix:
    """Inverse in the ring by Gauss-Jordan elimination; its entries are integers unless the ring is Q."""
    size, p = len(array), ring.modulus
    rows = [
        [Fraction(int(e)) for e in row] + [Fraction(int(i == j)) for j in range(size)]
        for i, row in enumerate(array.tolist())
    ]
    for column in range(size):
        pivot = next((r for r in range(column, size) if (rows[r][column] % p if p else rows[r][column])), None)
        if pivot is None:
            raise ValueError(f"{name} has no inverse over {ring}")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        scale = Fraction(pow(int(head), -1, p)) if p else 1 / head
        rows[column] = [_residue(e * scale, p) for e in rows[column]]
        for other in range(size):
            if other != column and rows[other][column]:
                factor = rows[other][column]
                rows[other] = [_residue(e - factor * f, p) for e, f in zip(rows[other], rows[column], strict=True)]
    inverse = [row[size:] for row in rows]
    if ring is Ring.Z and any(e.denominator != 1 for e in itertools.chain(*inverse)):
        raise ValueError(f"{name} has no inverse over Z; its determinant must be 1 or -1")
    return inverse


def _residue(value: Fraction, modulus: int) -> Fraction:
    return value % modulus if modulus else value


def _two_sided(left: Matrix, factor: Factor, right: Matrix, rows: int, columns: int) -> np.ndarray:
    """The product left . X . right for the coefficient matrix X of every term; [rows*columns, r] of Fractions."""
    blocks = factor.astype(object).reshape(rows, columns, -1).transpose(2, 0, 1)
    moved = np.array(left, dtype=object) @ blocks @ np.array(right, dtype=object)
    return moved.transpose(1, 2, 0).reshape(rows * columns, -1)


def _clear(factor: np.ndarray, denominator: int) -> tuple[np.ndarray, int]:
    """Integers and the common denominator of a matrix of Fractions that was already divided by ``denominator``."""
    fractions = [Fraction(e) for e in factor.ravel()]
    common = lcm(1, *(e.denominator for e in fractions))
    return np.array([int(e * common) for e in fractions], dtype=object).reshape(factor.shape), common * denominator
