"""The order in which one accumulator runs through all products, so that blocks of C are written as rarely as possible.

A tile of the fused kernel has one accumulator. It is not cleared after every product: left to run on, it holds prefix
sums, and a prefix sum may be all that a block of C needs. A *publication* adds a multiple of it to a block of C.
With signed products in the order p_1, p_2, ... a block whose coefficients are w needs one publication after p_t exactly
where e_t w(p_t) differs from e_{t+1} w(p_{t+1}), or from zero where the accumulator is cleared after p_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Publication:
    """The accumulator, times a coefficient, is added to a block of C.

    Attributes:
        block: row-major number of the block.
        coefficient: factor of the accumulator, never 0.
        slot: the pending tile that holds the block's partial sum; -1 if this is its only publication.
        first: nothing was published to this block before.
        last: the block is complete afterwards.
    """

    block: int
    coefficient: int
    slot: int
    first: bool
    last: bool


@dataclass(frozen=True)
class Step:
    """One product in the chain.

    Attributes:
        product: its number.
        sign: 1 or -1, what it is multiplied by when it is added to the accumulator.
        clear: whether the accumulator starts from zero with it.
        publications: made after it.
    """

    product: int
    sign: int
    clear: bool
    publications: tuple[Publication, ...]


@dataclass(frozen=True)
class Chain:
    """All products in order.

    Attributes:
        steps: one for each product.
        slots: pending tiles that are needed at once.
    """

    steps: tuple[Step, ...]
    slots: int

    @property
    def publications(self) -> int:
        """Number of writes of the accumulator."""
        return sum(len(step.publications) for step in self.steps)


def chain(W: NDArray[np.int64], fixed: frozenset[int] = frozenset()) -> Chain:
    """Order the products.

    Args:
        W: [blocks of C, products] integer coefficients.
        fixed: products that cannot be negated, because both their factors are plain blocks.

    Returns:
        A chain that ``replay`` turns back into ``W``.
    """
    blocks, rank = W.shape
    left, order, signs = set(range(rank)), [], []
    last = np.zeros(blocks, dtype=np.int64)
    while left:
        cost, product, sign = min(
            (min(int((last != s * W[:, p]).sum()), int((last != 0).sum())), p, s)
            for p in left
            for s in ((1,) if p in fixed else (1, -1))
        )
        left.remove(product)
        order.append(product)
        signs.append(sign)
        last = sign * W[:, product]
    return assemble(W, order, signs)


def assemble(W: NDArray[np.int64], order: list[int], signs: list[int]) -> Chain:
    """The chain of an order and signs: where to clear, what to publish, which slot a pending block takes."""
    columns = [sign * W[:, product] for product, sign in zip(order, signs, strict=True)] + [0 * W[:, 0]]
    clears = [True]
    writes: list[dict[int, int]] = []
    for now, following in zip(columns, columns[1:], strict=False):
        clear = int((now != 0).sum()) <= int((now != following).sum())
        change = now if clear else now - following
        writes.append({int(block): int(change[block]) for block in np.flatnonzero(change)})
        clears.append(clear)
    totals: dict[int, int] = {}
    for step in writes:
        for block in step:
            totals[block] = totals.get(block, 0) + 1
    seen: dict[int, int] = dict.fromkeys(totals, 0)
    slot_of: dict[int, int] = {}
    free: list[int] = []
    slots = 0
    steps = []
    for product, sign, clear, step in zip(order, signs, clears, writes, strict=False):
        publications, released = [], []
        for block, coefficient in step.items():
            seen[block] += 1
            first, last = seen[block] == 1, seen[block] == totals[block]
            if first and not last:
                if not free:
                    free.append(slots)
                    slots += 1
                slot_of[block] = free.pop(0)
            publications.append(Publication(block, coefficient, slot_of.get(block, -1), first, last))
            if last and not first:
                released.append(slot_of[block])
        free += released
        steps.append(Step(product, sign, clear, tuple(publications)))
    return Chain(tuple(steps), slots)


def replay(found: Chain, blocks: int) -> NDArray[np.int64]:
    """The coefficients [blocks, products] that a chain computes, for checking it."""
    rank = len(found.steps)
    result = np.zeros((blocks, rank), dtype=np.int64)
    state = np.zeros(rank, dtype=np.int64)
    for step in found.steps:
        if step.clear:
            state[:] = 0
        state[step.product] += step.sign
        for publication in step.publications:
            result[publication.block] += publication.coefficient * state
    return result
