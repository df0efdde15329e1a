"""The cheapest member of a scheme's orbit for a fused kernel.

A change of bases and a permutation of roles turn a scheme into others of its rank (de Groote 1978), which differ in
what a kernel pays for beside the products: planes to be made, and publications. Strassen's scheme and Winograd's form
of it are such a pair: 5 + 5 planes and 10 publications against 4 + 4 and 7.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from catalog.canonical import digest
from catalog.scheme import Format, Scheme
from catalog.transform import orientations
from catalog.verify import require_exact
from codegen.orbit_moves import Factors, estimator, moved, moves
from codegen.plan import plan
from codegen.schedule import schedule

# Times that the annealing starts warm, and the coldest over the warmest temperature.
_ROUNDS = 3
_COLD = 0.02
# Coefficients may go so far beyond the limit on the way, at so much of the temperature each: few moves stay within it.
_BEYOND = 1
_TOLL = 0.1
# Candidates that are scheduled in full.
_KEPT = 3


@dataclass(frozen=True)
class Objective:
    """What planes and publications cost, in units of time that a matrix of the operand's size takes.

    A plane of A is 1 / (m k) of A and is written once; a publication concerns 1 / (m n) of C. Measured on Hopper at
    8192, a plane costs about twice as much as a publication of the same size. For operands that are not square, scale
    ``a`` by M K, ``b`` by K N and ``c`` by M N.

    Attributes:
        a: cost of planes of A as large as A together.
        b: the same for B; 0 if B is constant and its planes are made once.
        c: cost of publications as large as C together.
    """

    a: float = 2.0
    b: float = 2.0
    c: float = 1.0

    def __post_init__(self) -> None:
        if min(self.a, self.b, self.c) < 0:
            raise ValueError(f"costs must not be negative, as in {self}; give 0 to what is free")

    def cost(self, format: Format, planes_a: float, planes_b: float, publications: float) -> float:
        """Cost of a scheme with so many planes and publications."""
        m, k, n = format
        return self.a * planes_a / (m * k) + self.b * planes_b / (k * n) + self.c * publications / (m * n)


CONSTANT_B = Objective(b=0.0)


@dataclass(frozen=True)
class Cheapest:
    """A member of an orbit, and what its schedule needs.

    Attributes:
        scheme: the member, proved exact.
        planes_a: planes of A.
        planes_b: planes of B.
        publications: writes of the accumulator in one tile.
        slots: pending tiles at once.
        cost: by the objective.
    """

    scheme: Scheme
    planes_a: int
    planes_b: int
    publications: int
    slots: int
    cost: float


def cheapest(
    scheme: Scheme,
    objective: Objective = Objective(),  # noqa: B008 - frozen
    *,
    any_format: bool = False,
    steps: int = 6_000,
    seed: int = 0,
) -> Cheapest:
    """Search the orbit of a scheme by annealing over elementary changes of bases.

    Coefficients stay within those of the scheme, or within 1. The result depends on the arguments alone. A step takes
    about 0.1 ms; scheduling the few best candidates then takes longer, several seconds for rank 49.

    Args:
        scheme: over Z or Q.
        objective: what to make small.
        any_format: permute the roles freely, so that a 4x2x4 scheme may become a 4x4x2 one; otherwise only where the
            format stays.
        steps: changes of bases tried from each permutation of the roles.
        seed: of the random choices.

    Raises:
        ValueError: the ring is finite, or ``steps`` is negative.
        catalog.verify.NotExactError: the scheme violates a Brent equation.
    """
    if scheme.ring.modulus:
        raise ValueError(f"a scheme over {scheme.ring} gives wrong numbers on real matrices; lift it to Z first")
    if steps < 0:
        raise ValueError(f"steps must be at least 0, not {steps}")
    best = assess(scheme, objective)
    for turned in _turned(scheme, any_format):
        for candidate in _anneal(turned, objective, steps, random.Random(seed)):
            best = min(best, assess(candidate, objective), key=_rank)
    return best


def _turned(scheme: Scheme, any_format: bool) -> list[Scheme]:
    """The role permutations that may be used, each once."""
    allowed = [turned for turned in orientations(scheme) if any_format or turned.format == scheme.format]
    return list({digest(turned): turned for turned in allowed}.values())


def _anneal(scheme: Scheme, objective: Objective, steps: int, rng: random.Random) -> list[Scheme]:
    """The schemes of the lowest estimates met, the given one among them if it is one."""
    sizes = scheme.format
    shapes = ((sizes.m, sizes.k, -1), (sizes.k, sizes.n, -1), (sizes.m, sizes.n, -1))
    u, v, w = (np.array(factor).reshape(shape) for factor, shape in zip(scheme.factors, shapes, strict=True))
    now: Factors = (u, v, w)
    limit = max(1, *(int(np.abs(factor).max()) for factor in now))
    estimate = estimator(lambda a, b, c: objective.cost(sizes, a, b, c))
    # About as warm as a plane is dear, then colder by and by, several times over.
    warm = objective.cost(sizes, 1, 1, 1) / 4
    cost = estimate(now)
    lowest = {_key(now): (cost, now)}
    choices = moves(sizes)
    for step in range(steps if choices else 0):
        phase = step * _ROUNDS % steps / steps
        trial = moved(now, rng.choice(choices))
        above = sum(int((np.abs(factor) > limit).sum()) for factor in trial)
        if above and max(int(np.abs(factor).max()) for factor in trial) > limit + _BEYOND:
            continue
        price = estimate(trial) + above * _TOLL * warm
        if price <= cost or rng.random() < math.exp((cost - price) / (warm * _COLD**phase)):
            now, cost = trial, price
            if not above:
                lowest[_key(now)] = (cost, now)
            if len(lowest) > 4 * _KEPT:
                lowest = dict(sorted(lowest.items(), key=lambda item: item[1][0])[:_KEPT])
    kept = sorted(lowest.values(), key=lambda each: each[0])[:_KEPT]
    flat = [[factor.reshape(-1, scheme.rank) for factor in factors] for _, factors in kept]
    return [Scheme(sizes, scheme.ring, *three, denominators=scheme.denominators) for three in flat]


def _key(factors: Factors) -> tuple[tuple[int, ...], ...]:
    """The terms' numbers of non-zeros: equal for schemes that differ by permutations of rows and columns."""
    counts = [(factor != 0).sum(axis=(0, 1)).tolist() for factor in factors]
    return tuple(sorted(zip(*counts, strict=True)))


def assess(scheme: Scheme, objective: Objective = Objective()) -> Cheapest:  # noqa: B008 - frozen
    """What the schedule of one scheme needs.

    Raises:
        ValueError: the ring is finite.
        catalog.verify.NotExactError: the scheme violates a Brent equation.
    """
    made = schedule(plan(require_exact(scheme)))
    planes = len(made.planes_a), len(made.planes_b)
    cost = objective.cost(scheme.format, *planes, made.publications)
    return Cheapest(scheme, *planes, made.publications, made.slots, cost)


def _rank(found: Cheapest) -> tuple[float, int, int]:
    """Cost first, then pending tiles, then the terms of all planes and sums, of which each may round."""
    return found.cost, found.slots, sum(int((factor != 0).sum()) for factor in found.scheme.factors)
