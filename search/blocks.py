"""Walks as values: from a scheme to the flat arrays of a kernel and back, and blocks of steps on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Ring, Scheme
from search.counters import ACTIVE, BEST, COUNTERS, PLUS_LEFT, RANK

MASK_BITS = 64
# Rows beyond the rank of the start: a walk may climb by its margin, plus two where no flip is left.
_SPARE_ROWS = 8


@dataclass(frozen=True)
class Walk:
    """State of one walk; the arrays change in place. Letters and contents: see ``search.walk_f2``.

    Attributes:
        format: what the scheme multiplies.
        ring: F2, F3, or Z for ternary coefficients.
        value: [S + 3*H] uint64.
        sign: [S + 3*H] uint64, all zero over F2.
        links: [2 * (S + 3*H)] uint32.
        active: [S] uint32.
        place: [S] uint32.
        best: [2 * S] uint64, its second half all zero over F2.
        counters: [8] int64.
        rng: [1] uint64.
    """

    format: Format
    ring: Ring
    value: NDArray[np.uint64]
    sign: NDArray[np.uint64]
    links: NDArray[np.uint32]
    active: NDArray[np.uint32]
    place: NDArray[np.uint32]
    best: NDArray[np.uint64]
    counters: NDArray[np.int64]
    rng: NDArray[np.uint64]


ARRAYS = ("value", "sign", "links", "active", "place", "best", "counters", "rng")


@dataclass(frozen=True)
class Policy:
    """How a walk moves.

    Attributes:
        plus_interval: mean number of steps between plus transitions (M).
        margin: a plus needs a rank below the lowest one so far plus this margin.
        restart: steps without a new lowest rank after which a campaign starts the walk anew (R).
    """

    plus_interval: int
    margin: int
    restart: int


def require_walkable(format: Format) -> None:
    """Check that every factor fits in a machine word.

    Raises:
        ValueError: a matrix has more than 64 blocks.
    """
    for name, size in (("A", format.m * format.k), ("B", format.k * format.n), ("C", format.m * format.n)):
        if size > MASK_BITS:
            raise ValueError(
                f"format {format} has {size} blocks in {name}; flip-graph walks hold at most {MASK_BITS} in a matrix, "
                "compose larger formats from smaller schemes"
            )


def begin(scheme: Scheme, seed: int) -> Walk:
    """A walk that stands at a scheme.

    Args:
        scheme: over F2 or F3, or ternary over Z.
        seed: any integer; its lowest 64 bits count.

    Raises:
        ValueError: the ring, a coefficient or the format does not suit a walk.
    """
    require_walkable(scheme.format)
    if scheme.ring not in (Ring.F2, Ring.F3) and not scheme.is_ternary:
        raise ValueError(f"{scheme} is neither over F2 or F3 nor ternary over Z; reduce it to F2 or F3 first")
    rows = scheme.rank + _SPARE_ROWS
    slots, buckets = 4 * rows, 1 << (8 * rows - 1).bit_length()
    cells = slots + 3 * buckets
    value, sign = np.zeros(cells, np.uint64), np.zeros(cells, np.uint64)
    value[: 4 * scheme.rank], sign[: 4 * scheme.rank] = to_masks(scheme)
    counters = np.zeros(COUNTERS, np.int64)
    counters[[RANK, ACTIVE, BEST, PLUS_LEFT]] = scheme.rank, -1, scheme.rank, 1 << 62
    state = np.random.SeedSequence(seed % (1 << 64)).generate_state(1, np.uint64) | np.uint64(1)
    return Walk(
        format=scheme.format,
        ring=scheme.ring,
        value=value,
        sign=sign,
        links=np.zeros(2 * cells, np.uint32),
        active=np.zeros(slots, np.uint32),
        place=np.zeros(slots, np.uint32),
        best=np.concatenate([value[:slots], sign[:slots]]),
        counters=counters,
        rng=state,
    )


def advance(walk: Walk, steps: int, target: int, policy: Policy) -> None:
    """Walk on in place for at most ``steps`` steps, or until the rank is at most ``target``."""
    tail = (walk.links, walk.active, walk.place, walk.best, walk.counters, walk.rng)
    walk.counters[PLUS_LEFT] = min(walk.counters[PLUS_LEFT], 2 * policy.plus_interval)
    if walk.ring is Ring.F2:
        from search.walk_f2 import walk_f2

        walk_f2(walk.value, *tail, steps, target, policy.plus_interval, policy.margin)
    elif walk.ring is Ring.F3:
        from search.walk_f3 import walk_f3

        walk_f3(walk.value, walk.sign, *tail, steps, target, policy.plus_interval, policy.margin)
    else:
        from search.walk_zt import walk_zt

        walk_zt(walk.value, walk.sign, *tail, steps, target, policy.plus_interval, policy.margin)


def lowest(walk: Walk) -> Scheme:
    """The latest scheme of the lowest rank that the walk has met."""
    rank, slots = int(walk.counters[BEST]), len(walk.active)
    return to_scheme(walk.format, walk.ring, walk.best[: 4 * rank], walk.best[slots : slots + 4 * rank])


def to_masks(scheme: Scheme) -> NDArray[np.uint64]:
    """Masks of the non-zero and of the negative entries of a scheme, [2, 4 * r] uint64 as in ``to_scheme``."""
    masks = np.zeros((2, scheme.rank, 4), np.uint64)
    for mode, factor in enumerate(scheme.factors):
        weights = np.uint64(1) << np.arange(len(factor), dtype=np.uint64)
        masks[0, :, mode] = weights @ (factor != 0).astype(np.uint64)
        masks[1, :, mode] = weights @ (factor < 0).astype(np.uint64)
    return masks.reshape(2, -1)


def to_scheme(format: Format, ring: Ring, value: NDArray[np.uint64], sign: NDArray[np.uint64]) -> Scheme:
    """The scheme whose masks stand in the slots ``value`` and ``sign``, both [4 * r] uint64."""
    sizes = (format.m * format.k, format.k * format.n, format.m * format.n)
    factors = []
    for mode, size in enumerate(sizes):
        bits = np.arange(size, dtype=np.uint64)[:, None]
        ones, minus = ((masks[mode::4][None, :] >> bits & np.uint64(1)).astype(np.int64) for masks in (value, sign))
        factors.append(ones - 2 * minus)
    factors[2] = factors[2] * (1 - 2 * sign[3::4].astype(np.int64))
    return Scheme(format, ring, *factors)
