"""How walks move, and which of several ways a rung of the ladder should try next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Format, Ring

# Trials that say nothing any more are forgotten at this rate when the lowest rank falls: the next one may want others.
_FORGET = 2


@dataclass(frozen=True)
class Policy:
    """How a walk moves.

    Walks on orbits know neither splits nor full reductions and pass ``split`` and ``reduce`` over; those on orbits of
    the shift with transpose exchange at fixed steps of their own (see ``search.walks.walk_z3t``) and pass ``exchange``
    over as well. Walks on single products pass ``exchange`` over.

    Attributes:
        plus_interval: mean number of steps between plus transitions (M).
        margin: a plus needs a rank below the lowest one so far plus this margin.
        restart: steps without a new lowest rank after which a campaign starts the walk anew (R).
        split: share of plus transitions that are splits instead (see ``search.walks.rare_f2``).
        reduce: whether full reductions are looked for before each plus.
        exchange: share of plus transitions that exchange orbits and cubes instead, on orbits of the cyclic shift alone.
        then: how the walk goes on from the lowest scheme that it has met, before it starts anew; None when it does not.
    """

    plus_interval: int
    margin: int
    restart: int
    split: float = 0.0
    reduce: bool = True
    exchange: float = 0.0
    then: Policy | None = None


def portfolio(format: Format, ring: Ring, symmetric: bool = False) -> list[Policy]:
    """Settings worth trying: small formats want many plus transitions and a low ceiling, large ones fewer.

    Measured on walks over F2. At 4x4x4 walks that reach 47 are on their way there soon after the start, the others
    stay at 49; so long rests do not pay.
    """
    if symmetric:
        return _symmetric(format)
    if format.volume <= 40:
        settings = [(10_000, 1, 20), (3_000, 1, 10), (1_000, 1, 10), (30_000, 2, 20)]
    elif format.volume <= 64:
        settings = [(1_000, 1, 5), (3_000, 1, 10), (300, 1, 5), (10_000, 1, 20)]
    else:
        settings = [(10_000, 2, 20), (3_000, 1, 10), (30_000, 2, 50), (100_000, 2, 100)]
    if ring is Ring.F3:
        # A plus leads away from the sparse schemes, where equal factors are, and new walks do better than long ones.
        settings = [(1_000_000, 1, 5), (1_000_000, 2, 5)]
    # Splits in every other setting: over F2 they shorten the slow runs, over Z they cost time.
    splits = (0.0, 0.25 if ring is Ring.F2 else 0.0)
    return [
        Policy(interval, margin, millions * 1_000_000, split=splits[i % 2])
        for i, (interval, margin, millions) in enumerate(settings)
    ]


def _symmetric(format: Format) -> list[Policy]:
    """Few plus transitions while reductions come by themselves, many where a walk has got stuck at a low rank."""
    many = [Policy(interval, margin, 5_000_000) for interval, margin in ((1_000, 2), (5_000, 2), (1_000, 1), (500, 2))]
    if format.volume <= 64:
        return many
    # 5x5x5 gains within some 10 million steps or not at all, 6x6x6 still does after 100 million.
    first, second = (steps * max(1, format.volume**3 // 125**3) for steps in (12_000_000, 8_000_000))
    # On 5x5x5, of 45 walks each, exchanges with cubes brought 10 to 104 or below in place of 2.
    return [
        Policy(few, 1, first, exchange=exchange, then=replace(then, restart=second, exchange=exchange))
        for then in many
        for few, exchange in ((20_000, 0.0), (40_000, 0.1))
    ]


def choose(tally: NDArray[np.int64], rng: np.random.Generator) -> int:
    """Draw an option by Thompson sampling: the better it has done, the likelier, and the untried ones get their turn.

    Args:
        tally: [options, 2] successes and failures.
        rng: of the draw.
    """
    return int(np.argmax(rng.beta(1 + tally[:, 0], 1 + tally[:, 1])))


def forget(tally: NDArray[np.int64]) -> None:
    """Let old trials count less."""
    tally //= _FORGET
