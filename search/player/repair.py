"""Flips as a repair step: a short walk in the flip graph from the end of a game."""

from __future__ import annotations

from catalog.scheme import Ring, Scheme
from search.walks.blocks import advance, begin, lowest
from search.walks.policies import Policy

# Mean steps between plus transitions, and the rank above the lowest below which they happen.
_PLUS, _MARGIN = 5000, 2


def repaired(scheme: Scheme, steps: int, seed: int) -> Scheme:
    """The best scheme that a walk of so many steps meets; the scheme itself where it cannot walk.

    Args:
        scheme: over F2 or Z; the walk over Z knows ternary schemes alone.
        steps: of the walk.
        seed: of its choices.
    """
    if scheme.ring is Ring.Z and not scheme.is_ternary:
        return scheme
    walk = begin(scheme, seed)
    advance(walk, steps, 0, Policy(_PLUS, _MARGIN, steps))
    best = lowest(walk)
    return best if best.rank < scheme.rank else scheme
