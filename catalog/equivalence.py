"""Whether two schemes are the same one seen in other bases, with the change of basis as certificate.

The group: changes of basis in GL_m x GL_k x GL_n (sandwiches), scales within a term, the order of the terms, and role
permutations (de Groote 1978). Over F2 and F3 it is the group over that field. Over Z and Q it is the group over Q: two
schemes over Z may need bases that are not invertible over Z, which the certificate shows.

A bijection of the terms is searched by backtracking; what it must keep are the traces tr(u_i v_j w_l) of the trace
form up to scales. That is also enough: the factors of an exact scheme span their spaces, so equal traces give a
symmetry of the matrix multiplication tensor that permutes no roles, and each of these is a sandwich. The bases then
follow from linear equations, and the certificate is checked in them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.field import Equations, primitive, quotient
from catalog.invariants import TURNS, Terms
from catalog.sandwich import inverse, sandwich
from catalog.scheme import Ring, Scheme
from catalog.transform import orientations

# Partial bijections that are tried before the search gives up; equivalent 3x3x3 schemes need a few dozen.
LIMIT = 200_000


class UndecidedError(Exception):
    """The search for an equivalence ended without a certificate and without a proof that there is none."""


@dataclass(frozen=True)
class Sandwich:
    """A symmetry that takes one scheme to another: a role permutation, then a change of basis.

    Attributes:
        shifts: how often the roles A -> B -> C^T are shifted first.
        transposed: whether the product is transposed after that.
        x: [m, m] integers, as ``catalog.sandwich.sandwich`` takes them.
        y: [k, k] integers.
        z: [n, n] integers.
        terms: which term of the second scheme each term of the first becomes; zero terms are not counted.
    """

    shifts: int
    transposed: bool
    x: NDArray[Any]
    y: NDArray[Any]
    z: NDArray[Any]
    terms: tuple[int, ...]

    def apply(self, scheme: Scheme) -> Scheme:
        """The image of a scheme; over Q where the bases have no inverse over Z.

        Raises:
            ValueError: a coefficient of the image does not fit in 64 bits, or the scheme has another format.
        """
        turned = orientations(scheme)[TURNS.index((self.shifts, self.transposed))]
        if turned.ring is not Ring.Z:
            return sandwich(turned, self.x, self.y, self.z)
        try:
            return sandwich(turned, self.x, self.y, self.z)
        except ValueError:
            return sandwich(Scheme(turned.format, Ring.Q, *turned.factors), self.x, self.y, self.z)


def equivalent(first: Scheme, second: Scheme, limit: int = LIMIT) -> Sandwich | None:
    """Decide whether two exact schemes are equivalent: a certificate when they are, None when they are not.

    Args:
        first: exact, of at most 256 terms. That the Brent equations hold is taken for granted.
        second: likewise, over a ring of the same characteristic.
        limit: partial bijections to try.

    Raises:
        ValueError: the rings have different characteristics, or a scheme is too large.
        UndecidedError: the limit was reached, or scales that the traces leave open were chosen without success.
    """
    if first.ring.modulus != second.ring.modulus:
        raise ValueError(
            f"{first.ring} and {second.ring} have different characteristics, so that no change of basis leads from one "
            "scheme to the other; compare schemes over Z and Q, or two over F2 or over F3"
        )
    if first.format.sorted != second.format.sorted:
        return None
    source, target = Terms.of(first), Terms.of(second)
    if source.rank != target.rank:
        return None
    open_ends = 0
    tried = [0]
    for shifts, transposed in TURNS:
        turned = source.turned(shifts, transposed)
        if turned.sizes != target.sizes:
            continue
        for bijection in _bijections(turned, target, tried, limit):
            scales, chosen = _scales(turned, target, bijection)
            bases = _bases(turned, target, bijection, scales)
            if bases is not None:
                return Sandwich(shifts, transposed, *bases, terms=tuple(bijection))
            open_ends += chosen
    if open_ends:
        raise UndecidedError(f"{open_ends} bijections of the terms leave scales open; none of those tried fits")
    return None


def _bijections(a: Terms, b: Terms, tried: list[int], limit: int) -> Iterator[list[int]]:
    """All bijections of the terms that keep colours, types of pairs, which traces vanish, and cycles of traces."""
    if sorted(a.colours) != sorted(b.colours):
        return
    rank = a.rank
    here, there = 2 * a.cycles + a.zero, 2 * b.cycles + b.zero
    # Which terms of b stand in a type of pair to its term j, as bits.
    partners: list[dict[tuple[str, str], int]] = [{} for _ in range(rank)]
    for j in range(rank):
        for other in range(rank):
            kind = b.pairs[j][other], b.pairs[other][j]
            partners[j][kind] = partners[j].get(kind, 0) | 1 << other
    kinds = [[(a.pairs[i][k], a.pairs[k][i]) for k in range(rank)] for i in range(rank)]
    image = [-1] * rank

    def fits(i: int, j: int) -> bool:
        sources = np.array([k for k in range(rank) if image[k] >= 0] + [i])
        images = np.array([image[k] for k in sources[:-1]] + [j])
        near, far = np.ix_(sources, sources), np.ix_(images, images)
        return bool(
            np.array_equal(here[i][near], there[j][far])
            and np.array_equal(here[:, i][near], there[:, j][far])
            and np.array_equal(here[:, :, i][near], there[:, :, j][far])
        )

    def extend(options: dict[int, int]) -> Iterator[list[int]]:
        if not options:
            yield list(image)
            return
        i = min(options, key=lambda k: (options[k].bit_count(), k))
        for j in range(rank):
            if not options[i] >> j & 1:
                continue
            tried[0] += 1
            if tried[0] > limit:
                raise UndecidedError(f"no certificate among {limit} partial bijections of the terms; raise the limit")
            if not fits(i, j):
                continue
            left = {k: bits & partners[j].get(kinds[i][k], 0) & ~(1 << j) for k, bits in options.items() if k != i}
            if all(left.values()):
                image[i] = j
                yield from extend(left)
                image[i] = -1

    same = {c: sum(1 << j for j in range(rank) if b.colours[j] == c) for c in set(b.colours)}
    yield from extend({i: same[a.colours[i]] for i in range(rank)})


def _scales(a: Terms, b: Terms, image: list[int]) -> tuple[list[list[Any]], bool]:
    """Scales s [3][r] with tr_a(i, j, l) = s_0i s_1j s_2l tr_b(images), as far as the traces determine them.

    Two scales of the first term are free, since bases may be rescaled. Where the traces leave more open, scales are
    chosen to be one; the second result says so.
    """
    p, rank = a.modulus, a.rank
    whole = quotient(a.denominator, b.denominator, p)
    known = np.zeros((3, rank), dtype=bool)
    scales: list[list[Any]] = [[1] * rank for _ in range(3)]
    moved = b.traces[np.ix_(image, image, image)]
    begin = max(range(rank), key=lambda i: int((~a.zero[:, i, i]).sum() + (~a.zero[i, :, i]).sum()), default=0)
    chosen = False

    def settle(mode: int, i: int, value: Any) -> None:
        scales[mode][i], known[mode, i] = value, True
        if known[:, i].sum() == 2:
            last = int(np.flatnonzero(~known[:, i])[0])
            others = [scales[m][i] for m in range(3) if m != last]
            scales[last][i], known[last, i] = quotient(whole, others[0] * others[1], p), True

    if rank:
        settle(0, begin, 1)
        settle(1, begin, 1)
    while not known.all():
        before = int(known.sum())
        for mode, i in zip(*np.nonzero(~known), strict=True):
            if known[mode, i]:
                continue
            y, z = (m for m in range(3) if m != mode)
            usable = ~np.take(a.zero, i, axis=mode) & known[y][:, None] & known[z][None]
            if usable.any():
                j, k = np.unravel_index(int(usable.argmax()), usable.shape)
                place = [0, 0, 0]
                place[mode], place[y], place[z] = int(i), int(j), int(k)
                at = tuple(place)
                value = quotient(int(a.traces[at]), int(moved[at]) * scales[y][j] * scales[z][k], p)
                settle(int(mode), int(i), value)
        if int(known.sum()) == before:
            mode, i = np.argwhere(~known)[0]
            settle(int(mode), int(i), 1)
            chosen = p != 2
    return scales, chosen


def _bases(
    a: Terms, b: Terms, image: list[int], scales: list[list[Any]]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    """Bases X, Y, Z that take every term to its image, or None.

    P u = s u' Q, Q v = s v' R, R w = s w' P are linear in (P, Q, R). If invertible solutions exist, they are multiples
    of one another and there is no other, because the factors of an exact scheme span their spaces.
    """
    sizes, p = a.sizes, a.modulus
    starts = [0, sizes[0] ** 2, sizes[0] ** 2 + sizes[1] ** 2]
    equations = Equations(sum(size**2 for size in sizes), p)
    for i, j in enumerate(image):
        for mode in range(3):
            rows, columns = sizes[mode], sizes[(mode + 1) % 3]
            left, right, scale = a.factors[mode][i].tolist(), b.factors[mode][j].tolist(), scales[mode][i]
            at, after = starts[mode], starts[(mode + 1) % 3]
            for row in range(rows):
                for column in range(columns):
                    terms: dict[int, Any] = {}
                    for inner in range(columns):
                        _put(terms, after + inner * columns + column, -scale * right[row][inner])
                    for inner in range(rows):
                        _put(terms, at + row * rows + inner, left[inner][column])
                    if not equations.add(terms):
                        return None
    solution = equations.only_solution()
    if solution is None:
        return None
    ring = {2: Ring.F2, 3: Ring.F3}.get(p, Ring.Q)
    bases = []
    for start, size in zip(starts, sizes, strict=True):
        block = np.array(solution[start : start + size**2], dtype=object).reshape(size, size)
        try:
            found = inverse("P", block.T, ring)
        except ValueError:
            return None
        bases.append(np.array(primitive([Fraction(e) for row in found for e in row]), dtype=object).reshape(size, size))
    return bases[0], bases[1], bases[2]


def _put(terms: dict[int, Any], position: int, value: Any) -> None:
    if value:
        terms[position] = terms.get(position, 0) + value
