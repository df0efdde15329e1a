"""Vectors over F2 and F3 as machine words, and elimination on many small matrices at once, as pure JAX functions.

A vector over F2 is one word of bits; a vector over F3 is two words, one with a bit for every +1 and one for every -1.
The vectors of a space of dimension d are also numbered: number i has the digits of i to the base p, lowest first,
where the digit 2 stands for -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Array = Any  # of jax
Row = tuple[Array, ...]  # p - 1 arrays of int32 words, all of the same shape


def digits(p: int, dimension: int) -> NDArray[np.int8]:
    """All vectors of a space, [p**dimension, dimension], entries in {0, 1} or {-1, 0, 1}."""
    numbers = np.arange(p**dimension)[:, None] // p ** np.arange(dimension) % p
    return np.where(numbers == 2, -1, numbers).astype(np.int8)


def characters(p: int, dimension: int) -> NDArray[np.float32]:
    """The Fourier transform of functions on a space as real matrices, [p - 1, p**dimension, p**dimension].

    Entry (x, u) depends on the pairing of x and u alone: +1 or -1 over F2, cosine and sine over F3. A change of basis
    moves the points x and, dually, u, so what is made of such sums follows it.
    """
    vectors = digits(p, dimension).astype(np.int64)
    pairing = vectors @ vectors.T % p
    angle = 2 * np.pi * pairing / p
    parts = [np.cos(angle)] if p == 2 else [np.cos(angle), np.sin(angle)]
    return np.stack(parts).astype(np.float32) / np.float32(np.sqrt(p**dimension))


def pack(p: int, entries: Array) -> Row:
    """Words of vectors; ``entries`` are [..., n] integers, of which the residue counts, n at most 30."""
    weights = 1 << jnp.arange(entries.shape[-1], dtype=jnp.int32)
    return tuple(((entries % p == digit) * weights).sum(-1, dtype=jnp.int32) for digit in range(1, p))


def add(a: Row, b: Row) -> Row:
    """The sum of vectors."""
    if len(a) == 1:
        return (a[0] ^ b[0],)
    a_any, b_any = a[0] | a[1], b[0] | b[1]
    plus = (a[0] & ~b_any) | (b[0] & ~a_any) | (a[1] & b[1])
    minus = (a[1] & ~b_any) | (b[1] & ~a_any) | (a[0] & b[0])
    return plus, minus


def negative(a: Row) -> Row:
    """Minus a vector."""
    return a[::-1]


def masked(a: Row, keep: Array) -> Row:
    """A vector where ``keep``, else zero."""
    return tuple(jnp.where(keep, word, 0) for word in a)


def is_zero(a: Row) -> Array:
    """Whether all entries are zero."""
    return a[0] == 0 if len(a) == 1 else (a[0] | a[1]) == 0


def cleared(row: Row, pivot: Row) -> Row:
    """A row plus the multiple of a pivot row that makes its entry at the pivot's first entry zero."""
    if len(row) == 1:
        first = pivot[0] & -pivot[0]
        return (jnp.where(row[0] & first != 0, row[0] ^ pivot[0], row[0]),)
    either = pivot[0] | pivot[1]
    first = either & -either
    same = (row[0] & pivot[0] | row[1] & pivot[1]) & first != 0
    signed = tuple(jnp.where(same, minus, plus) for plus, minus in zip(pivot, negative(pivot), strict=True))
    return add(row, masked(signed, (row[0] | row[1]) & first != 0))


def eliminated(rows: Sequence[Row]) -> tuple[list[Row], Array]:
    """The rows after forward elimination, each free of the first entries of those before it, and the rank, int32."""
    left = list(rows)
    for i in range(len(left)):
        for j in range(i + 1, len(left)):
            left[j] = cleared(left[j], left[i])
    return left, sum(jnp.where(is_zero(row), 0, 1) for row in left)


def in_span(vector: Row, echelon: Sequence[Row]) -> Array:
    """Whether a vector is a combination of rows that were eliminated."""
    for row in echelon:
        vector = cleared(vector, row)
    return is_zero(vector)


def combinations(p: int, slices: Row) -> Row:
    """All combinations of slices, in the order of their numbers.

    Args:
        p: 2 or 3.
        slices: words [..., d, h], h rows for each of d slices.

    Returns:
        Words [..., p**d, h].
    """
    count = slices[0].shape[-2]
    found: Row = tuple(jnp.zeros_like(word[..., :1, :]) for word in slices)
    for i in range(count):
        one: Row = tuple(word[..., i : i + 1, :] for word in slices)
        more = [found, add(found, one)] + ([add(found, negative(one))] if p == 3 else [])
        found = tuple(jnp.concatenate(words, -2) for words in zip(*more, strict=True))
    return found


def rows_of(matrices: Row) -> list[Row]:
    """Words [..., h] as a list of h rows."""
    return [tuple(word[..., i] for word in matrices) for i in range(matrices[0].shape[-1])]
