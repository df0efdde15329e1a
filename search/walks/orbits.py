"""Schemes that the cyclic shift maps to themselves, as orbits and cubes; and the standard algorithm in that form.

In trace form, trace(A B C) = sum a_ij b_jk c_ki, the three factors of a term are n x n matrices of one space, and
a(x)b(x)c -> b(x)c(x)a maps the tensor to itself. A term is three masks, entry (i, j) in bit i * n + j; the third is
the transpose of a column of W. An orbit is a(x)b(x)c + b(x)c(x)a + c(x)a(x)b, three products; a cube is x(x)x(x)x.
All of it is over F2, where two equal terms cancel. Letters in shapes: ``o`` orbits, ``q`` cubes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Ring, Scheme

Masks = NDArray[np.uint64]
# Sets of indices 0..n-1, one for every cube of the start.
Diagonal = tuple[tuple[int, ...], ...]
_Term = tuple[int, int, int]
# The cyclic shift of A, B and C alone, with the transpose, or with the transpose across the other diagonal.
Group = Literal["Z3", "Z3T", "Z3A"]
_NO_TRANSPOSE = (
    "{scheme} is not invariant under the transpose of the symmetry {group}, which turns a(x)b(x)c into "
    "c^T(x)b^T(x)a^T; use the symmetry Z3"
)


def require_square(format: Format) -> None:
    """Check that a format has symmetric schemes.

    Raises:
        ValueError: its sizes differ.
    """
    if len(set(format)) > 1:
        raise ValueError(
            f"format {format} is not square; the symmetric walk turns A, B and C into each other, use the method flips"
        )


def standard(n: int, diagonal: Diagonal) -> Scheme:
    """The standard algorithm over F2 with the products a_ii b_ii c_ii gathered into cubes.

    The cube of D = sum e_ii over a set of indices is the sum of the cubes of the e_ii and of orbits of mixed terms,
    which are added once more to cancel them.

    Args:
        n: of the format n x n x n.
        diagonal: sets of indices, every index in an odd number of them.
    """

    def unit(i: int, j: int) -> int:
        return 1 << (i * n + j)

    terms: Counter[_Term] = Counter()
    for i, j, k in product(range(n), repeat=3):
        if not i == j == k:
            terms[unit(i, j), unit(j, k), unit(k, i)] += 1
    for part in diagonal:
        terms[(sum(unit(i, i) for i in part),) * 3] += 1
        for i, j, k in product(part, repeat=3):
            if not i == j == k:
                terms[unit(i, i), unit(j, j), unit(k, k)] += 1
    return _scheme(n, (term for term, count in terms.items() if count % 2))


def expand(n: int, orbits: Masks, cubes: Masks) -> Scheme:
    """The scheme over F2 that consists of orbits, [o, 3], and cubes, [q]; its rank is 3o + q."""
    turned = [(int(t[s]), int(t[s - 2]), int(t[s - 1])) for t in orbits for s in range(3)]
    return _scheme(n, [*turned, *((int(x),) * 3 for x in cubes)])


def decompose(scheme: Scheme) -> tuple[Masks, Masks]:
    """Orbits, [o, 3], and cubes, [q], of a scheme; ``expand`` gives the same set of terms.

    Raises:
        ValueError: it is not square, not over F2, or the cyclic shift does not map its terms to each other.
    """
    require_square(scheme.format)
    if scheme.ring is not Ring.F2:
        raise ValueError(f"{scheme} is not over F2; reduce it modulo 2 first")
    terms = Counter(_terms(scheme))
    left = Counter({term: count % 2 for term, count in terms.items()})
    orbits, cubes = [], []
    for term in terms:
        a, b, c = term
        if not left[term]:
            continue
        if a == b == c:
            cubes.append(a)
            continue
        for other in (term, (b, c, a), (c, a, b)):
            if not left[other]:
                raise ValueError(
                    f"{scheme} is not invariant under the cyclic shift of A, B and C; start the symmetric walk from a "
                    "scheme that is, or from none"
                )
            left[other] = 0
        orbits.append(term)
    return np.array(orbits, np.uint64).reshape(-1, 3), np.array(cubes, np.uint64)


def rows_of(scheme: Scheme, group: Group) -> tuple[Masks, Masks]:
    """Orbits of the cyclic shift as rows of a walk, [o, 4], and cubes, [q], of a scheme that the group keeps.

    The last entry of a row is 0, and with a transpose four times the number of the row that is the transpose of this
    one: of c^T(x)b^T(x)a^T for a(x)b(x)c, or of the row itself where it is a(x)b(x)a^T with b = b^T.

    Raises:
        ValueError: the scheme is not square, not over F2, or the group does not keep it.
    """
    orbits, cubes = decompose(scheme)
    rows = np.pad(orbits, ((0, 0), (0, 1)))
    if group == "Z3":
        return rows, cubes
    n = scheme.n
    where: dict[tuple[int, ...], int] = {}

    def image(mask: int) -> int:
        return transposed(mask, n) if group == "Z3T" else anti_transposed(mask, n)

    for index, (a, b, c) in enumerate(orbits.tolist()):
        where.update({turn: index for turn in ((a, b, c), (b, c, a), (c, a, b))})
    for index, (a, b, c) in enumerate(orbits.tolist()):
        pairs = {turn: tuple(image(mask) for mask in turn[::-1]) for turn in ((a, b, c), (b, c, a), (c, a, b))}
        pair = where.get(pairs[a, b, c], -1)
        if pair < 0:
            raise ValueError(_NO_TRANSPOSE.format(scheme=scheme, group=group))
        if pair > index:
            rows[pair, :3] = pairs[a, b, c]
        rows[index, 3] = 4 * pair
        if pair == index:
            rows[index, :3] = next(turn for turn, image in pairs.items() if turn == image)
    if {image(mask) for mask in cubes.tolist()} != set(cubes.tolist()):
        raise ValueError(_NO_TRANSPOSE.format(scheme=scheme, group=group))
    return rows, cubes


def transposed(mask: int, n: int) -> int:
    """The mask of the transposed matrix."""
    return sum(1 << (j * n + i) for i in range(n) for j in range(n) if mask >> (i * n + j) & 1)


def anti_transposed(mask: int, n: int) -> int:
    """The mask of the matrix transposed across the diagonal from the upper right to the lower left."""
    last = n - 1
    return sum(1 << ((last - j) * n + last - i) for i in range(n) for j in range(n) if mask >> (i * n + j) & 1)


def _scheme(n: int, terms: Iterable[_Term]) -> Scheme:
    """The scheme with these terms in trace form."""
    masks = np.array([(a, b, transposed(c, n)) for a, b, c in terms], np.uint64).reshape(-1, 3)
    bits = np.arange(n * n, dtype=np.uint64)[:, None]
    factors = ((masks[:, mode] >> bits & np.uint64(1)).astype(np.int64) for mode in range(3))
    return Scheme(Format(n, n, n), Ring.F2, *factors)


def _terms(scheme: Scheme) -> list[_Term]:
    """The terms of a square scheme in trace form."""
    n = scheme.n
    weights = np.uint64(1) << np.arange(n * n, dtype=np.uint64)
    third = scheme.W.reshape(n, n, -1).transpose(1, 0, 2).reshape(n * n, -1)
    a, b, c = (weights @ factor.astype(np.uint64) for factor in (scheme.U, scheme.V, third))
    return list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
