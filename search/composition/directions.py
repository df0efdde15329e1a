"""Factors up to scalars: which terms of a scheme share a factor, and which factors are matrices of rank one.

Letters in shapes: r terms, p x q the blocks of one matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Factor, Scheme


def normalise(factor: Factor, modulus: int) -> tuple[Factor, NDArray[np.int64]]:
    """Split every column into a primitive vector with a positive first non-zero entry, and a scalar.

    Args:
        factor: [rows, r] integers; over F3 in {-1, 0, 1}.
        modulus: characteristic of the ring, 0 for Z and Q.

    Returns:
        [rows, r] int64 primitive columns and [r] int64 scalars, 0 for a zero column; their products are the columns.
    """
    rows, rank = factor.shape
    head = factor[np.argmax(factor != 0, axis=0), np.arange(rank)] if rank else np.zeros(0, np.int64)
    content = np.sign(head) if modulus else np.sign(head) * np.gcd.reduce(factor, axis=0)
    return factor // np.where(content == 0, 1, content), content


def shared(factor: Factor, modulus: int) -> NDArray[np.int64]:
    """[r] int64 labels, equal exactly for columns that differ by a scalar; numbered in order of appearance."""
    primitive = np.ascontiguousarray(normalise(factor, modulus)[0].T)
    labels: dict[bytes, int] = {}
    return np.array([labels.setdefault(row.tobytes(), len(labels)) for row in primitive], dtype=np.int64)


def row_directions(blocks: Factor, modulus: int) -> list[tuple[int, ...] | None]:
    """The left vector x of every coefficient matrix of rank one, x y^T, and None for the others.

    Args:
        blocks: [p, q, r] integers.
        modulus: characteristic of the ring, 0 for Z and Q.

    Returns:
        Primitive vectors [p] with a positive first non-zero entry.
    """
    p, q, rank = blocks.shape
    columns, scales = normalise(blocks.reshape(p, q * rank), modulus)
    live = (scales != 0).reshape(q, rank)
    columns = columns.reshape(p, q, rank)
    first = np.argmax(live, axis=0)
    x = columns[:, first, np.arange(rank)]
    single = (~live[None] | (columns == x[:, None, :])).all(axis=(0, 1)) & live.any(axis=0)
    return [tuple(vector) if one else None for vector, one in zip(x.T.tolist(), single, strict=True)]


def tidy(scheme: Scheme) -> Scheme:
    """Drop zero terms and merge terms that agree in two factors up to scalars, until nothing changes.

    A merger that would leave {-1, 0, 1} is left out when the scheme is ternary. Terms keep their order.
    """
    ternary = scheme.is_ternary
    factors = [factor.copy() for factor in scheme.factors]
    alive = np.logical_and.reduce([factor.any(axis=0) for factor in factors])
    while any(_merge_once(factors, alive, mode, scheme.ring.modulus, ternary) for mode in range(3)):
        pass
    if alive.all():
        return scheme
    return Scheme(scheme.format, scheme.ring, *(f[:, alive] for f in factors), denominators=scheme.denominators)


def _merge_once(factors: list[Factor], alive: NDArray[np.bool_], mode: int, modulus: int, ternary: bool) -> bool:
    """Merge in place the first two terms that agree in the factors other than ``mode``; whether there were any."""
    others = [i for i in range(3) if i != mode]
    terms = np.flatnonzero(alive)
    labels = [shared(factors[i][:, terms], modulus) for i in others]
    keys = labels[0] * len(terms) + labels[1]
    unique, counts = np.unique(keys, return_counts=True)
    for key in unique[counts > 1]:
        kept, *same = terms[keys == key].tolist()
        for term in same:
            scales = [normalise(factors[i][:, [kept, term]], modulus)[1].tolist() for i in others]
            top, bottom = scales[0][1] * scales[1][1], scales[0][0] * scales[1][0]
            if not modulus and top % bottom:
                continue
            # Modulo 2 and 3 every unit is its own inverse.
            ratio = top * bottom if modulus else top // bottom
            total = factors[mode][:, kept] + ratio * factors[mode][:, term]
            total = (total + 1) % 3 - 1 if modulus == 3 else total % 2 if modulus else total
            if not ternary or abs(total).max() <= 1:
                factors[mode][:, kept] = total
                alive[term], alive[kept] = False, bool(total.any())
                return True
    return False
