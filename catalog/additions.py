"""Straight-line programs for the linear parts of a scheme, with greedy common-subexpression elimination.

A scheme costs additions on three sides: the planes of A (columns of U), the planes of B (columns of V) and the
outputs (rows of W). Repeatedly naming the pair of values that occurs in most sums (Paar, "Optimized arithmetic for
Reed-Solomon encoders", ISIT 1997, here with signs and ratios) finds Winograd's 15 additions from his 24 naive ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from catalog.scheme import Scheme

# Two values and the primitive coefficients, the first positive, with which they are added.
Pair = tuple[int, int, int, int]


class Step(NamedTuple):
    """One addition, ``x * values[left] + y * values[right]``; its result is the next value."""

    left: int
    right: int
    x: int
    y: int


@dataclass(frozen=True)
class Program:
    """A straight-line program of additions. Values 0..inputs-1 are the inputs, then one value per step.

    Attributes:
        inputs: number of inputs.
        steps: the additions in order.
        outputs: per output a value and an integer coefficient; coefficient 0 stands for an empty sum.
    """

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, int], ...]

    @property
    def additions(self) -> int:
        """Additions and subtractions; changes of sign are free."""
        return len(self.steps)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Evaluate on anything that has ``+``, ``-`` and ``*`` with integers: numbers, arrays, symbols.

        Raises:
            ValueError: the number of inputs differs from the program's.
        """
        if len(inputs) != self.inputs:
            raise ValueError(f"this program takes {self.inputs} inputs, not {len(inputs)}")
        values = list(inputs)
        for left, right, x, y in self.steps:
            head, tail = _scaled(values[left], x), _scaled(values[right], abs(y))
            values.append(head + tail if y > 0 else head - tail)
        return [_scaled(values[value], coefficient) for value, coefficient in self.outputs]


def straight_line(matrix: ArrayLike) -> Program:
    """A program for ``matrix @ inputs``, deterministic and exact over any commutative ring.

    Args:
        matrix: [outputs, inputs] integers.

    Raises:
        ValueError: not a matrix of integers with at least one column.
    """
    array = np.asarray(matrix)
    if array.ndim != 2 or array.shape[1] == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"a program needs a matrix of integers with columns, not {array.dtype} of shape {array.shape}")
    width = array.shape[1]
    sums = [{i: c for i, c in enumerate(row) if c} for row in array.tolist()]
    steps = _share(sums, width)
    outputs = []
    for terms in sums:
        # A positive head saves the change of sign; among those, the oldest value comes first.
        chain = sorted(terms.items(), key=lambda term: (term[1] < 0, term[0]))
        if not chain:
            outputs.append((0, 0))
            continue
        value, coefficient = chain[0]
        if len(chain) > 1 and coefficient < 0:
            chain, sign = [(v, -c) for v, c in chain], -1
            coefficient = -coefficient
        else:
            sign = 1
        for other, factor in chain[1:]:
            steps.append(Step(value, other, coefficient, factor))
            value, coefficient = width + len(steps) - 1, 1
        outputs.append((value, sign * coefficient))
    return Program(width, tuple(steps), tuple(outputs))


def kron_program(outer: Program, inner: Program) -> Program:
    """The program of the Kronecker product of two matrices: ``inner`` on every group of inputs, then ``outer``.

    Input ``a * inner.inputs + b`` is entry b of group a, and outputs are numbered likewise.
    """
    width = outer.inputs * inner.inputs
    steps: list[Step] = []

    def follow(program: Program, sources: list[tuple[int, int]]) -> list[tuple[int, int]]:
        values = list(sources)
        for left, right, x, y in program.steps:
            (a, ca), (b, cb) = values[left], values[right]
            head, tail = x * ca, y * cb
            if head == 0 or tail == 0:
                values.append((a, head) if tail == 0 else (b, tail))
                continue
            common = gcd(head, tail) if head > 0 else -gcd(head, tail)
            steps.append(Step(a, b, head // common, tail // common))
            values.append((width + len(steps) - 1, common))
        return [(values[v][0], values[v][1] * c) for v, c in program.outputs]

    groups = [follow(inner, [(a * inner.inputs + b, 1) for b in range(inner.inputs)]) for a in range(outer.inputs)]
    columns = [follow(outer, [group[q] for group in groups]) for q in range(len(inner.outputs))]
    outputs = [columns[q][p] for p in range(len(outer.outputs)) for q in range(len(inner.outputs))]
    return Program(width, tuple(steps), tuple(outputs))


def relabel(program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
    """Rename inputs (old number i becomes ``inputs[i]``) and reorder outputs (new output o is old ``outputs[o]``)."""

    def moved(value: int) -> int:
        return inputs[value] if value < program.inputs else value

    steps = tuple(Step(moved(left), moved(right), x, y) for left, right, x, y in program.steps)
    results = tuple((moved(program.outputs[o][0]), program.outputs[o][1]) for o in outputs)
    return Program(program.inputs, steps, results)


def sides(scheme: Scheme) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three matrices that cost additions: U^T [r, m*k], V^T [r, k*n] and W [m*n, r]."""
    return scheme.U.T, scheme.V.T, scheme.W


def additions_naive(scheme: Scheme) -> int:
    """Additions when every plane and every output is summed on its own (18 for Strassen's scheme)."""
    return sum(int(np.maximum(np.count_nonzero(side, axis=1) - 1, 0).sum()) for side in sides(scheme))


def additions_cse(scheme: Scheme) -> int:
    """Additions after greedy common-subexpression elimination (15 for Winograd's form)."""
    return sum(straight_line(side).additions for side in sides(scheme))


def _scaled(value: Any, coefficient: int) -> Any:
    return value if coefficient == 1 else value * coefficient


def _share(sums: list[dict[int, int]], width: int) -> list[Step]:
    """Name the most frequent pair until none occurs twice; rewrites ``sums`` in place, returns the steps.

    Ties go to the smallest pair, so the result is deterministic. The heap is lazy: a pair's highest entry is at least
    its count in ``places``, and one above it is put back where it belongs when it comes up.
    """
    places: dict[Pair, set[int]] = {}
    for row, terms in enumerate(sums):
        items = sorted(terms.items())
        for position, (i, ci) in enumerate(items):
            for j, cj in items[position + 1 :]:
                places.setdefault(primitive_pair(i, ci, j, cj), set()).add(row)
    heap = [(-len(rows), pair) for pair, rows in places.items() if len(rows) > 1]
    heapq.heapify(heap)
    steps: list[Step] = []
    while heap:
        count, pair = heapq.heappop(heap)
        left_over = len(places[pair])
        if left_over != -count:
            if 1 < left_over < -count:
                heapq.heappush(heap, (-left_over, pair))
            continue
        left, right, x, y = pair
        fresh = width + len(steps)
        steps.append(Step(left, right, x, y))
        for row in sorted(places[pair]):
            terms = sums[row]
            factor = terms[left] // x
            for old in (left, right):
                coefficient = terms.pop(old)
                for other, c in terms.items():
                    places[primitive_pair(old, coefficient, other, c)].discard(row)
            for other, c in terms.items():
                made = primitive_pair(other, c, fresh, factor)
                rows = places.setdefault(made, set())
                rows.add(row)
                if len(rows) > 1:
                    heapq.heappush(heap, (-len(rows), made))
            terms[fresh] = factor
        places[pair] = set()
    return steps


def primitive_pair(i: int, ci: int, j: int, cj: int) -> Pair:
    """The pair in ascending order of values, its coefficients primitive and the first of them positive."""
    if i > j:
        i, ci, j, cj = j, cj, i, ci
    if abs(ci) == 1 == abs(cj):
        return i, j, 1, ci * cj
    common = gcd(ci, cj)
    if ci < 0:
        common = -common
    return i, j, ci // common, cj // common
