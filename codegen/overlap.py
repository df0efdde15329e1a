"""A chain in two phases: first the products that need nothing prepared, then all others.

While the first phase runs, planes can be made for the second one. A block of C that both phases add to would be
written in both; instead the first phase leaves its part behind, once for all blocks with the same part, and the second
one takes it into its accumulator where a prefix sum needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codegen.chain import Chain, Publication, Step, chain
from codegen.chain_exact import MAX_RANK

_TRIES = 24


def overlapped(W: NDArray[np.int64], ready: Sequence[int], fixed: frozenset[int]) -> Chain:
    """Order the products in two phases.

    Args:
        W: [blocks of C, products] integer coefficients.
        ready: products of the first phase.
        fixed: products that cannot be negated.

    Returns:
        A chain whose ``boundary`` is the number of ready products. Publications to block -1 are parts left behind, in
        the ``carried`` slots, and those with ``resume`` take them up.

    Raises:
        ValueError: no product is ready, or all are, or a part left behind would have to be taken up on its own.
    """
    ready = sorted(ready)
    others = [p for p in range(W.shape[1]) if p not in ready]
    if not ready or not others:
        raise ValueError(
            f"{len(ready)} of {W.shape[1]} products take two plain blocks and need no planes; planes can be made "
            "meanwhile only where some do, and not all: leave overlap out"
        )
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
    steps = [
        replace(
            step,
            product=ready[step.product],
            publications=tuple(_left(p, finished, carried) for p in step.publications),
        )
        for step in first.steps
    ]
    return Chain(tuple(steps + second), carried + max(first.slots, slots), len(ready), carried)


def _second(W: NDArray[np.int64], fixed: frozenset[int], others: list[int]) -> tuple[list[Step], int]:
    """The steps of the second phase and their slots, from products and the parts that are taken up.

    Of several chains that would be as good for one phase the one where fewest partial sums are needed at a time: only
    the first one that a product needs can come while the product is computed.
    """
    rng = np.random.default_rng(0)
    rank = W.shape[1]
    found: list[tuple[list[Step], int]] = []
    failure: ValueError | None = None
    for _ in range(_TRIES if rank <= MAX_RANK else 1):
        order = rng.permutation(rank)
        back = {new: int(old) for new, old in enumerate(order)}
        made = chain(W[:, order], frozenset(new for new, old in back.items() if old in fixed))
        steps = tuple(replace(step, product=back[step.product]) for step in made.steps)
        try:
            found.append((_taken_up(replace(made, steps=steps), others, rank - len(others)), made.slots))
        except ValueError as error:
            failure = error
    if not found:
        assert failure is not None
        raise failure
    return min(found, key=lambda each: (sum(len(step.publications) for step in each[0]), _waits(each[0]), each[1]))


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
    """The steps of a chain in which a part that is taken up is no step, but happens after the product beside it."""
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
            raise ValueError(
                "a part that the first phase leaves behind would be published on its own: leave overlap out"
            )
        else:
            waiting.append(taken)
            clear = clear or step.clear
    if waiting:
        raise ValueError("a part that the first phase leaves behind is never added to: leave overlap out")
    return steps
