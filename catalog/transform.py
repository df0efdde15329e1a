"""Transforms that map exact schemes to exact schemes.

Role permutations are symmetries of the matrix multiplication tensor (de Groote 1978; the others are in
``catalog.sandwich``); kron, concatenate, project and extend change the format; reduce_mod changes the ring. None
of them checks exactness.
"""

from __future__ import annotations

from math import lcm
from typing import Literal

import numpy as np

from catalog.known import classical
from catalog.scheme import Factor, Format, Ring, Scheme

Axis = Literal["m", "k", "n"]
AXES: tuple[Axis, ...] = ("m", "k", "n")


def rotate(scheme: Scheme) -> Scheme:
    """The cyclic role permutation A -> B -> C^T: an m x k x n scheme becomes a k x n x m one."""
    m, k, n = scheme.format
    du, dv, dw = scheme.denominators
    return Scheme(
        Format(k, n, m),
        scheme.ring,
        scheme.V,
        _transpose_rows(scheme.W, m, n),
        _transpose_rows(scheme.U, m, k),
        denominators=(dv, dw, du),
    )


def transpose(scheme: Scheme) -> Scheme:
    """The scheme for C^T = B^T A^T: an m x k x n scheme becomes an n x k x m one."""
    m, k, n = scheme.format
    du, dv, dw = scheme.denominators
    return Scheme(
        Format(n, k, m),
        scheme.ring,
        _transpose_rows(scheme.V, k, n),
        _transpose_rows(scheme.U, m, k),
        _transpose_rows(scheme.W, m, n),
        denominators=(dv, du, dw),
    )


def orientations(scheme: Scheme) -> list[Scheme]:
    """The six role permutations of a scheme, itself first."""
    turned = [scheme, rotate(scheme), rotate(rotate(scheme))]
    return turned + [transpose(s) for s in turned]


def orient(scheme: Scheme, format: Format) -> Scheme:
    """The first role permutation of a scheme that has the wanted format.

    Raises:
        ValueError: the sizes differ.
    """
    for candidate in orientations(scheme):
        if candidate.format == format:
            return candidate
    raise ValueError(f"a {scheme.format} scheme has no orientation {format}; the sizes differ")


def kron(outer: Scheme, inner: Scheme) -> Scheme:
    """One level of ``outer`` whose block products are done by ``inner``: formats and ranks multiply.

    Raises:
        ValueError: the rings differ.
    """
    ring = _common_ring(outer, inner)
    (m1, k1, n1), (m2, k2, n2) = outer.format, inner.format
    shapes = ((m1, k1, m2, k2), (k1, n1, k2, n2), (m1, n1, m2, n2))
    factors = []
    for (p, q, s, t), left, right in zip(shapes, outer.factors, inner.factors, strict=True):
        _require_no_overflow(left, right)
        product = np.einsum("ijr,pqs->ipjqrs", left.reshape(p, q, -1), right.reshape(s, t, -1))
        factors.append(product.reshape(p * s * q * t, -1))
    denominators = tuple(a * b for a, b in zip(outer.denominators, inner.denominators, strict=True))
    return Scheme(Format(m1 * m2, k1 * k2, n1 * n2), ring, *factors, denominators=denominators)


def concatenate(first: Scheme, second: Scheme, axis: Axis) -> Scheme:
    """The direct sum along one dimension: two schemes that agree in the other two sizes side by side.

    Raises:
        ValueError: the rings or the other two sizes differ.
    """
    ring = _common_ring(first, second)
    position = "mkn".index(axis)
    if any(a != b for i, (a, b) in enumerate(zip(first.format, second.format, strict=True)) if i != position):
        raise ValueError(f"cannot concatenate {first.format} and {second.format} along {axis}; other sizes differ")
    sizes, offsets = list(first.format), [0, 0, 0]
    offsets[position] = sizes[position]
    sizes[position] += second.format[position]
    whole = Format(*sizes).checked()
    factors, denominators = [], []
    for mode in range(3):
        d1, d2 = first.denominators[mode], second.denominators[mode]
        common = lcm(d1, d2)
        left = _embed(first, mode, whole, (0, 0, 0)) * (common // d1)
        right = _embed(second, mode, whole, tuple(offsets)) * (common // d2)
        factors.append(np.concatenate([left, right], axis=1))
        denominators.append(common)
    return Scheme(whole, ring, *factors, denominators=tuple(denominators))


def extend(scheme: Scheme, axis: Axis, by: int = 1) -> Scheme:
    """Enlarge one dimension by appending the standard algorithm of the new slices."""
    sizes = dict(zip("mkn", scheme.format, strict=True)) | {axis: by}
    return concatenate(scheme, classical(Format(sizes["m"], sizes["k"], sizes["n"]), scheme.ring), axis)


def project(scheme: Scheme, axis: Axis, index: int) -> Scheme:
    """Delete one index (0-based) of one dimension and drop the terms that vanish.

    Raises:
        ValueError: the dimension has size 1 or the index lies outside it.
    """
    position = "mkn".index(axis)
    size = scheme.format[position]
    if size == 1 or not 0 <= index < size:
        raise ValueError(f"cannot project {scheme.format} along {axis} at {index}; it has size {size}")
    keep = [np.arange(s) for s in scheme.format]
    keep[position] = np.delete(keep[position], index)
    factors = []
    for (p, q), factor in zip(((0, 1), (1, 2), (0, 2)), scheme.factors, strict=True):
        block = factor.reshape(scheme.format[p], scheme.format[q], -1)[np.ix_(keep[p], keep[q])]
        factors.append(block.reshape(-1, scheme.rank))
    sizes = list(scheme.format)
    sizes[position] -= 1
    return drop_zero_terms(Scheme(Format(*sizes), scheme.ring, *factors, denominators=scheme.denominators))


def drop_zero_terms(scheme: Scheme) -> Scheme:
    """Remove the terms in which a factor is zero."""
    live = np.logical_and.reduce([factor.any(axis=0) for factor in scheme.factors])
    return Scheme(scheme.format, scheme.ring, *(f[:, live] for f in scheme.factors), denominators=scheme.denominators)


def reduce_mod(scheme: Scheme, ring: Ring) -> Scheme:
    """The image of a scheme over Z (or over Q without p in its denominators) over F2 or F3.

    Raises:
        ValueError: the ring has no modulus, or it divides a denominator.
    """
    p = ring.modulus
    if not p or scheme.ring.modulus not in (0, p):
        raise ValueError(f"cannot reduce a scheme over {scheme.ring} to {ring}")
    if scheme.denominator % p == 0:
        raise ValueError(f"denominator {scheme.denominator} is not invertible over {ring}")
    factors = [f % p * pow(d, -1, p) for f, d in zip(scheme.factors, scheme.denominators, strict=True)]
    return drop_zero_terms(Scheme(scheme.format, ring, *factors))


def _common_ring(first: Scheme, second: Scheme) -> Ring:
    if first.ring is not second.ring:
        raise ValueError(f"rings differ: {first.ring} and {second.ring}; reduce one of the schemes first")
    return first.ring


def _transpose_rows(factor: Factor, rows: int, columns: int) -> Factor:
    return factor.reshape(rows, columns, -1).transpose(1, 0, 2).reshape(rows * columns, -1)


def _embed(scheme: Scheme, mode: int, whole: Format, offsets: tuple[int, ...]) -> Factor:
    """Place a scheme's factor matrix at ``offsets`` inside that of a larger format."""
    p, q = ((0, 1), (1, 2), (0, 2))[mode]
    small, out = scheme.format, np.zeros((whole[p], whole[q], scheme.rank), dtype=np.int64)
    block = scheme.factors[mode].reshape(small[p], small[q], -1)
    out[offsets[p] : offsets[p] + small[p], offsets[q] : offsets[q] + small[q]] = block
    return out.reshape(whole[p] * whole[q], -1)


def _require_no_overflow(left: Factor, right: Factor) -> None:
    peaks = [max(-int(f.min(initial=0)), int(f.max(initial=0))) for f in (left, right)]
    if peaks[0] * peaks[1] >= 1 << 63:
        raise ValueError("the Kronecker product has coefficients beyond 64 bits")
