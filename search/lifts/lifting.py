"""Lifting of a scheme over F2 or F3 to the integers, ternary ones wherever there are any, or to the rationals.

From F3 there is Hensel lifting alone (``search.lifts.hensel``): its residues are signed, so that a ternary lift is
often the scheme itself, and coefficients may be halves. From F2 three ways are tried in turn, the cheap ones first:
signs for the scheme itself (``search.lifts.signs``); signs for a sparse scheme that differs by a change of bases
(``search.lifts.bases``), carried back; and Hensel lifting, where coefficients may grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from catalog.scheme import Ring, Scheme
from catalog.verify import require_exact
from search.lifts.bases import carry_back, representatives
from search.lifts.brent import Brent
from search.lifts.hensel import prepare
from search.lifts.orbit_brent import OrbitBrent
from search.lifts.signs import Signs, signs_mod4

# Descents among signs, and climbs of Hensel lifting from different signs, for each attempt from F2.
_DESCENTS = 12
_CLIMBS = 8
# Other bases for each attempt, unless the bases are kept and Hensel lifting is cheap.
_BASES = 8
# Bytes of a Jacobian that is eliminated in a second or two.
_SMALL = 32 << 20
# Ternary schemes that are carried back, each with other signs.
_CARRIED = 8
# Orders of the unknowns for each attempt from F3, as long as none has led to a lift.
_ORDERS = 4


def lift(
    scheme: Scheme,
    *,
    seed: int = 0,
    attempts: int = 6,
    max_bits: int = 20,
    rational: bool = False,
    keep_bases: bool = True,
    symmetric: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> Scheme | None:
    """Find a scheme over Z that is congruent to ``scheme`` modulo 2 or 3.

    The first ternary result ends the search; else the one with the smallest coefficients is kept.

    Args:
        scheme: an exact scheme over F2 or F3.
        seed: of all random choices.
        attempts: scales how many bases and orders of the unknowns are tried, at least 1.
        max_bits: coefficients of a Hensel lift are known modulo 2**max_bits or a smaller power of 3; 2..60.
        rational: return a scheme over Q when nothing integral was found; its denominators are odd for F2, and not
            divisible by 3 for F3.
        keep_bases: False to take also a ternary scheme that is congruent to ``scheme`` only after a change of bases.
            Nearly every scheme that lifts has one, few are ternary in the bases in which they were found.
        symmetric: keep the cyclic symmetry of a scheme that has it (see ``search.lifts.orbit_brent``): a third of the
            work, and the lift has it too. Other bases are not tried.
        should_stop: asked many times a second; when true the answer is what was found by then, mostly None.

    Returns:
        An exact scheme over Z (or Q, see ``rational``), or None.

    Raises:
        ValueError: the scheme is not over F2 or F3, not exact there or not as symmetric as asked, a number lies
            outside its range, or Hensel lifting is needed and would take more than 3 GiB.
    """
    if not scheme.ring.modulus:
        raise ValueError(
            f"only schemes over F2 and F3 can be lifted, not one over {scheme.ring}; reduce it modulo 2 or 3 first"
        )
    if attempts < 1 or not 2 <= max_bits <= 60:
        raise ValueError(f"{attempts=} must be at least 1 and {max_bits=} must lie in 2..60")
    require_exact(scheme)
    rng = np.random.default_rng(seed)
    if scheme.ring is Ring.F3:
        if symmetric:
            raise ValueError("lifts that keep the cyclic symmetry need a scheme over F2; leave symmetric out for F3")
        return _lift3(Brent.of(scheme), rng, attempts, max_bits, rational, should_stop)
    brent = OrbitBrent.of(scheme) if symmetric else Brent.of(scheme)
    return _lift2(scheme, brent, rng, attempts, max_bits, rational, keep_bases, symmetric, should_stop)


def _lift2(
    scheme: Scheme,
    brent: Brent,
    rng: np.random.Generator,
    attempts: int,
    max_bits: int,
    rational: bool,
    keep_bases: bool,
    symmetric: bool,
    should_stop: Callable[[], bool],
) -> Scheme | None:
    """The three ways from F2, the cheap ones first; eliminating a large Jacobian is the last resort."""
    small, hensel = brent.jacobian_bytes <= _SMALL, None
    signs = signs_mod4(brent, rng, should_stop)
    found = list(islice(_ternary(signs, rng, should_stop), 1))
    if not found and small:
        hensel = prepare(brent, rng, should_stop)
        if hensel is None or not hensel.lifts_once():
            return None  # told to stop, or no choice of free unknowns can repair the step to modulus 4
    # Without signs modulo 4 in these bases nothing can be better than a 2.
    goal = 1 if signs or not keep_bases else 2
    if not _good(found, goal) and not symmetric:
        tries = attempts if keep_bases and small else _BASES * attempts
        for sparse, steps in representatives(scheme, rng, tries):
            if _good(found, goal) or should_stop():
                break
            lifted = islice(_ternary(signs_mod4(Brent.of(sparse), rng, should_stop), rng, should_stop), _CARRIED)
            found += (carry_back(ternary, steps) for ternary in lifted) if keep_bases else islice(lifted, 1)
    for attempt in range(attempts):
        if _good(found, 2) or (_integral(found) and (attempt or not small)) or should_stop():
            break
        if hensel is None or attempt:
            hensel = prepare(brent, rng, should_stop)
        if hensel is None or not hensel.lifts_once():
            break
        for _ in range(_CLIMBS):
            if _good(found, 2) or should_stop():
                break
            lift = hensel.climb(rng, max_bits, should_stop)
            found += [lift] if lift is not None else []
    allowed = found if rational else _integral(found)
    return min(allowed, key=_size, default=None)


def _lift3(
    brent: Brent,
    rng: np.random.Generator,
    attempts: int,
    max_bits: int,
    rational: bool,
    should_stop: Callable[[], bool],
) -> Scheme | None:
    """Hensel lifting from F3, once for each of several orders of the unknowns."""
    found: list[Scheme] = []
    for order in range(_ORDERS * attempts):
        if order >= attempts and found:
            break
        hensel = prepare(brent, rng, should_stop)
        if hensel is None or not hensel.lifts_once():
            break  # told to stop, or no choice of free unknowns can repair the step to modulus 9
        lifted = hensel.climb(rng, max_bits, should_stop)
        if lifted is not None and (rational or lifted.ring is Ring.Z):
            found.append(lifted)
        if _good(found, 1) or should_stop():
            break
    return min(found, key=_size, default=None)


def _ternary(signs: Signs | None, rng: np.random.Generator, should_stop: Callable[[], bool]) -> Iterator[Scheme]:
    """The ternary schemes of a few descents."""
    return iter(()) if signs is None else signs.descents(rng, _DESCENTS, should_stop)


def _integral(schemes: list[Scheme]) -> list[Scheme]:
    return [scheme for scheme in schemes if scheme.ring is Ring.Z]


def _good(schemes: list[Scheme], peak: int) -> bool:
    """Whether one is over Z with coefficients of at most ``peak``."""
    return any(_size(scheme)[:2] <= (False, peak) for scheme in schemes)


def _size(scheme: Scheme) -> tuple[bool, int, int]:
    """What decides between lifts: over Z first, then the largest coefficient, then their sum."""
    magnitudes = [np.abs(factor) for factor in scheme.factors]
    largest = max(int(factor.max(initial=0)) for factor in magnitudes)
    return scheme.ring is not Ring.Z, largest, sum(int(factor.sum()) for factor in magnitudes)


def liftable(scheme: Scheme, *, symmetric: bool = False, should_stop: Callable[[], bool] = lambda: False) -> bool:
    """Whether the first step of lifting, to modulus 4, has a solution; where it has none there is no lift to Z.

    A scheme that is too large for a test of a second or two passes it, and so does one whose test was stopped.

    Args:
        scheme: an exact scheme over F2.
        symmetric: the scheme has the cyclic symmetry. The answer is the same in a fraction of the time (see
            ``search.lifts.orbit_brent``).
        should_stop: asked many times a second.

    Raises:
        ValueError: the scheme is not as symmetric as said.
    """
    brent = OrbitBrent.of(scheme) if symmetric else Brent.of(scheme)
    if brent.jacobian_bytes > _SMALL:
        return True
    hensel = prepare(brent, np.random.default_rng(0), should_stop)
    return hensel is None or hensel.lifts_once()
