"""The best projection of a scheme: one dimension smaller, along the direction in which most terms vanish.

For C = AB put A = E A' and C' = L C, where L E is the identity of the smaller dimension: then C' = A'B. The kernel of L
is spanned by some x, the image of E is the kernel of some functional y, and any x, y with y.x a unit will do. A term
vanishes when its factor of C is x times a row, or its factor of A is y times a row, so that the best pair over all
changes of basis is read off the factors of rank one, without trying bases. Deleting an index is x = y = a unit vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from catalog.scheme import Format, Scheme
from catalog.transform import Axis, rotate
from search.composition.directions import row_directions, tidy

Vector = tuple[int, ...]

# Pairs that may be applied and passed over because they leave {-1, 0, 1}.
_PASSED_OVER = 50
# Pairs of which the best projection applies those that kill most terms.
_TRIES = 8


@dataclass(frozen=True)
class Projection:
    """A projection along one dimension, in the orientation in which that dimension is m.

    Attributes:
        axis: the dimension that shrinks by one.
        x: [size] kernel of the map of C.
        y: [size] functional whose kernel is the image of the map of A.
        killed: terms that vanish, before any merger.
    """

    axis: Axis
    x: Vector
    y: Vector
    killed: int

    def __str__(self) -> str:
        if self.x == self.y and sum(map(abs, self.x)) == 1:
            return f"{self.axis}={self.x.index(1) + 1}"
        return f"{self.axis}: {_text(self.x)}|{_text(self.y)}"


def projections(scheme: Scheme, axis: Axis, rng: np.random.Generator | None = None) -> Iterator[Projection]:
    """Pairs x, y by the number of terms they kill, most first; ties at random with ``rng``, else in a fixed order.

    Raises:
        ValueError: the dimension has size 1.
    """
    size = getattr(scheme.format, axis)
    if size == 1:
        raise ValueError(f"cannot project {scheme.format} along {axis}: it has size 1")
    modulus = scheme.ring.modulus
    turned = _turn(scheme, axis)
    m, k, n = turned.format
    of_a = row_directions(turned.U.reshape(m, k, -1), modulus)
    of_c = row_directions(turned.W.reshape(m, n, -1), modulus)
    units = [tuple(int(i == j) for j in range(size)) for i in range(size)]
    xs = list(dict.fromkeys([*units, *(x for x in of_c if x)]))
    ys = list(dict.fromkeys([*units, *(y for y in of_a if y)]))
    both = Counter(zip(of_c, of_a, strict=True))
    by_x, by_y = Counter(of_c), Counter(of_a)
    pairs = []
    for x in xs:
        for y in ys:
            dot = sum(a * b for a, b in zip(x, y, strict=True))
            unit = dot % modulus if modulus else abs(dot) == 1 and 1 in map(abs, x + y)
            if unit:
                killed = by_x[x] + by_y[y] - both[x, y]
                pairs.append((-killed, x != y, rng.random() if rng else 0.0, x, y))
    for negative, _, _, x, y in sorted(pairs):
        yield Projection(axis, x, y, -negative)


def project(
    scheme: Scheme, axis: Axis, rng: np.random.Generator | None = None, tries: int = 1
) -> tuple[Projection, Scheme]:
    """Project along the pair that kills most terms; a ternary scheme stays ternary.

    Args:
        scheme: what to project.
        axis: the dimension that shrinks.
        rng: draws among pairs that kill equally many; without it the first one is taken.
        tries: pairs that are applied; the one that leaves fewest terms after mergers wins.

    Raises:
        ValueError: the dimension has size 1.
    """
    results: list[tuple[Projection, Scheme]] = []
    for found in islice(projections(scheme, axis, rng), _PASSED_OVER):
        result = apply(scheme, found)
        if result.is_ternary or not scheme.is_ternary:
            results.append((found, result))
            if len(results) == tries:
                break
    if not results:
        found = best_index(scheme, axis)
        results.append((found, apply(scheme, found)))
    return min(results, key=lambda pair: pair[1].rank)


def project_best(scheme: Scheme, axis: Axis, rng: np.random.Generator | None = None) -> Scheme:
    """One dimension reduced by one, along the direction, over all changes of basis, in which most terms vanish.

    A ternary scheme stays ternary. Directions that kill equally many terms are drawn with ``rng``.

    Raises:
        ValueError: the dimension has size 1.
    """
    return project(scheme, axis, rng, _TRIES)[1]


def best_index(scheme: Scheme, axis: Axis) -> Projection:
    """The index whose deletion kills most terms, the first of several.

    Raises:
        ValueError: the dimension has size 1.
    """
    return next(p for p in projections(scheme, axis) if p.x == p.y and sum(map(abs, p.x)) == 1)


def apply(scheme: Scheme, projection: Projection) -> Scheme:
    """Project: zero terms are dropped, terms that now agree in two factors are merged."""
    turned = _turn(scheme, projection.axis)
    m, k, n = turned.format
    modulus = scheme.ring.modulus
    x, y = (np.array(vector, dtype=np.int64) for vector in (projection.x, projection.y))
    dot = int(x @ y)
    # Units are their own inverses in Z (1, -1), F2 and F3.
    unit = (dot + 1) % 3 - 1 if modulus == 3 else dot % modulus if modulus else dot
    across = np.eye(m, dtype=np.int64) - unit * np.outer(x, y)
    pivots = np.abs(x) == 1
    if pivots.any():
        pivot = int(np.argmax(pivots))
        keep = np.delete(np.arange(m), pivot)
        down = (np.eye(m, dtype=np.int64) - x[pivot] * np.outer(x, np.eye(m, dtype=np.int64)[pivot]))[keep]
        up = across[:, keep]
    else:
        pivot = int(np.argmax(np.abs(y) == 1))
        keep = np.delete(np.arange(m), pivot)
        up = (np.eye(m, dtype=np.int64) - y[pivot] * np.outer(np.eye(m, dtype=np.int64)[pivot], y))[:, keep]
        down = across[keep]
    u = np.einsum("im,ikr->mkr", up, turned.U.reshape(m, k, -1)).reshape((m - 1) * k, -1)
    w = np.einsum("mi,inr->mnr", down, turned.W.reshape(m, n, -1)).reshape((m - 1) * n, -1)
    small = Scheme(Format(m - 1, k, n), scheme.ring, u, turned.V, w, denominators=turned.denominators)
    return tidy(_turn(small, projection.axis, back=True))


def _turn(scheme: Scheme, axis: Axis, back: bool = False) -> Scheme:
    """Rotate the roles until ``axis`` is m, or undo that."""
    turns = "mkn".index(axis)
    for _ in range((3 - turns) % 3 if back else turns):
        scheme = rotate(scheme)
    return scheme


def _text(vector: Vector) -> str:
    return "".join(f"{entry:+d}" for entry in vector)
