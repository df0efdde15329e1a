"""What it costs to let one product follow another in a chain: the asymmetric distances of a travelling salesman.

A *node* is a product with a sign: node 2 p is product p, node 2 p + 1 is its negative. After node x the accumulator is
published to every block whose coefficient changes from x to its follower, or, if the accumulator is cleared then, to
every block that x enters. A *run* is a list of nodes between two clears.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Run = list[int]


@dataclass(frozen=True)
class Costs:
    """Publications of every ordered pair of nodes.

    Attributes:
        columns: [blocks, 2 r] signed coefficients of the nodes.
        alone: [2 r] publications after a node if the accumulator is cleared then.
        onward: [2 r, 2 r] publications after the first node if it runs on into the second.
        free: [2 r] whether the node's product may take either sign.
        early: [2 r] whether the node's product belongs to the first phase.
    """

    columns: NDArray[np.int64]
    alone: NDArray[np.int32]
    onward: NDArray[np.int32]
    free: NDArray[np.bool_]
    early: NDArray[np.bool_]

    @property
    def rank(self) -> int:
        """Number of products."""
        return len(self.alone) // 2

    @property
    def savings(self) -> NDArray[np.int32]:
        """[2 r, 2 r] publications saved by running on instead of clearing; never across the phase boundary."""
        gain = np.maximum(self.alone[:, None] - self.onward, 0)
        gain[self.early[:, None] != self.early] = 0
        return gain

    def total(self, runs: list[Run]) -> int:
        """Publications of a chain that clears exactly between the runs."""
        inside = sum(int(self.onward[x, y]) for run in runs for x, y in zip(run, run[1:], strict=False))
        return inside + sum(int(self.alone[run[-1]]) for run in runs)


def costs(W: NDArray[np.int64], fixed: frozenset[int], first: frozenset[int]) -> Costs:
    """The costs of the products whose coefficients are the columns of ``W`` [blocks, r].

    Args:
        W: coefficients with which each product enters each block.
        fixed: products that cannot be negated.
        first: products of the first phase.
    """
    blocks, rank = W.shape
    signed = np.stack([W, -W], axis=2).reshape(blocks, 2 * rank)
    # Counting equal entries value by value is one small matrix product each, however many blocks there are.
    equal = np.zeros((2 * rank, 2 * rank), np.float32)
    for value in np.unique(signed):
        here = (signed == value).astype(np.float32)
        equal += here.T @ here
    number = np.arange(2 * rank) // 2
    return Costs(
        signed,
        (signed != 0).sum(axis=0, dtype=np.int32),
        blocks - equal.astype(np.int32),
        ~np.isin(number, list(fixed)),
        np.isin(number, list(first)),
    )
