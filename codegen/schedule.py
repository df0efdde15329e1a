"""What the fused kernels run: the products of a plan in the order of a chain, each with its two operands.

An operand is a block of A or B as it lies in memory, or a plane: a linear combination that a pass before writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from codegen.chain import Chain, Publication, Seed, chain, kron_seed
from codegen.overlap import overlapped
from codegen.plan import Plan

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """One factor of a block product.

    Attributes:
        plane: whether it is a plane; else it is a block of the matrix.
        index: number of the plane, or row-major number of the block.
    """

    plane: bool
    index: int


@dataclass(frozen=True)
class Turn:
    """One product and what happens after it.

    Attributes:
        a: left factor.
        b: right factor.
        clear: whether the accumulator starts from zero.
        publications: made after the product, see ``codegen.chain``.
    """

    a: Operand
    b: Operand
    clear: bool
    publications: tuple[Publication, ...]

    @property
    def plain(self) -> bool:
        """Whether both factors are blocks, so that the product needs nothing prepared."""
        return not (self.a.plane or self.b.plane)


@dataclass(frozen=True)
class Schedule:
    """A plan in execution order.

    Attributes:
        plan: what is computed.
        planes_a: coefficients over the blocks of A, row-major, of each plane, in the order of first use.
        planes_b: the same for B.
        turns: one for each product.
        slots: pending tiles needed at once.
        boundary: turns of the first phase, which needs nothing prepared; 0 if there is only one phase.
        carried: the first so many slots hold something between the phases.
    """

    plan: Plan
    planes_a: tuple[Vector, ...]
    planes_b: tuple[Vector, ...]
    turns: tuple[Turn, ...]
    slots: int
    boundary: int = 0
    carried: int = 0

    @property
    def publications(self) -> int:
        """Number of writes of the accumulator in one tile."""
        return sum(len(turn.publications) for turn in self.turns)


def schedule(plan: Plan, convert: bool = False, overlap: int = 0, constant_b: bool = False) -> Schedule:
    """Order the products of a plan and find the operands of each.

    Args:
        plan: what to compute.
        convert: planes are of another type than the matrices, so that a block that meets a plane is a plane too.
        overlap: so many products that need no planes come first, if there are so many, while planes are made for the
            others; 0: all in one phase.
        constant_b: the planes of B are there before, so that those of A alone are not needed.

    Raises:
        ValueError: the plan has no products to overlap with, see ``codegen.overlap``.
    """
    U, V, _, single = _upright(plan)
    made = _turns(plan, _chain(plan, overlap, constant_b and not convert), U, V, single, convert)
    if overlap or not (_doubled(made.planes_a) or _doubled(made.planes_b)):
        return made
    # Where every plane of a product serves others too, negating the product takes another plane, which may cost more
    # than the publications that it saves.
    other = _turns(plan, _chain(plan, rigid=True), U, V, single, convert)
    return min(made, other, key=lambda each: 2 * (len(each.planes_a) + len(each.planes_b)) + each.publications)


# Kept because the kernels of a plan for several types share them, and each takes up to seconds.
@lru_cache(maxsize=32)
def _chain(plan: Plan, overlap: int = 0, only_a: bool = False, rigid: bool = False) -> Chain:
    """The chain of a plan.

    Args:
        plan: what to compute.
        overlap: least number of products in the first of two phases.
        only_a: a product belongs there if A's factor is a block.
        rigid: products are not negated where their factors serve others too.
    """
    U, V, W, single = _upright(plan)
    plain = frozenset(np.flatnonzero(single[0] & single[1]).tolist())
    if overlap:
        ready = np.flatnonzero(single[0]).tolist() if only_a else sorted(plain)
        return overlapped(W, ready, plain, overlap, _seeds(plan))
    return chain(W, plain | _rigid(U, V, single) if rigid else plain, seeds=_seeds(plan))


def _doubled(planes: Sequence[Vector]) -> bool:
    """Whether the negative of a plane is a plane too."""
    return any(tuple(-x for x in plane) in planes for plane in planes)


def _upright(plan: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """U, V and W with the signs of plain blocks moved into W, so that a block can be used as it lies.

    The last item tells for U and V which of their columns are plain blocks.
    """
    U, V, W = (np.array(factor) for factor in plan.scheme.factors)
    single = [_singles(U), _singles(V)]
    for factor, singles in zip((U, V), single, strict=True):
        signs = np.where(singles, factor.sum(axis=0), 1)
        factor *= signs
        W = W * signs
    return U, V, W, single


def _turns(
    plan: Plan, found: Chain, U: np.ndarray, V: np.ndarray, single: Sequence[np.ndarray], convert: bool
) -> Schedule:
    """The schedule of a chain."""
    a, b = _Planes(), _Planes()
    turns = []
    for step in found.steps:
        u, v = tuple(U[:, step.product].tolist()), tuple(V[:, step.product].tolist())
        both = [bool(side[step.product]) for side in single]
        planes = [not s or (convert and not all(both)) for s in both]
        left, right = _signed(u, v, step.sign, planes, a, b)
        turns.append(Turn(left, right, step.clear, step.publications))
    return Schedule(plan, tuple(a.found), tuple(b.found), tuple(turns), found.slots, found.boundary, found.carried)


def _seeds(plan: Plan) -> list[Seed]:
    """For a Kronecker power, the chain of its base at every level."""
    if plan.levels == 1:
        return []
    base = chain(plan.base.W).seed
    return [reduce(lambda inner, _: kron_seed(base, inner), range(plan.levels - 1), base)]


def _rigid(U: np.ndarray, V: np.ndarray, single: Sequence[np.ndarray]) -> frozenset[int]:
    """Products none of whose factors is a plane of their own."""
    shared = []
    for factor, singles in zip((U, V), single, strict=True):
        same = (factor[:, :, None] == factor[:, None, :]).all(axis=0) | (factor[:, :, None] == -factor[:, None, :]).all(
            axis=0
        )
        shared.append(singles | (same.sum(axis=1) > 1))
    return frozenset(np.flatnonzero(shared[0] & shared[1]).tolist())


class _Planes:
    """Planes of one side, numbered as they are met."""

    def __init__(self) -> None:
        self.found: dict[Vector, int] = {}

    def operand(self, vector: Vector, plane: bool) -> Operand:
        if not plane:
            return Operand(False, vector.index(1))
        return Operand(True, self.found.setdefault(vector, len(self.found)))


def _singles(factor: np.ndarray) -> np.ndarray:
    """[r] which columns are one block with the coefficient 1 or -1."""
    return (np.abs(factor).sum(axis=0) == 1) & ((factor != 0).sum(axis=0) == 1)


def _signed(u: Vector, v: Vector, sign: int, planes: Sequence[bool], a: _Planes, b: _Planes) -> tuple[Operand, Operand]:
    """The two operands, with the product's sign in a plane; of the ways to do so the one with fewest new planes."""
    choices = [(x, y) for x in (1, -1) for y in (1, -1) if x * y == sign]
    choices = [(x, y) for x, y in choices if (planes[0] or x == 1) and (planes[1] or y == 1)]
    options = [(tuple(x * c for c in u), tuple(y * c for c in v)) for x, y in choices]
    left, right = min(options, key=lambda option: _new(option[0], planes[0], a) + _new(option[1], planes[1], b))
    return a.operand(left, planes[0]), b.operand(right, planes[1])


def _new(vector: Vector, plane: bool, planes: _Planes) -> int:
    return int(plane and vector not in planes.found)
