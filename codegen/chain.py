"""The order in which one accumulator runs through all products, so that blocks of C are written as rarely as possible.

A tile of the fused kernel has one accumulator. It is not cleared after every product: left to run on, it holds prefix
sums, and a prefix sum may be all that a block of C needs. A *publication* adds a multiple of it to a block of C.
With signed products in the order p_1, p_2, ... a block whose coefficients are w needs one publication after p_t exactly
where e_t w(p_t) differs from e_{t+1} w(p_{t+1}), or from zero where the accumulator is cleared after p_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.chain_costs import Costs, Run, costs
from codegen.chain_exact import MAX_RANK, Solver
from codegen.chain_pending import arrange, waiting
from codegen.chain_search import greedy, improve

# Products in order, and the sign of each.
Seed = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class Publication:
    """The accumulator, times a coefficient, is added to a block of C.

    Attributes:
        block: row-major number of the block.
        coefficient: factor of the accumulator, never 0.
        slot: the pending tile that holds the block's partial sum; -1 if this is its only publication.
        first: nothing was published to this block before.
        last: the block is complete afterwards.
        resume: the other way round: what the slot holds, times the coefficient, is added to the accumulator.
    """

    block: int
    coefficient: int
    slot: int
    first: bool
    last: bool
    resume: bool = False


@dataclass(frozen=True)
class Step:
    """One product in the chain.

    Attributes:
        product: its number.
        sign: 1 or -1, what it is multiplied by when it is added to the accumulator.
        clear: whether the accumulator starts from zero with it.
        publications: made after it, one after the other: a slot may pass from the first to the second.
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
        boundary: steps before the phase boundary, where the accumulator is cleared; 0 if there is none.
        carried: the first so many slots hold something at the phase boundary.
    """

    steps: tuple[Step, ...]
    slots: int
    boundary: int = 0
    carried: int = 0

    @property
    def publications(self) -> int:
        """Number of writes of the accumulator."""
        return sum(len(step.publications) for step in self.steps)

    @property
    def seed(self) -> Seed:
        """The products in order and their signs, for other chains to start from."""
        return [step.product for step in self.steps], [step.sign for step in self.steps]


def chain(
    W: NDArray[np.int64],
    fixed: frozenset[int] = frozenset(),
    first: frozenset[int] = frozenset(),
    seeds: Sequence[Seed] = (),
) -> Chain:
    """Order the products: as few publications as possible, and of such orders one with few pending tiles.

    Up to 15 products the number of publications is the smallest there is; beyond, a local search from a greedy chain
    and from ``seeds`` bounds it from above. The result depends on the arguments alone.

    Args:
        W: [blocks of C, products] integer coefficients.
        fixed: products that cannot be negated, because both their factors are plain blocks.
        first: products that come before all others; the accumulator is cleared where they end.
        seeds: orders and signs to start from, such as ``kron_seed`` gives.

    Returns:
        A chain that ``replay`` turns back into ``W``.

    Raises:
        ValueError: ``fixed`` or ``first`` names a product that there is not, or a seed is no order of all products.
    """
    rank = W.shape[1]
    for name, products in (("fixed", fixed), ("first", first)):
        if wrong := sorted(products - set(range(rank))):
            raise ValueError(f"{name} names product {wrong[0]}; the columns of W are products 0 to {rank - 1}")
    for order, _ in seeds:
        if sorted(order) != list(range(rank)):
            raise ValueError(f"a seed must hold each of the products 0 to {rank - 1} once, not {list(order)}")
    found = costs(W, fixed, first)
    runs = _few(found) if rank <= MAX_RANK else _many(found, seeds)
    nodes = [node for run in runs for node in _upright(run, found)]
    clears = [position == 0 for run in runs for position in range(len(run))]
    return assemble(W, [x // 2 for x in nodes], [1 - x % 2 * 2 for x in nodes], clears, len(first))


def kron_seed(outer: Seed, inner: Seed) -> Seed:
    """A seed for ``catalog.transform.kron``: the outer products in order, under each one all the inner ones."""
    rank = len(inner[0])
    order = [x * rank + y for x in outer[0] for y in inner[0]]
    return order, [x * y for x in outer[1] for y in inner[1]]


def _few(found: Costs) -> list[Run]:
    """The best runs of few products."""
    solver = Solver(found)
    best: list[Run] = []
    limit = len(found.columns) + 1
    while limit and (runs := solver.below(limit)):
        best, limit = runs, waiting(found, runs)
    return best


def _many(found: Costs, seeds: Sequence[Seed]) -> list[Run]:
    """Good runs of many products."""
    starts = [greedy(found)]
    for order, signs in seeds:
        nodes = [2 * p + (sign < 0 and bool(found.free[2 * p])) for p, sign in zip(order, signs, strict=True)]
        starts.append([nodes])
    return min((arrange(found, runs) for runs in improve(found, starts)), key=lambda each: each[0])[1]


def _upright(run: Run, found: Costs) -> Run:
    """The run, or its negative where that has fewer negated products."""
    if found.free[run].all() and 2 * sum(node % 2 for node in run) > len(run):
        return [node ^ 1 for node in run]
    return run


def assemble(
    W: NDArray[np.int64],
    order: Sequence[int],
    signs: Sequence[int],
    clears: Sequence[bool] | None = None,
    boundary: int = 0,
) -> Chain:
    """The chain of an order and signs: what to publish, which slot a pending block takes.

    Args:
        W: [blocks of C, products] integer coefficients.
        order: of the products.
        signs: of the products in that order.
        clears: whether the accumulator is cleared before each of them; where that costs least if None.
        boundary: products before the phase boundary.
    """
    columns = [sign * W[:, product] for product, sign in zip(order, signs, strict=True)] + [0 * W[:, 0]]
    if clears is None:
        pairs = zip(columns, columns[1:], strict=False)
        clears = [True, *(bool((x != 0).sum() <= (x != y).sum()) for x, y in pairs)]
    clears = [clear or position == boundary for position, clear in enumerate(clears[: len(order)])] + [True]
    writes: list[dict[int, int]] = []
    for position, clear in enumerate(clears[1:]):
        change = columns[position] if clear else columns[position] - columns[position + 1]
        writes.append({int(block): int(change[block]) for block in np.flatnonzero(change)})
    final = {block: position for position, step in enumerate(writes) for block in step}
    slot_of: dict[int, int] = {}
    free: list[int] = []
    begun: set[int] = set()
    slots = 0
    steps = []
    for position, (product, sign, step) in enumerate(zip(order, signs, writes, strict=True)):
        publications = []
        # Blocks that were begun come first, so that one begun now can take the slot of one completed now.
        for block in sorted(step, key=lambda block: block not in begun):
            first, last = block not in begun, final[block] == position
            begun.add(block)
            if first and not last:
                if not free:
                    free.append(slots)
                    slots += 1
                slot_of[block] = free.pop()
            elif last and not first:
                free.append(slot_of[block])
            publications.append(Publication(block, step[block], slot_of.get(block, -1), first, last))
        steps.append(Step(product, sign, clears[position], tuple(publications)))
    return Chain(tuple(steps), slots, boundary)


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
