"""Fused products: terms of an outer scheme that share a factor multiply one block by several.

Where t terms share their factor of A, one inner m x k x tn product does the work of t products m x k x n, and it may
need fewer multiplications; terms that share a factor of B make one tm x k x n product, of C one m x tk x n product.
An outer scheme of higher rank can so win when more of its terms share factors (Perminov 2026, arXiv 2606.02480).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Factor, Format, Scheme
from search.composition.directions import normalise, shared
from search.composition.disjoint import Mix, disjoint_classes, mixed, others

# The dimension that grows when terms share their factor of A, B, C.
GROWS = (2, 0, 1)
_MODES = ((0, 1), (1, 2), (0, 2))
# Partitions of terms that hang together are tried one by one up to this many.
_EXHAUSTIVE = 2000


@dataclass(frozen=True)
class Group:
    """Terms of an outer scheme that share one factor up to a scalar.

    Attributes:
        mode: 0, 1, 2 for a shared factor of A, B, C.
        terms: 0-based, ascending.
        mix: for a pair of terms, a change of basis of their other factors (see ``search.composition.disjoint``).
    """

    mode: int
    terms: tuple[int, ...]
    mix: Mix | None = None

    def format(self, inner: Format) -> Format:
        """The format of the group's inner product."""
        sizes = list(inner)
        sizes[GROWS[self.mode]] *= len(self.terms)
        return Format(*sizes)


class Buds:
    """Which terms of a scheme may be fused.

    Args:
        scheme: the outer scheme.
        ternary: only terms whose other factors have disjoint supports, perhaps after a change of basis, so that
            coefficients stay in {-1, 0, 1}.

    Attributes:
        labels: [3, r] int64. Class of each term per mode.
        sizes: [3, r] int64. Size of that class.
        kinds: [3, q] int64. The distinct columns of ``sizes``.
        counts: [q] int64. How many terms have each.
        largest: [3] int64. Size of the largest class per mode.
    """

    def __init__(self, scheme: Scheme, ternary: bool) -> None:
        modulus = scheme.ring.modulus
        self.rank = scheme.rank
        self.labels = np.array([shared(factor, modulus) for factor in scheme.factors]).reshape(3, -1)
        self._mixes: dict[tuple[int, tuple[int, ...]], Mix] = {}
        if ternary:
            for mode in range(3):
                self.labels[mode], mixes = disjoint_classes(self.labels[mode], *others(scheme, mode))
                self._mixes |= {(mode, pair): mix for pair, mix in mixes.items()}
        self.sizes = np.array([np.bincount(row)[row] if row.size else row for row in self.labels]).reshape(3, -1)
        kinds, counts = np.unique(self.sizes, axis=1, return_counts=True)
        self.kinds, self.counts = kinds, counts
        self.largest = self.sizes.max(axis=1, initial=1)

    @property
    def signature(self) -> bytes:
        """Equal for outer schemes whose terms have classes of equal sizes."""
        return self.kinds.tobytes() + self.counts.tobytes()

    def partition(self, costs: Sequence[NDArray[np.int64]]) -> tuple[int, list[Group]]:
        """Share the terms out among groups at least cost: exactly where few hang together, else greedily.

        Args:
            costs: per mode, entry t is the rank of an inner product of t fused terms; entry 1 agrees in all modes.

        Returns:
            The rank, and the groups; a group of one term counts for mode 0.
        """
        groups: list[Group] = []
        for terms in self._components():
            options = [[mode for mode in range(3) if self.sizes[mode, term] > 1] or [0] for term in terms]
            few = prod(len(modes) for modes in options) <= _EXHAUSTIVE
            chosen = self._try_all(terms, options, costs) if few else self._greedy(terms, options, costs)
            groups += self.grouped(terms, chosen)
        groups.sort(key=lambda group: group.terms)
        return sum(int(costs[g.mode][len(g.terms)]) for g in groups), groups

    def _components(self) -> list[list[int]]:
        """Terms linked by classes, in ascending order."""
        parent = list(range(self.rank))

        def root(term: int) -> int:
            while parent[term] != term:
                term = parent[term]
            return term

        for row in self.labels:
            first: dict[int, int] = {}
            for term, label in enumerate(row.tolist()):
                parent[root(term)] = root(first.setdefault(label, term))
        linked: dict[int, list[int]] = {}
        for term in range(self.rank):
            linked.setdefault(root(term), []).append(term)
        return list(linked.values())

    def grouped(self, terms: Sequence[int], modes: Sequence[int]) -> list[Group]:
        """The groups when each of ``terms`` joins its class in the mode chosen for it."""
        members: dict[tuple[int, int], list[int]] = {}
        for term, mode in zip(terms, modes, strict=True):
            members.setdefault((mode, int(self.labels[mode, term])), []).append(term)
        return [
            Group(mode if len(group) > 1 else 0, tuple(group), self._mixes.get((mode, tuple(group))))
            for (mode, _), group in members.items()
        ]

    def _cost(self, terms: Sequence[int], modes: Sequence[int], costs: Sequence[NDArray[np.int64]]) -> int:
        return sum(int(costs[group.mode][len(group.terms)]) for group in self.grouped(terms, modes))

    def _try_all(
        self, terms: Sequence[int], options: Sequence[Sequence[int]], costs: Sequence[NDArray[np.int64]]
    ) -> Sequence[int]:
        return min(itertools.product(*options), key=lambda modes: self._cost(terms, modes, costs))

    def _greedy(
        self, terms: Sequence[int], options: Sequence[Sequence[int]], costs: Sequence[NDArray[np.int64]]
    ) -> Sequence[int]:
        """The class that saves most takes its terms, and so on; then single terms change their class while it helps."""
        free = dict(zip(terms, options, strict=True))
        modes: dict[int, int] = {}
        while free:
            classes: dict[tuple[int, int], list[int]] = {}
            for term, allowed in free.items():
                for mode in allowed:
                    classes.setdefault((mode, int(self.labels[mode, term])), []).append(term)
            (mode, _), taken = max(
                classes.items(), key=lambda item: len(item[1]) * costs[0][1] - costs[item[0][0]][len(item[1])]
            )
            for term in taken:
                modes[term] = mode
                del free[term]
        counts: dict[tuple[int, int], int] = {}
        for term, mode in modes.items():
            key = (mode, int(self.labels[mode, term]))
            counts[key] = counts.get(key, 0) + 1
        moved = True
        while moved:
            moved = False
            for term, allowed in zip(terms, options, strict=True):
                here = (modes[term], int(self.labels[modes[term], term]))
                saved = costs[here[0]][counts[here]] - costs[here[0]][counts[here] - 1]
                for mode in allowed:
                    there = (mode, int(self.labels[mode, term]))
                    now = counts.get(there, 0)
                    if there != here and costs[mode][now + 1] - costs[mode][now] < saved:
                        counts[here] -= 1
                        counts[there] = now + 1
                        modes[term] = mode
                        moved = True
                        break
        return [modes[term] for term in terms]


def fuse(outer: Scheme, inner: Format, groups: Sequence[Group], parts: Mapping[Format, Scheme]) -> Scheme:
    """The product scheme in which each group is one inner product.

    Args:
        outer: the outer scheme.
        inner: format of an inner product of one term.
        groups: a partition of the terms of ``outer``.
        parts: for the format of every group an inner scheme over the ring of ``outer``.

    Raises:
        ValueError: the groups are no partition of the terms, or the terms of one share no factor.
    """
    if sorted(itertools.chain(*(g.terms for g in groups))) != list(range(outer.rank)):
        raise ValueError(f"the groups are no partition of the {outer.rank} terms of the outer scheme")
    common = [lcm(1, *(s.denominators[i] for s in parts.values())) for i in range(3)]
    columns: list[list[Factor]] = [[], [], []]
    for group in groups:
        part = parts[group.format(inner)]
        for mode, block in enumerate(_expand(outer, inner, group, part)):
            columns[mode].append(block * (common[mode] // part.denominators[mode]))
    whole = Format(*(a * b for a, b in zip(outer.format, inner, strict=True)))
    denominators = tuple(a * b for a, b in zip(outer.denominators, common, strict=True))
    return Scheme(whole, outer.ring, *(np.concatenate(c, axis=1) for c in columns), denominators=denominators)


def _expand(outer: Scheme, inner: Format, group: Group, part: Scheme) -> list[Factor]:
    """Factors of the terms that one group contributes."""
    terms, grown = list(group.terms), GROWS[group.mode]
    primitive, _ = normalise(outer.factors[group.mode][:, terms], outer.ring.modulus)
    if (primitive != primitive[:, :1]).any():
        raise ValueError(f"the terms {terms} of the outer scheme share no factor of {'ABC'[group.mode]}")
    first, second = others(outer, group.mode, terms)
    if group.mix is not None:
        first, second = mixed(first, second, group.mix)
    factors = [first, second]
    factors.insert(group.mode, primitive[:, :1])
    blocks = []
    for mode, (p, q) in enumerate(_MODES):
        left = factors[mode].reshape(outer.format[p], outer.format[q], -1)
        sizes = [part.format[p], part.format[q]]
        if grown in (p, q):
            position = (p, q).index(grown)
            sizes[position : position + 1] = [len(terms), inner[grown]]
            right = np.moveaxis(part.factors[mode].reshape(*sizes, part.rank), position, 0)
        else:
            right = part.factors[mode].reshape(1, *sizes, part.rank)
        product = np.einsum("ijg,gpqs->ipjqs", left, right)
        blocks.append(product.reshape(-1, part.rank))
    return blocks
