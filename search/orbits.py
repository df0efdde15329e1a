"""Schemes that the cyclic shift maps to themselves, as orbits and cubes; and the standard algorithm in that form.

In trace form, trace(A B C) = sum a_ij b_jk c_ki, the three factors of a term are n x n matrices of one space, and
a(x)b(x)c -> b(x)c(x)a maps the tensor to itself. A term is three masks, entry (i, j) in bit i * n + j; the third is
the transpose of a column of W. An orbit is a(x)b(x)c + b(x)c(x)a + c(x)a(x)b, three products; a cube is x(x)x(x)x.
All of it is over F2, where two equal terms cancel. Letters in shapes: ``o`` orbits, ``q`` cubes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from catalog.known import strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron

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


@dataclass(frozen=True)
class Symmetry:
    """Which symmetry a walk keeps, and where it starts.

    Attributes:
        diagonals: diagonals to start from, taken in turn (see ``standard``).
        group: "Z3" for the cyclic shift; "Z3T" for the shift and the transpose, a(x)b(x)c -> c^T(x)b^T(x)a^T; "Z3A" for
            the same with the transpose across the other diagonal, which leaves far fewer terms of the standard
            algorithm in their own place, and for even n is another group in any basis.
        halves: diagonals for n / 2, to start as well from the standard algorithm of half the size times Strassen's, of
            which these groups keep both. At 6x6x6 that leads to rank 162 in a million steps, and not further.
    """

    diagonals: tuple[Diagonal, ...]
    group: Group = "Z3"
    halves: tuple[Diagonal, ...] = ()

    def start(self, n: int, turn: int) -> Scheme:
        """The start of a walk on n x n x n whose turn it is."""
        turn %= len(self.diagonals) + len(self.halves)
        if turn < len(self.diagonals):
            return standard(n, self.diagonals[turn])
        return kron(standard(n // 2, self.halves[turn - len(self.diagonals)]), strassen(Ring.F2))


def symmetry_for(format: Format, target: int, diagonal: str | None, group: str = "Z3") -> Symmetry:
    """The symmetry with the diagonal that a user has written, else with those that suit the target.

    Raises:
        ValueError: the format is not square, or the diagonal or the group makes no sense.
    """
    require_square(format)
    if group not in get_args(Group):
        raise ValueError(
            f"unknown symmetry {group!r}; choose Z3 for the cyclic shift of A, B and C, Z3T for shift and transpose, "
            "or Z3A for shift and transpose across the other diagonal"
        )
    n = format.n
    diagonals = portfolio(n, target, cast(Group, group)) if diagonal is None else (parse_diagonal(diagonal, n),)
    for part in diagonals[0] if group == "Z3A" else ():
        if tuple(sorted(n - 1 - i for i in part)) not in diagonals[0]:
            raise ValueError(
                f"diagonal {diagonal!r} is not the same read backwards, as the symmetry Z3A wants it; give the "
                "reversed terms as well or use the symmetry Z3T"
            )
    halves = portfolio(n // 2, target, cast(Group, group)) if diagonal is None and n in (4, 6, 8) else ()
    return Symmetry(diagonals, cast(Group, group), halves)


def require_square(format: Format) -> None:
    """Check that a format has symmetric schemes.

    Raises:
        ValueError: its sizes differ.
    """
    if len(set(format)) > 1:
        raise ValueError(
            f"format {format} is not square; the symmetric walk turns A, B and C into each other, use the method flips"
        )


def parse_diagonal(text: str, n: int) -> Diagonal:
    """Read diagonal terms such as ``10001,01010,00100``: one 0/1 vector for every cube.

    Raises:
        ValueError: a vector is empty or has another length than n, or an index is in an even number of vectors.
    """
    vectors = text.split(",")
    for vector in vectors:
        if len(vector) != n or set(vector) - set("01") or "1" not in vector:
            raise ValueError(
                f"diagonal term {vector!r} is not a vector of {n} digits 0 and 1 with a 1 among them; write for "
                f"example {','.join('0' * i + '1' + '0' * (n - 1 - i) for i in range(n))}"
            )
    for index in range(n):
        count = sum(vector[index] == "1" for vector in vectors)
        if count % 2 == 0:
            raise ValueError(
                f"diagonal {text!r} has index {index + 1} in {count} of its terms; every index belongs in one of them "
                "(or in an odd number)"
            )
    return tuple(tuple(i for i in range(n) if vector[i] == "1") for vector in vectors)


def portfolio(n: int, target: int, group: Group = "Z3") -> tuple[Diagonal, ...]:
    """For every number of cubes that suits the target the most even partition of the indices.

    Flips, reductions and plus transitions of orbits change the rank by multiples of 3, so that the number of cubes
    decides which ranks can be met. Where no number suits, all are given. Even parts do best: from 2+2+1 a walk on 5x5x5
    comes below rank 100 three times as often as from 3+1+1. For Z3A the parts are the same read backwards, or come in
    pairs that are.
    """
    counts = [count for count in range(1, n + 1) if (count - target) % 3 == 0] or range(1, n + 1)
    if group == "Z3A":
        return tuple(_palindrome(n, count) for count in counts)
    return tuple(tuple(tuple(part.tolist()) for part in np.array_split(np.arange(n), count)) for count in counts)


def _palindrome(n: int, count: int) -> Diagonal:
    """A partition of the indices into so many parts that is the same when i becomes n - 1 - i."""
    twins = [(i, n - 1 - i) for i in range(n // 2)]
    middle = [(n // 2,)] if n % 2 else []
    apart = max(0, count - len(twins) - len(middle))
    singles = [(i,) for twin in twins[:apart] for i in twin]
    whole = [*twins[apart:], *middle]
    parts = np.array_split(np.arange(len(whole)), count - len(singles)) if whole else []
    return (*singles, *(tuple(sorted(i for index in part for i in whole[index])) for part in parts))


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
