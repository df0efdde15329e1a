"""Which symmetry a walk keeps, and from which schemes it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

import numpy as np

from catalog.known import strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import kron
from search.walks.orbits import Diagonal, Group, require_square, standard


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
