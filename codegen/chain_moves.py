"""The moves of the local search over runs, weighed many at once: exchanges of tails, turns of pieces, small moves.

They are 2-opt and Or-opt of the travelling salesman (Or 1976) on a set of directed paths, with a sign for each piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from codegen.chain_costs import Costs, Run

Ints = NDArray[np.int64]
# Numbers of the runs that a move takes away, and the runs that it makes of them.
Move = tuple[set[int], list[Run]]
Found = tuple[int, Callable[[], Move]]

# Below any gain, and far enough from the ends of 16-bit integers.
_FAR = 1 << 14
# Nodes that move together, at most.
_LONGEST = 3


@dataclass(frozen=True)
class _Flat:
    """Runs laid end to end, [n] each unless noted.

    Attributes:
        node: the nodes.
        run: number of the run.
        start: position of the run's first node.
        stop: position behind the run's last node.
        next: the node that follows in the run, or "none".
        link: what the link to it saves.
        turned: [n + 1] what links before a position would save more if they were passed the other way.
        bound: [n + 1] nodes before a position that cannot be negated.
    """

    node: Ints
    run: Ints
    start: Ints
    stop: Ints
    next: Ints
    link: Ints
    turned: Ints
    bound: Ints


class Field:
    """What moves between runs save.

    Args:
        costs: of the products.
    """

    def __init__(self, costs: Costs) -> None:
        # Two nodes more, which stand for "none" with either sign: nothing is saved beside them.
        self._none = 2 * costs.rank
        self._savings = np.pad(costs.savings, (0, 2)).astype(np.int16)
        self._into = np.ascontiguousarray(self._savings.T)
        self._links = self._savings.tolist()  # quicker where single links are asked for
        self._free = np.append(costs.free, [True, True])

    def saved(self, runs: list[Run]) -> int:
        """Publications that the links of the runs save."""
        return sum(self._links[x][y] for run in runs for x, y in pairwise(run))

    def cut(self, runs: list[Run]) -> list[Run]:
        """The same runs, cut where running on saves nothing."""
        pieces: list[Run] = []
        for run in runs:
            ends = [0, *(i for i, (x, y) in enumerate(pairwise(run), 1) if self._links[x][y] <= 0), len(run)]
            pieces += [run[a:b] for a, b in pairwise(ends)]
        return pieces

    def join(self, left: Run, right: Run) -> Run:
        """One path behind the other, with the better relative sign if one of them may be negated."""
        if left and right and self._savings[left[-1], right[0] ^ 1] > self._savings[left[-1], right[0]]:
            if self._free[right].all():
                right = [node ^ 1 for node in right]
            elif self._free[left].all():
                left = [node ^ 1 for node in left]
        return left + right

    def best(self, runs: list[Run], rows: int) -> Move | None:
        """The move that saves most among those that touch one of the first ``rows`` nodes; None if none saves."""
        flat = self._flatten(runs)
        some, every = np.arange(rows), np.arange(len(flat.node))
        found = [
            self._exchange(runs, flat, some),
            self._reverse(runs, flat, some, every),
            self._reverse(runs, flat, every, some),
            self._turn(runs, flat, some),
        ]
        if max(gain for gain, _ in found) <= 0:
            found = [self._move(runs, flat, length, some, every) for length in range(1, _LONGEST + 1)]
            found += [self._move(runs, flat, length, every, some) for length in range(1, _LONGEST + 1)]
        gain, make = max(found, key=lambda each: each[0])
        return make() if gain > 0 else None

    def _flatten(self, runs: list[Run]) -> _Flat:
        lengths = np.fromiter(map(len, runs), np.int64, len(runs))
        node = np.fromiter(chain.from_iterable(runs), np.int64)
        run = np.repeat(np.arange(len(runs)), lengths)
        stop = np.cumsum(lengths)[run]
        following = np.append(node[1:], self._none)
        following[stop - 1] = self._none
        link = self._savings[node, following].astype(np.int64)
        turned = np.append(0, np.cumsum(self._savings[following, node] - link))
        bound = np.append(0, np.cumsum(~self._free[node]))
        return _Flat(node, run, stop - lengths[run], stop, following, link, turned, bound)

    def _link(self, left: Ints, right: Ints, flips: NDArray[np.bool_]) -> Ints:
        """[left, right] what a link saves; where ``flips``, with the better of the two relative signs."""
        rows = self._savings[left]
        same = rows.take(right, axis=1)
        return np.where(flips, np.maximum(same, rows.take(right ^ 1, axis=1)), same)

    def _exchange(self, runs: list[Run], flat: _Flat, i: Ints) -> Found:
        """Two runs exchange their tails, those behind positions i and j."""
        j = np.arange(len(flat.node))
        head = flat.bound[j + 1] == flat.bound[flat.start]
        tail = flat.bound[flat.stop] == flat.bound[j + 1]
        gain = self._link(flat.node[i], flat.next, head[i][:, None] | tail)
        gain = gain + self._link(flat.node, flat.next[i], head[:, None] | tail[i]).T
        gain = gain - flat.link[i][:, None] - flat.link
        (p, q), best = _highest(np.where(flat.run[i][:, None] != flat.run, gain, -1))

        def make() -> Move:
            one, x, y = _cut(runs, flat, i[p])
            other, s, t = _cut(runs, flat, q)
            return {one, other}, _whole(self.join(x, t), self.join(s, y))

        return best, make

    def _reverse(self, runs: list[Run], flat: _Flat, i: Ints, j: Ints) -> Found:
        """The head of one run goes on with that of another, turned round; likewise the tails."""
        every = np.arange(len(flat.node))
        head = flat.bound[every + 1] == flat.bound[flat.start]
        tail = flat.bound[flat.stop] == flat.bound[every + 1]
        heads = flat.turned[every] - flat.turned[flat.start]
        tails = flat.turned[flat.stop - 1] - flat.turned[np.minimum(every + 1, flat.stop - 1)]
        gain = self._link(flat.node[i], flat.node[j], head[i][:, None] | head[j]) + heads[j]
        gain = gain + self._link(flat.next[i], flat.next[j], tail[i][:, None] | tail[j]) + tails[i][:, None]
        gain = gain - flat.link[i][:, None] - flat.link[j]
        (p, q), best = _highest(np.where(flat.run[i][:, None] != flat.run[j], gain, -1))

        def make() -> Move:
            one, x, y = _cut(runs, flat, i[p])
            other, s, t = _cut(runs, flat, j[q])
            return {one, other}, _whole(self.join(x, s[::-1]), self.join(y[::-1], t))

        return best, make

    def _turn(self, runs: list[Run], flat: _Flat, i: Ints) -> Found:
        """A piece of a run, from i + 1 to j, is turned round, negated, both, or becomes a run of its own."""
        j = np.arange(len(flat.node))
        left, behind = flat.node[i][:, None], flat.next[i][:, None]
        free = flat.bound[j + 1] == flat.bound[i + 1][:, None]
        inner = flat.turned[j] - flat.turned[i + 1][:, None]
        gains = []
        for sign in (0, 1):
            straight = self._savings[left, behind ^ sign].astype(np.int64) + self._savings[flat.node ^ sign, flat.next]
            around = self._savings[left, flat.node ^ sign] + self._savings[behind ^ sign, flat.next] + inner
            gains += [np.where(free | (sign == 0), kind, -_FAR) for kind in (straight, around)]
        gains.append(self._savings[left, flat.next])
        lost = flat.link[i][:, None] + flat.link
        within = (flat.run[i][:, None] == flat.run) & (i[:, None] < j)
        (kind, p, q), best = _highest(np.where(within, np.stack(gains) - lost, -1))

        def make() -> Move:
            number, head, _ = _cut(runs, flat, i[p])
            _, both, tail = _cut(runs, flat, q)
            piece = both[len(head) :]
            if kind == 4:
                return {number}, _whole(head + tail, piece)
            piece = [node ^ (kind // 2) for node in piece]
            return {number}, [head + (piece[::-1] if kind % 2 else piece) + tail]

        return best, make

    def _move(self, runs: list[Run], flat: _Flat, length: int, i: Ints, j: Ints) -> Found:
        """A few nodes in a row, the first at i, move behind j or to the front of j's run, turned, negated or both."""
        a = i[i + length <= flat.stop[i]]
        b = a + length - 1
        heads = j[j == flat.start[j]]
        before = np.append(flat.node[j], np.full(len(heads), self._none))
        behind = np.append(flat.next[j], flat.node[heads])
        broken = np.append(flat.link[j], np.zeros(len(heads), np.int64))
        where = np.append(j, heads - 1)
        home = np.append(flat.run[j], flat.run[heads])
        first = a == flat.start[a]
        closing = self._savings[np.where(first, self._none, flat.node[a - 1]), flat.next[b]]
        closing = closing - np.where(first, 0, flat.link[a - 1]) - flat.link[b]
        free = flat.bound[b + 1] == flat.bound[a]
        inner = flat.turned[b] - flat.turned[a]
        # Four kinds: as it is, turned, negated, both.
        x, y = flat.node[a], flat.node[b]
        own = np.stack([closing, closing + inner] * 2)
        own[2:] -= np.where(free, 0, _FAR)
        total = self._into[np.stack([x, y, x ^ 1, y ^ 1])].take(before, axis=2)
        total += self._savings[np.stack([y, x, y ^ 1, x ^ 1])].take(behind, axis=2)
        total += own.astype(np.int16)[:, :, None] - broken.astype(np.int16)
        here = (home == flat.run[a][:, None]) & (where >= a[:, None] - 1) & (where <= b[:, None])
        (kind, p, q), best = _highest(np.where(here, -1, total))

        def make() -> Move:
            source, goal = int(flat.run[a[p]]), int(home[q])
            start = int(a[p] - flat.start[a[p]])
            at = int(where[q]) + 1 - int(np.searchsorted(flat.run, goal))
            piece = [node ^ (kind // 2) for node in runs[source][start : start + length]]
            rest = runs[source][:start] + runs[source][start + length :]
            target = rest if goal == source else runs[goal]
            at -= length if goal == source and at > start else 0
            grown = target[:at] + (piece[::-1] if kind % 2 else piece) + target[at:]
            return {source, goal}, [grown] if goal == source else _whole(grown, rest)

        return best, make


def _highest(gains: Ints) -> tuple[tuple[int, ...], int]:
    """Place and value of the largest entry."""
    if not gains.size:
        return (0,) * gains.ndim, -1
    place = np.unravel_index(int(gains.argmax()), gains.shape)
    return tuple(int(x) for x in place), int(gains[place])


def _cut(runs: list[Run], flat: _Flat, position: int) -> tuple[int, Run, Run]:
    """The run at a position: its number, and its nodes to the position and behind it."""
    number = int(flat.run[position])
    length = int(position) + 1 - int(flat.start[position])
    return number, runs[number][:length], runs[number][length:]


def _whole(*runs: Run) -> list[Run]:
    return [run for run in runs if run]
