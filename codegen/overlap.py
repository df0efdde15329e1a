"""A chain in two phases: first products that need nothing prepared, then all others.

While the first phase runs, planes can be made for the second one. A block of C that both phases add to stays pending
between them. Where several such blocks have the same part from the first phase, that part can be left behind once
instead, and the second phase takes it into its accumulator where a prefix sum needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from codegen.chain import Chain, Publication, Seed, Step, chain
from codegen.chain_exact import MAX_RANK

_TRIES = 24
_BEAM = 64  # sets of products that are kept while they grow


def overlapped(
    W: NDArray[np.int64], ready: Sequence[int], fixed: frozenset[int], least: int = 1, seeds: Sequence[Seed] = ()
) -> Chain:
    """Order the products in two phases.

    Args:
        W: [blocks of C, products] integer coefficients.
        ready: products that may come in the first phase.
        fixed: products that cannot be negated.
        least: products of the first phase, if so many are ready. Of several sets of them the one is taken that costs
            fewest publications, and of equal ones one with more products.
        seeds: orders and signs of all products to start from.

    Returns:
        A chain whose ``boundary`` is the number of products in the first phase. What lies in the ``carried`` slots
        outlives that: blocks that are pending, and parts left behind, which are publications to block -1 and are
        taken up by those with ``resume``.

    Raises:
        ValueError: no product is ready, or all are.
    """
    rank = W.shape[1]
    if not 0 < len(ready) < rank:
        raise ValueError(
            f"{len(ready)} of {rank} products take two plain blocks and need no planes; planes can be made "
            "meanwhile only where some do, and not all: leave overlap out"
        )
    found = []
    for chosen in _likely(W, sorted(ready), max(1, least), rank > MAX_RANK):
        found.append(_held(W, chosen, fixed, seeds))
        try:
            found.append(_resumed(W, chosen, fixed))
        except ValueError:  # a part would have to be taken up on its own
            continue
    return min(found, key=lambda each: (each.publications, -each.boundary, _waits(each.steps), each.slots))


def _likely(W: NDArray[np.int64], ready: list[int], least: int, few: bool) -> list[list[int]]:
    """Sets of ready products, of ``least`` and of one more, that leave little behind."""
    sizes = range(min(least, len(ready)), min(least + 1, len(ready)) + 1)
    chosen: dict[tuple[int, ...], None] = {}
    for cost, count in ((_pending, 1 if few else 3), (_parts, 1 if few else 2)):
        beam: list[tuple[int, ...]] = [()]
        for size in range(1, sizes[-1] + 1):
            grown = {tuple(sorted({*each, p})) for each in beam for p in ready if p not in each}
            beam = sorted(grown, key=lambda each: (cost(W, each), each))[:_BEAM]
            if size in sizes:
                chosen.update(dict.fromkeys(beam[:count]))
    return [list(each) for each in chosen]


def _left_behind(W: NDArray[np.int64], chosen: Sequence[int]) -> NDArray[np.int64]:
    """[blocks] Rows of the products of a first phase, of the blocks that both phases add to."""
    first = np.isin(np.arange(W.shape[1]), chosen)
    return W[W[:, ~first].any(axis=1)][:, first]


def _pending(W: NDArray[np.int64], chosen: Sequence[int]) -> int:
    return int(_left_behind(W, chosen).any(axis=1).sum())


def _parts(W: NDArray[np.int64], chosen: Sequence[int]) -> int:
    """Different rows, but for the sign."""
    rows = [row.tolist() for row in _left_behind(W, chosen) if row.any()]
    return len({max(tuple(row), tuple(-x for x in row)) for row in rows})


def _held(W: NDArray[np.int64], chosen: list[int], fixed: frozenset[int], seeds: Sequence[Seed]) -> Chain:
    """A chain whose first phase leaves blocks pending; each of them has a slot of its own."""
    made = chain(W, fixed, frozenset(chosen), seeds)
    begun: dict[int, None] = {}
    for step in made.steps[: made.boundary]:
        for p in step.publications:
            begun[p.block] = None
            if p.last:
                del begun[p.block]
    own = {block: slot for slot, block in enumerate(sorted(begun))}
    others = {p.slot for step in made.steps for p in step.publications if p.block not in own and p.slot >= 0}
    shifted = {slot: len(own) + number for number, slot in enumerate(sorted(others))}
    place = lambda p: own.get(p.block, shifted.get(p.slot, -1))  # noqa: E731
    steps = [_each(step, lambda p: replace(p, slot=place(p))) for step in made.steps]
    return Chain(tuple(steps), len(own) + len(others), made.boundary, len(own))


def _resumed(W: NDArray[np.int64], ready: list[int], fixed: frozenset[int]) -> Chain:
    """A chain whose first phase leaves parts behind, once for all blocks with the same part."""
    others = [p for p in range(W.shape[1]) if p not in ready]
    done = ~W[:, others].any(axis=1)
    parts: list[NDArray[np.int64]] = []
    taken = np.zeros((W.shape[0], 0), dtype=np.int64)
    for block in np.flatnonzero(~done):
        row = W[block, ready]
        if not row.any():
            continue
        same = [j for j, part in enumerate(parts) if (part == row).all() or (part == -row).all()]
        if not same:
            parts.append(row)
            taken = np.hstack([taken, np.zeros((W.shape[0], 1), dtype=np.int64)])
        j = same[0] if same else len(parts) - 1
        taken[block, j] = 1 if (parts[j] == row).all() else -1
    finished = np.flatnonzero(done & W[:, ready].any(axis=1))
    first = chain(
        np.vstack([W[finished][:, ready], *parts]),
        frozenset(i for i, p in enumerate(ready) if p in fixed),
    )
    second, slots = _second(
        np.hstack([W[:, others], taken]), frozenset(i for i, p in enumerate(others) if p in fixed), others
    )
    carried = len(parts)
    left = partial(_left, finished=finished, carried=carried)
    steps = [_each(replace(step, product=ready[step.product]), left) for step in first.steps]
    return Chain(tuple(steps + second), carried + max(first.slots, slots), len(ready), carried)


def _each(step: Step, change: Callable[[Publication], Publication]) -> Step:
    return replace(step, publications=tuple(change(p) for p in step.publications))


def _second(W: NDArray[np.int64], fixed: frozenset[int], others: list[int]) -> tuple[list[Step], int]:
    """The steps of the second phase and their slots, from products and the parts that are taken up.

    Of several chains that would be as good for one phase the one where fewest partial sums are needed at a time: only
    the first one that a product needs can come while the product is computed.
    """
    found = list(_seconds(W, fixed, others))
    if not found:
        raise ValueError("each part that the first phase leaves behind would be taken up on its own")
    return min(found, key=lambda each: (sum(len(step.publications) for step in each[0]), _waits(each[0]), each[1]))


def _seconds(W: NDArray[np.int64], fixed: frozenset[int], others: list[int]) -> Iterator[tuple[list[Step], int]]:
    rng = np.random.default_rng(0)
    rank = W.shape[1]
    for _ in range(_TRIES if rank <= MAX_RANK else 1):
        order = rng.permutation(rank)
        back = {new: int(old) for new, old in enumerate(order)}
        made = chain(W[:, order], frozenset(new for new, old in back.items() if old in fixed))
        steps = tuple(replace(step, product=back[step.product]) for step in made.steps)
        taken = _taken_up(replace(made, steps=steps), others, rank - len(others))
        if taken:
            yield taken, made.slots


def _waits(steps: Sequence[Step]) -> int:
    """Partial sums that cannot come while a product is computed."""
    comes = [sum(p.resume or (p.last and not p.first) for p in step.publications) for step in steps]
    return sum(max(0, count - 1) for count in comes)


def _left(p: Publication, finished: NDArray[np.int64], carried: int) -> Publication:
    """A publication of the first phase: to a block, or to a part that is left behind."""
    if p.block < len(finished):
        return replace(p, block=int(finished[p.block]), slot=p.slot + carried if p.slot >= 0 else -1)
    return replace(p, block=-1, slot=p.block - len(finished), last=False)


def _taken_up(found: Chain, others: list[int], carried: int) -> list[Step]:
    """The steps of a chain in which a part that is taken up is no step, but happens after the product beside it.

    Empty if a part would be published on its own or is never added to.
    """
    steps: list[Step] = []
    waiting: list[Publication] = []
    clear = False
    for step in found.steps:
        publications = tuple(replace(p, slot=p.slot + carried if p.slot >= 0 else -1) for p in step.publications)
        if step.product < len(others):
            steps.append(Step(others[step.product], step.sign, step.clear or clear, (*waiting, *publications)))
            waiting, clear = [], False
            continue
        taken = Publication(-1, step.sign, step.product - len(others), False, True, resume=True)
        if not step.clear and steps and not waiting:
            steps[-1] = replace(steps[-1], publications=(*steps[-1].publications, taken, *publications))
        elif publications:
            return []
        else:
            waiting.append(taken)
            clear = clear or step.clear
    return [] if waiting else steps
