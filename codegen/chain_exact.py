"""The best chain of few products: dynamic programming over the sets of products done (Held, Karp 1962).

Publications first, by a table of what every (set, last node) still costs; then, among the chains of that cost, the one
with the fewest pending blocks, by depth-first search that follows only steps on which the table says nothing is lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codegen.chain_costs import Costs, Run

# The table has 2^r x 2 r entries: 15 products take a fifth of a second.
MAX_RANK = 15
_NEVER = 1 << 20
# Steps tried in search of fewer pending blocks; when they run out the best chain so far stands.
_TRIES = 60_000


class Solver:
    """Optimal chains of at most ``MAX_RANK`` products.

    Args:
        costs: of the products.
    """

    def __init__(self, costs: Costs) -> None:
        rank = costs.rank
        self.costs = costs
        self._nodes = [x for x in range(2 * rank) if costs.free[x] or x % 2 == 0]
        self._clear, self._on = _steps(costs)
        self._left = _table(np.minimum(self._clear, self._on), costs.alone, self._nodes)
        support = [_bits(column != 0) for column in costs.columns.T]
        change = [[0] * (2 * rank) for _ in range(2 * rank)]
        for x in self._nodes:
            differ = costs.columns[:, x, None] != costs.columns
            for y in self._nodes:
                change[x][y] = _bits(differ[:, y])
        self._support, self._change = support, change

    @property
    def publications(self) -> int:
        """The fewest possible."""
        return min(int(self._left[1 << (x // 2), x]) for x in self._starts())

    def below(self, pending: int) -> list[Run] | None:
        """Runs of ``publications`` writes with fewer than ``pending`` blocks pending at once.

        None if there are none, or if none was found within a fixed number of steps.
        """
        self._tries, self._dead, self._limit = _TRIES, set[tuple[int, int, int]](), pending
        best = self.publications
        for x in self._starts():
            if self._left[1 << (x // 2), x] == best:
                tail = self._walk(1 << (x // 2), x, 0)
                if tail is not None:
                    return _split(x, tail)
        return None

    def _starts(self) -> list[int]:
        early = [x for x in self._nodes if self.costs.early[x]]
        return early or self._nodes

    def _walk(self, done: int, last: int, started: int) -> list[tuple[int, bool]] | None:
        """The nodes after ``last``, each with whether the accumulator is cleared before it."""
        if done == (1 << self.costs.rank) - 1:
            return []
        state = (done, last, started)
        if state in self._dead or not self._tries:
            return None
        self._tries -= 1
        complete = self._complete(done)
        options = []
        for y in self._nodes:
            if done >> (y // 2) & 1:
                continue
            spare = int(self._left[done, last]) - int(self._left[done | 1 << (y // 2), y])
            # Clearing comes first where both cost the same: shorter sums, fewer roundings.
            for clear, price in ((True, self._clear[last, y]), (False, self._on[last, y])):
                if price == spare:
                    written = self._support[last] if clear else self._change[last][y]
                    waiting = (started | written) & ~complete
                    if waiting.bit_count() < self._limit:
                        options.append((waiting.bit_count(), not clear, y, waiting))
        for _, running, y, waiting in sorted(options):
            tail = self._walk(done | 1 << (y // 2), y, waiting)
            if tail is not None:
                return [(y, not running), *tail]
        self._dead.add(state)
        return None

    def _complete(self, done: int) -> int:
        """Blocks that no product outside the set ``done`` enters."""
        later = 0
        for p in range(self.costs.rank):
            if not done >> p & 1:
                later |= self._support[2 * p]
        return ~later


def _bits(blocks: NDArray[np.bool_]) -> int:
    """The set of the blocks that are true."""
    return sum(1 << block for block in np.flatnonzero(blocks).tolist())


def _steps(costs: Costs) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """[2 r, 2 r] what a step costs if the accumulator is cleared, and if it runs on."""
    clear = np.broadcast_to(costs.alone[:, None], costs.onward.shape).copy()
    on = costs.onward.copy()
    on[costs.early[:, None] != costs.early] = _NEVER
    for table in (clear, on):
        table[~costs.early[:, None] & costs.early] = _NEVER
    return clear, on


def _table(step: NDArray[np.int32], alone: NDArray[np.int32], nodes: list[int]) -> NDArray[np.int32]:
    """[2^r, 2 r] publications from the last node on, for each set of products done."""
    rank = len(alone) // 2
    sets = np.arange(1 << rank)
    size = np.array([int(s).bit_count() for s in sets])
    left = np.full((1 << rank, 2 * rank), _NEVER, np.int32)
    left[-1] = alone
    for done in range(rank - 1, 0, -1):
        layer = sets[size == done]
        for y in nodes:
            fits = layer[layer >> (y // 2) & 1 == 0]
            onward = left[fits | 1 << (y // 2), y]
            left[fits] = np.minimum(left[fits], onward[:, None] + step[:, y])
    return left


def _split(first: int, tail: list[tuple[int, bool]]) -> list[Run]:
    runs = [[first]]
    for node, clear in tail:
        if clear:
            runs.append([node])
        else:
            runs[-1].append(node)
    return runs
