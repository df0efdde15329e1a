"""What the library-backed kernels run: every block product with its two factors, in the order of the scheme.

The order is free there, since each product is stored whole. So a chain, which saves writes of an accumulator, has
nothing to save: to let the library add a product to the one before, it must read what it would otherwise only write,
and that costs as much as the read that the scatter pass is spared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codegen.emit_planes import Side
from codegen.plan import Plan
from codegen.schedule import Vector


@dataclass(frozen=True)
class Factors:
    """One side of all products.

    Attributes:
        side: what the pass over the matrix makes. Slots are numbers of products; its extras are needed only if every
            product is to have its own slot.
        entries: for each product the slot of its factor, or -1 - the number of a block that is a factor as it lies.
    """

    side: Side
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Products:
    """All products of a plan.

    Attributes:
        a: left factors.
        b: right factors.
        W: [blocks of C, r] coefficients of the products, int64.
    """

    a: Factors
    b: Factors
    W: np.ndarray


def products(plan: Plan) -> Products:
    """The factors of each product; the sign of a plain block moves into W, so that it can be used as it lies."""
    m, k, n = plan.format
    (U, V, W), sides = plan.scheme.factors, []
    for factor, shape in ((U, (m, k)), (V, (k, n))):
        plain = (np.abs(factor).sum(axis=0) == 1) & (np.count_nonzero(factor, axis=0) == 1)
        signs = np.where(plain, factor.sum(axis=0), 1)
        W = W * signs
        sides.append(_factors((factor * signs).T.tolist(), plain.tolist(), shape))
    return Products(sides[0], sides[1], W)


def _factors(columns: list[list[int]], plain: list[bool], shape: tuple[int, int]) -> Factors:
    entries: list[int] = []
    planes: list[tuple[int, Vector]] = []
    extras: list[tuple[int, Vector]] = []
    first: dict[Vector, int] = {}
    for product, column in enumerate(columns):
        vector = tuple(column)
        if plain[product]:
            entries.append(-1 - vector.index(1))
            extras.append((product, vector))
            continue
        entries.append(first.setdefault(vector, product))
        (planes if entries[-1] == product else extras).append((product, vector))
    return Factors(Side(*shape, tuple(planes), tuple(extras)), tuple(entries))
