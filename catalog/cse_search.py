"""A randomised search for programs with fewer additions than the greedy elimination of ``catalog.additions`` finds.

Every try is a greedy elimination with random choices, in one of two views. A program for the transpose of a matrix
becomes one for the matrix itself, with as many additions as their sizes differ more or less (Tellegen; Bordewijk
1957). Three kinds of choices vary: ties and near ties between pairs (Martensson and Wagner 2025, Perminov 2025, arXiv
2512.13365), how many pairs of the best program so far are kept at its beginning, and which rows are written as another
row plus what is missing, so that sums may cancel (as the kernel method of Dumas, Pernet, Sedoglavic 2024).
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import ArrayLike

from catalog.additions import Pair, Program, Step, primitive_pair, sides, straight_line
from catalog.scheme import Scheme

# How far a pair's key may lie above its count: below one only ties are broken at random.
_NOISE = (0.5, 0.5, 1.5, 2.5)
# How many of the possible derivations of rows from rows are taken, drawn anew for each try.
_DERIVED = (0.0, 0.0, 0.5, 1.0)
# Rows of a matrix up to which derivations are looked for.
_MOST_ROWS = 100

Sums = list[dict[int, int]]


@dataclass(frozen=True)
class Programs:
    """Programs for the three sides of a scheme, see ``catalog.additions.sides``.

    Attributes:
        a: the planes of A, from its entries.
        b: the planes of B, from its entries.
        c: the entries of C, from the products.
        tries: how many eliminations were made for each side.
    """

    a: Program
    b: Program
    c: Program
    tries: int

    @property
    def additions(self) -> int:
        """Additions and subtractions of the whole scheme."""
        return self.a.additions + self.b.additions + self.c.additions


def search_programs(
    scheme: Scheme,
    *,
    seed: int = 0,
    tries: int | None = None,
    budget_s: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Programs:
    """Search programs with few additions for a scheme, never worse than the greedy ones.

    Args:
        scheme: any scheme; over a finite ring its residues are taken as integers.
        seed: of all random choices; the same seed and tries give the same programs.
        tries: eliminations for each side; None for no limit but the time.
        budget_s: seconds; None for no limit.
        should_stop: asked between the tries.

    Raises:
        ValueError: both limits are missing.
    """
    if tries is None and budget_s is None:
        raise ValueError("give tries or budget_s; without either the search has no end")
    searches = [_Search(np.asarray(side), seed * 3 + number) for number, side in enumerate(sides(scheme))]
    begun, made = time.monotonic(), 0
    while (tries is None or made < tries) and not should_stop():
        if budget_s is not None and time.monotonic() - begun >= budget_s:
            break
        for search in searches:
            search.step()
        made += 1
    a, b, c = (search.best for search in searches)
    return Programs(a, b, c, made)


def shorter_program(matrix: ArrayLike, *, seed: int = 0, tries: int = 100) -> Program:
    """A program for ``matrix @ inputs`` after so many tries, never worse than ``straight_line``'s.

    Raises:
        ValueError: not a matrix of integers with at least one column.
    """
    search = _Search(np.asarray(matrix), seed)
    for _ in range(tries):
        search.step()
    return search.best


def transposed(program: Program) -> Program:
    """The program of the transposed matrix: every value adds up what its uses were (Tellegen).

    It has as many additions more as the program has more inputs than outputs, if none of them is useless.
    """
    width = len(program.outputs)
    steps: list[Step] = []
    uses: list[dict[int, int]] = [{} for _ in range(program.inputs + len(program.steps))]

    def use(value: int, by: tuple[int, int], coefficient: int) -> None:
        source, scale = by
        uses[value][source] = uses[value].get(source, 0) + scale * coefficient

    def gathered(value: int) -> tuple[int, int]:
        return _add_up([((source, 1), scale) for source, scale in uses[value].items()], steps, width)

    for number, (value, coefficient) in enumerate(program.outputs):
        use(value, (number, 1), coefficient)
    for number in reversed(range(len(program.steps))):
        step, sum_of_uses = program.steps[number], gathered(program.inputs + number)
        if sum_of_uses[1]:
            use(step.left, sum_of_uses, step.x)
            use(step.right, sum_of_uses, step.y)
    outputs = tuple(gathered(value) for value in range(program.inputs))
    return Program(width, tuple(steps), outputs)


class _Search:
    """The best program for a matrix so far, and how to try for a better one."""

    def __init__(self, matrix: np.ndarray, seed: int) -> None:
        self.best = straight_line(matrix)
        self._random = random.Random(seed)
        self._views = [matrix, matrix.T] if len(matrix) else [matrix]
        # By view: the pairs that the shortest program of a plain try named, in order.
        self._kept: list[tuple[int, list[Pair]]] = [(1 << 62, []) for _ in self._views]

    def step(self) -> None:
        """One try."""
        draw = self._random
        view = draw.randrange(len(self._views))
        matrix = self._views[view]
        sums = [{i: c for i, c in enumerate(row) if c} for row in matrix.tolist()]
        parents = _derive(sums, matrix.shape[1], draw.choice(_DERIVED), draw)
        fewest, pairs = self._kept[view]
        prefix = pairs[: draw.randrange(len(pairs) + 1)] if not parents and draw.random() < 0.7 else []
        pairs = _name_pairs(sums, matrix.shape[1] + len(sums), prefix, draw.choice(_NOISE), draw)
        program = _assemble(matrix.shape[1], sums, pairs)
        if not parents and program.additions <= fewest:
            self._kept[view] = program.additions, pairs
        if view:
            program = transposed(program)
        if program.additions < self.best.additions:
            self.best = program


def _derive(sums: Sums, width: int, share: float, draw: random.Random) -> bool:
    """Rewrite rows as multiples of other rows plus what is missing where that saves additions; whether any was.

    Row j then stands in other rows as the value ``width + j``. Only rows that come earlier in a random order may be
    used, so that there is no circle.
    """
    if not share or len(sums) > _MOST_ROWS:
        return False
    order = list(range(len(sums)))
    draw.shuffle(order)
    whole = [dict(terms) for terms in sums]
    derived = False
    for place, row in enumerate(order):
        best: tuple[int, int, int] | None = None
        for other in order[:place]:
            shared = whole[other].keys() & whole[row].keys()
            for value in sorted(shared):
                if whole[row][value] % whole[other][value] == 0:
                    ratio = whole[row][value] // whole[other][value]
                    missing = sum(
                        whole[row].get(i, 0) != ratio * whole[other].get(i, 0) for i in whole[row].keys() | whole[other]
                    )
                    if missing + 1 < len(whole[row]) and (best is None or missing < best[0]):
                        best = missing, other, ratio
        if best is not None and draw.random() < share:
            _, other, ratio = best
            rest = {i: whole[row].get(i, 0) - ratio * whole[other].get(i, 0) for i in whole[row].keys() | whole[other]}
            sums[row] = {i: c for i, c in sorted(rest.items()) if c} | {width + other: ratio}
            derived = True
    return derived


def _name_pairs(sums: Sums, width: int, prefix: list[Pair], noise: float, draw: random.Random) -> list[Pair]:
    """Name pairs that occur more than once until there is none, those of ``prefix`` first; rewrites ``sums``.

    Value ``width + t`` is the pair named in step t. The heap is lazy: an entry counts only while it has the number of
    rows that it was made with.
    """
    places: dict[Pair, set[int]] = {}
    heap: list[tuple[float, float, int, Pair]] = []

    def add(pair: Pair, row: int) -> None:
        rows = places.setdefault(pair, set())
        rows.add(row)
        if len(rows) > 1:
            heapq.heappush(heap, (-len(rows) - noise * draw.random(), draw.random(), len(rows), pair))

    def remove(pair: Pair, row: int) -> None:
        rows = places[pair]
        rows.discard(row)
        if len(rows) > 1:
            heapq.heappush(heap, (-len(rows) - noise * draw.random(), draw.random(), len(rows), pair))

    for row, terms in enumerate(sums):
        items = sorted(terms.items())
        for position, (i, ci) in enumerate(items):
            for j, cj in items[position + 1 :]:
                add(primitive_pair(i, ci, j, cj), row)
    named: list[Pair] = []
    waiting = list(reversed(prefix))
    while waiting or heap:
        if waiting:
            pair = waiting.pop()
        else:
            _, _, count, pair = heapq.heappop(heap)
            if len(places[pair]) != count:
                continue
        left, right, x, _ = pair
        fresh = width + len(named)
        named.append(pair)
        for row in sorted(places.get(pair, ())):
            terms = sums[row]
            factor = terms[left] // x
            for old in (left, right):
                coefficient = terms.pop(old)
                for other, c in terms.items():
                    remove(primitive_pair(old, coefficient, other, c), row)
            for other, c in terms.items():
                add(primitive_pair(other, c, fresh, factor), row)
            terms[fresh] = factor
        places[pair] = set()
    return named


def _assemble(width: int, sums: Sums, pairs: list[Pair]) -> Program:
    """The program of rewritten sums, in which every value comes before its uses.

    Args:
        width: inputs. Value ``width + j`` of the sums is row j, and pairs follow after the rows.
        sums: rows as values and coefficients.
        pairs: the named pairs.
    """
    steps: list[Step] = []
    done: dict[int, tuple[int, int]] = {i: (i, 1) for i in range(width)}
    # A positive head saves the change of sign.
    chains = [sorted(terms.items(), key=lambda term: (term[1] < 0, term[0])) for terms in sums]
    chains += [[(left, x), (right, y)] for left, right, x, y in pairs]
    # Pairs need older pairs, rows need pairs; only a derived row has to wait for another one.
    waiting = [*range(len(sums), len(chains)), *range(len(sums))]
    while waiting:
        late = []
        for number in waiting:
            if all(value in done for value, _ in chains[number]):
                done[width + number] = _add_up([(done[v], c) for v, c in chains[number]], steps, width)
            else:
                late.append(number)
        waiting = late
    return Program(width, tuple(steps), tuple(done[width + row] for row in range(len(sums))))


def _add_up(parts: list[tuple[tuple[int, int], int]], steps: list[Step], width: int) -> tuple[int, int]:
    """Append the additions of a sum of multiples of (value, coefficient) pairs; its own value and coefficient."""
    scaled = [(value, scale * factor) for (value, scale), factor in parts if scale * factor]
    if not scaled:
        return 0, 0
    total, common = scaled[0]
    for value, scale in scaled[1:]:
        unit = gcd(common, scale) if common > 0 else -gcd(common, scale)
        steps.append(Step(total, value, common // unit, scale // unit))
        total, common = width + len(steps) - 1, unit
    return total, common
