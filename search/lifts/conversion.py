"""From the ring in which a scheme was found to the one that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.scheme import Ring, Scheme
from catalog.transform import reduce_mod


def needs_lift(scheme: Scheme, ring: str) -> bool:
    """Whether only a lift leads from a scheme to the wanted ring; from Z every ring is reached at once."""
    return scheme.ring is not Ring.Z and ring != scheme.ring


def carry_over(scheme: Scheme, ring: str, symmetric: bool, give_up: Callable[[], bool]) -> Scheme | None:
    """A scheme over the wanted ring that is congruent to one that was found; None where there is none in reach.

    Args:
        scheme: over F2 or F3, which are lifted where another ring is wanted, or over Z.
        ring: "F2", "F3", "Z", "Q", or "ZT" for Z with coefficients in {-1, 0, 1}.
        symmetric: whether the scheme has the cyclic symmetry, which its lift keeps if it can.
        give_up: asked many times a second; when true the answer is mostly None.

    Raises:
        ValueError: the scheme is too large to be lifted.
    """
    if ring == scheme.ring or (scheme.ring is Ring.Z and ring in ("ZT", "Q")):
        return scheme
    over_z = scheme if scheme.ring is Ring.Z else _lifted(scheme, ring, symmetric, give_up)
    return over_z if over_z is None or ring != "F3" else reduce_mod(over_z, Ring.F3)


def _lifted(scheme: Scheme, ring: str, symmetric: bool, give_up: Callable[[], bool]) -> Scheme | None:
    from search.lifts.lifting import lift

    options: dict[str, Any] = {"rational": ring == "Q", "should_stop": give_up}

    def suits(lifted: Scheme | None) -> bool:
        return lifted is not None and (ring != "ZT" or lifted.is_ternary)

    lifted = lift(scheme, symmetric=True, **options) if symmetric else None
    if not suits(lifted) and not give_up():
        lifted = lift(scheme, keep_bases=False, **options)
    return lifted if suits(lifted) else None
