"""The order of runs in which the fewest blocks of C wait, half summed, for their last publication.

Whole runs change places, which costs no publication; a run may be turned round if that costs none either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.chain_costs import Costs, Run

# Entries of the largest table of one comparison, and of all comparisons together.
_CELLS = 60_000_000
_FAR = 1 << 20


def waiting(costs: Costs, runs: list[Run]) -> int:
    """Blocks pending at once if the runs stay in their order."""
    return int(_Table.of(costs, runs).weigh(np.arange(len(runs))[None])[0]) // _FAR


def arrange(costs: Costs, runs: list[Run]) -> tuple[tuple[int, int], list[Run]]:
    """Order runs by moving one at a time to its best place.

    Args:
        costs: of the products.
        runs: all products once; runs of the first phase may stand anywhere.

    Returns:
        The blocks pending at once and summed over the steps, and the runs, those of the first phase in front.
    """
    early = [run for run in runs if costs.early[run[0]]]
    runs = early + [run for run in runs if not costs.early[run[0]]]
    table = _Table.of(costs, runs)
    count, boundary = len(runs), len(early)
    order = np.arange(count)
    best = int(table.weigh(order[None])[0])
    work, moved = 0, True
    while moved:
        moved = False
        for number in range(count):
            low, high = (0, boundary) if number < boundary else (boundary, count)
            rest = order[order % count != number]
            variants = [number, number + count] if table.turns[number] else [number]
            work += len(variants) * (high - low) * count * table.blocks
            if work > _CELLS:
                return _result(best, table, order)
            trials = np.concatenate([_inserted(rest, v, np.arange(low, high)) for v in variants])
            weights = table.weigh(trials)
            if weights.min() < best:
                best, order, moved = int(weights.min()), trials[weights.argmin()], True
    return _result(best, table, order)


def _inserted(rest: NDArray[np.int64], value: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """[places, R] the rest with a value inserted in front of each of some places."""
    column = np.arange(len(rest) + 1)
    later = column > places[:, None]
    return np.where(column == places[:, None], value, np.append(rest, value)[column - later])


@dataclass(frozen=True)
class _Table:
    """When each run, as it is and (further down) turned round, first and last publishes to each block.

    Attributes:
        runs: R runs and the same turned round.
        first: [2 R, blocks] step within the run; far behind if it never does.
        last: [2 R, blocks] step within the run; far before if it never does.
        length: [2 R] steps.
        turns: [R] whether a run may be turned round.
    """

    runs: list[Run]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    length: NDArray[np.int64]
    turns: list[bool]

    @classmethod
    def of(cls, costs: Costs, runs: list[Run]) -> _Table:
        turned = [run[::-1] for run in runs]
        turns = [len(a) > 1 and costs.total([a]) == costs.total([b]) for a, b in zip(runs, turned, strict=True)]
        spans = [_span(costs, run) for run in runs + turned]
        first, last = (np.array([span[k] for span in spans]) for k in (0, 1))
        return cls(runs + turned, first, last, np.array([len(run) for run in runs + turned]), turns)

    @property
    def blocks(self) -> int:
        """Blocks of C."""
        return self.first.shape[1]

    def weigh(self, orders: NDArray[np.int64]) -> NDArray[np.int64]:
        """[trials] pending blocks of each order [trials, R]: the most at once, then the sum over the steps."""
        lengths = self.length[orders]
        start = (lengths.cumsum(axis=1) - lengths)[:, :, None]
        steps = int(lengths[0].sum())
        first = (start + self.first[orders]).min(axis=1).clip(0, steps)
        # A block that nothing is published to begins and ends behind the last step.
        last = np.where(first == steps, steps, (start + self.last[orders]).max(axis=1))
        row = np.arange(len(orders))[:, None] * (steps + 1)
        size = len(orders) * (steps + 1)
        change = np.bincount((row + first).ravel(), minlength=size) - np.bincount((row + last).ravel(), minlength=size)
        pending = change.reshape(len(orders), steps + 1).cumsum(axis=1)
        return pending.max(axis=1) * _FAR + pending.sum(axis=1)


def _span(costs: Costs, run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    columns = costs.columns[:, run]
    written = np.concatenate([columns[:, :-1] != columns[:, 1:], columns[:, -1:] != 0], axis=1)
    some = written.any(axis=1)
    first = np.where(some, written.argmax(axis=1), _FAR)
    return first, np.where(some, len(run) - 1 - written[:, ::-1].argmax(axis=1), -_FAR)


def _result(best: int, table: _Table, order: NDArray[np.int64]) -> tuple[tuple[int, int], list[Run]]:
    return divmod(best, _FAR), [table.runs[k] for k in order]
