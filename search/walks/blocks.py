"""Walks as values: from a scheme to the flat arrays of a kernel and back, and blocks of steps on them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from search.walks.counters import ACTIVE, BEST, COUNTERS, PLUS_LEFT, RANK
from search.walks.orbits import Group, expand, rows_of
from search.walks.policies import Policy

MASK_BITS = 64
# Rows beyond the rank of the start: a walk may climb by its margin, plus two where no flip is left.
_SPARE_ROWS = 8
# Cubes beyond those of the start, which orbits of three equal factors become.
_SPARE_CUBES = 16


@dataclass(frozen=True)
class Walk:
    """State of one walk; the arrays change in place. Letters and contents: see ``search.walks.walk_f2``.

    A symmetric walk (see ``search.walks.walk_symmetric`` and ``search.walks.walk_z3t``) has one row for an orbit of the
    shift, one table instead of three, and its K cubes in place of the signs: ``value`` [S + H], ``sign`` [K], ``best``
    [S + K].

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
        fixed: [8 * f] uint64. Values and then signs of the terms that stand still, as in ``to_masks``: a walk among
            the others is a walk on their partial sum, and the kernels do not care which tensor that is.
        symmetry: the group on whose orbits it walks, None for single products.
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
    fixed: NDArray[np.uint64]
    symmetry: Group | None = None

    @property
    def standing(self) -> int:
        """How many terms stand still; the kernels do not count them."""
        return len(self.fixed) // 8

    @property
    def rank(self) -> int:
        """Rank of the whole scheme now."""
        return int(self.counters[RANK]) + self.standing

    @property
    def lowest_rank(self) -> int:
        """Lowest rank of the whole scheme so far."""
        return int(self.counters[BEST]) + self.standing

    def rows(self, rank: int, signs: NDArray[np.uint64]) -> int:
        """Rows of a scheme with ``rank`` products; of a symmetric one the cubes among ``signs`` take none."""
        return (rank - int(np.count_nonzero(signs))) // 3 if self.symmetry else rank

    @property
    def is_sound(self) -> bool:
        """Whether lengths and indices fit: the kernels follow them without looking."""
        slots, cells = len(self.active), len(self.value)
        signs = len(self.sign) if self.symmetry else cells
        kept = self.best[slots:]
        lengths = (len(self.sign), len(self.links), len(self.place), len(kept), len(self.counters))
        if lengths != (signs, 2 * cells, slots, signs if self.symmetry else slots, COUNTERS) or not cells > slots > 0:
            return False
        if len(self.fixed) % 8 or (self.symmetry and len(self.fixed)):
            return False
        rank, lowest, active = (int(self.counters[name]) for name in (RANK, BEST, ACTIVE))
        rows = self.rows(rank, self.sign)
        return (
            0 <= 4 * rows <= slots
            and 0 <= 4 * self.rows(lowest, kept) <= slots
            and (self.symmetry in (None, "Z3") or self._is_paired(rows))
            and active <= slots
            and int(self.links.max()) < cells
            and int(self.active[: max(active, 0)].max(initial=0)) < slots
        )

    def _is_paired(self, rows: int) -> bool:
        """Whether the rows name each other as transposes."""
        pairs = self.value[3 : 4 * rows : 4]
        own = np.arange(rows, dtype=np.uint64) * np.uint64(4)
        inside = bool(np.all((pairs % 4 == 0) & (pairs < 4 * rows)))
        return inside and np.array_equal(pairs[(pairs // np.uint64(4)).astype(np.int64)], own)


ARRAYS = ("value", "sign", "links", "active", "place", "best", "counters", "rng", "fixed")


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


def begin(scheme: Scheme, seed: int, *, symmetry: Group | None = None, free: NDArray[np.int64] | None = None) -> Walk:
    """A walk that stands at a scheme.

    Args:
        scheme: over F2 or F3, or ternary over Z.
        seed: any integer; its lowest 64 bits count.
        free: indices of the terms that move, None for all; not together with ``symmetry``.
        symmetry: walk on orbits of this group, over F2.

    Raises:
        ValueError: the ring, a coefficient, the format or the lack of symmetry does not suit a walk.
    """
    require_walkable(scheme.format)
    if scheme.ring not in (Ring.F2, Ring.F3) and not scheme.is_ternary:
        raise ValueError(f"{scheme} is neither over F2 or F3 nor ternary over Z; reduce it to F2 or F3 first")
    fixed = np.zeros(0, np.uint64)
    if symmetry:
        if free is not None:
            raise ValueError("a symmetric walk moves all orbits; leave out free or symmetry")
        orbits, cubes = rows_of(scheme, symmetry)
        rank, filled = 3 * len(orbits) + len(cubes), orbits.ravel()
        slots = len(filled) + 4 * _SPARE_ROWS
        cells = slots + (1 << (4 * slots - 1).bit_length())
        sign = _padded(cubes, len(cubes) + _SPARE_CUBES)
    else:
        masks = to_masks(scheme).reshape(2, -1, 4)
        moving = np.full(scheme.rank, free is None)
        moving[[] if free is None else free] = True
        fixed = masks[:, ~moving].ravel()
        rank, (filled, signs) = int(moving.sum()), masks[:, moving].reshape(2, -1)
        slots = len(filled) + 4 * _SPARE_ROWS
        cells = slots + 3 * (1 << (2 * slots - 1).bit_length())
        sign = _padded(signs, cells)
    value = _padded(filled, cells)
    counters = np.zeros(COUNTERS, np.int64)
    counters[[RANK, ACTIVE, BEST, PLUS_LEFT]] = rank, -1, rank, 1 << 62
    state = np.random.SeedSequence(seed % (1 << 64)).generate_state(1, np.uint64) | np.uint64(1)
    return Walk(
        format=scheme.format,
        ring=scheme.ring,
        value=value,
        sign=sign,
        links=np.zeros(2 * cells, np.uint32),
        active=np.zeros(slots, np.uint32),
        place=np.zeros(slots, np.uint32),
        best=np.concatenate([value[:slots], sign if symmetry else sign[:slots]]),
        counters=counters,
        rng=state,
        fixed=fixed,
        symmetry=symmetry,
    )


def _padded(masks: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    return np.concatenate([masks, np.zeros(length - len(masks), np.uint64)])


def advance(walk: Walk, steps: int, target: int, policy: Policy) -> None:
    """Walk on in place for at most ``steps`` steps, or until the rank of the whole scheme is at most ``target``."""
    target -= walk.standing
    tail = (walk.links, walk.active, walk.place, walk.best, walk.counters, walk.rng)
    walk.counters[PLUS_LEFT] = min(walk.counters[PLUS_LEFT], 2 * policy.plus_interval)
    moves = policy.plus_interval, policy.margin, round(256 * policy.split), int(policy.reduce)
    if walk.symmetry:
        links, active, place, best, counters, rng = tail
        orbits, cubes = best[: len(active)], best[len(active) :]
        state = walk.value, walk.sign, links, active, place, orbits, cubes, counters, rng
        if walk.symmetry == "Z3":
            from search.walks.walk_symmetric import walk_symmetric

            exchange = round(256 * policy.exchange)
            walk_symmetric(*state, steps, target, policy.plus_interval, policy.margin, exchange)
        else:
            from search.walks.walk_z3t import walk_z3t

            walk_z3t(*state, steps, target, policy.plus_interval, policy.margin)
    elif walk.ring is Ring.F2:
        from search.walks.walk_f2 import walk_f2

        walk_f2(walk.value, *tail, steps, target, *moves)
    elif walk.ring is Ring.F3:
        from search.walks.walk_f3 import walk_f3

        walk_f3(walk.value, walk.sign, *tail, steps, target, *moves)
    else:
        from search.walks.walk_zt import walk_zt

        walk_zt(walk.value, walk.sign, *tail, steps, target, *moves)


def compile_kernel(ring: Ring, symmetry: Group | None = None) -> float:
    """Compile the kernel of a ring, or load it from its cache; the seconds that took."""
    begun = time.perf_counter()
    advance(begin(classical(Format(1, 1, 1), ring), 0, symmetry=symmetry), 1, 0, Policy(1, 1, 1))
    return time.perf_counter() - begun


def lowest(walk: Walk) -> Scheme:
    """The latest scheme of the lowest rank that the walk has met."""
    rank, slots = int(walk.counters[BEST]), len(walk.active)
    if walk.symmetry:
        cubes = walk.best[slots:]
        orbits = walk.best[: 4 * walk.rows(rank, cubes)].reshape(-1, 4)[:, :3]
        return expand(walk.format.n, orbits, cubes[cubes != 0])
    still = walk.fixed.reshape(2, -1)
    value = np.concatenate([walk.best[: 4 * rank], still[0]])
    sign = np.concatenate([walk.best[slots : slots + 4 * rank], still[1]])
    return to_scheme(walk.format, walk.ring, value, sign)


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
