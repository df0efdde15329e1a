"""Finds the convention of a foreign file: the one reading of its numbers in which it is an exact scheme.

Public sources disagree on C, C transposed and on the order within A and B, and square formats fit every convention.
So each factor is read row-major and column-major, and a reading counts only when every Brent equation holds. Wrong
readings are discarded by the trilinear form at random vectors modulo a prime (Schwartz 1980): a difference there
proves that a reading is wrong, and what is left is checked in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import gcd, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.formats.draft import Draft
from catalog.scheme import Factor, Format, Ring, Scheme
from catalog.verify import NotExactError, first_violation

# Per factor A, B, C: whether it is column-major.
Reading = tuple[bool, bool, bool]
MOST_PLAUSIBLE: Reading = (False, False, True)

# Products of two residues, summed over the 64*64 entries of a factor, stay exact in float64.
_PRIME = 1048573
# Random vectors: over F2 a wrong reading shows at one of them with probability 1/8 at least.
_SAMPLES = {0: 2, 2: 64, 3: 64}
_SPREAD = 1 << 62
_Pending = tuple[Ring, Reading, Scheme]


class NoExactReadingError(NotExactError):
    """No reading of a file is exact; ``scheme`` is the most plausible one and ``violation`` what it violates."""

    def __init__(self, kind: str, scheme: Scheme, said: str, rings: list[Ring]) -> None:
        violation = first_violation(scheme)
        if violation is None:
            raise AssertionError("an exact scheme was refused by a test that only discards wrong ones")
        super().__init__(scheme, violation)
        over = " and ".join(rings)
        self.args = (
            f"no reading of this file ({kind}) as a {scheme.format} scheme of rank {scheme.rank} is exact over {over}, "
            f"with A, B and C row-major or column-major; with {said}, over {scheme.ring}, {violation}",
        )


def read_draft(draft: Draft) -> tuple[Scheme, str]:
    """The exact scheme that a file means, over the narrowest ring, and its convention in words.

    Integers are tried over Z, fractions over Q. If no reading holds there and the coefficients look like residues
    (0 and 1 for F2, -1, 0, 1 or 0, 1, 2 for F3), they are tried over F2 and F3; a file with other numbers speaks of Z,
    and a wrong sign in it must not pass as a scheme over F2. Terms that are zero are dropped.

    Raises:
        NoExactReadingError: none of the readings is exact.
        ValueError: the numbers of entries fit no product, or more than one reading is exact.
    """
    format = format_of(draft)
    factors, denominators = _narrowed(draft)
    tries = _rings(draft, factors, denominators)
    for rings in tries:
        exact = [
            (ring, reading, scheme)
            for ring, reading, scheme in _survivors(format, factors, denominators, rings)
            if first_violation(scheme) is None
        ]
        if len(exact) > 1:
            named = " and ".join(f"{describe(reading)} over {ring}" for ring, reading, _ in exact)
            raise ValueError(f"more than one reading is exact: {named}; state which one is meant")
        if exact:
            return exact[0][2], describe(exact[0][1])
    scheme = _scheme(format, factors, denominators, tries[0][0], MOST_PLAUSIBLE)
    raise NoExactReadingError(draft.kind, scheme, describe(MOST_PLAUSIBLE), [ring for rings in tries for ring in rings])


def is_plausible(draft: Draft) -> bool:
    """Whether some reading passes the test at random vectors; False is a proof that none is exact."""
    format = format_of(draft)
    factors, denominators = _narrowed(draft)
    rings = [ring for some in _rings(draft, factors, denominators) for ring in some]
    return any(True for _ in _survivors(format, factors, denominators, rings))


def format_of(draft: Draft) -> Format:
    """The sizes that a draft states, or those that follow from its numbers of entries: mk, kn and mn.

    Raises:
        ValueError: they fit no product, or the factors have different numbers of terms.
    """
    entries = tuple(factor.shape[0] for factor in draft.factors)
    ranks = [factor.shape[1] for factor in draft.factors]
    if len(set(ranks)) > 1:
        raise ValueError(f"its factors have {', '.join(map(str, ranks))} terms; they must have the same number")
    a, b, c = entries
    if draft.sizes is not None:
        m, k, n = draft.sizes
    elif min(entries) < 1:
        raise ValueError("a factor has no entries")
    else:
        m, k, n = isqrt(a * c // b), isqrt(a * b // c), isqrt(b * c // a)
    if (m * k, k * n, m * n) != entries:
        stated = f" of the sizes {m}, {k}, {n} that it states" if draft.sizes else ""
        raise ValueError(f"its factors have {a}, {b} and {c} entries, which are not those of a matrix product{stated}")
    return Format(m, k, n).checked()


def describe(reading: Reading) -> str:
    """A convention in words."""
    if reading == MOST_PLAUSIBLE:
        return "C transposed"
    names = [name for name, column_major in zip("ABC", reading, strict=True) if column_major]
    if not names:
        return "C row-major"
    return f"{' and '.join([', '.join(names[:-1]), names[-1]] if names[:-1] else names)} column-major"


def _readings(format: Format) -> Iterator[Reading]:
    """The distinct readings: a factor with one row or one column is the same in both orders."""
    m, k, n = format
    for reading in product((False, True), repeat=3):
        if not any(flag and min(sizes) == 1 for flag, sizes in zip(reading, ((m, k), (k, n), (m, n)), strict=True)):
            yield reading  # type: ignore[misc]


def _survivors(
    format: Format, factors: tuple[Factor, Factor, Factor], denominators: tuple[int, ...], rings: list[Ring]
) -> Iterator[_Pending]:
    """Rings and readings that pass the test at random vectors."""
    m, k, n = format
    for ring in rings:
        modulus = ring.modulus or _PRIME
        rng = np.random.default_rng(modulus)
        shapes = ((m, k), (k, n), (m, n))
        points = [rng.integers(0, modulus, (_SAMPLES[ring.modulus], p * q)).astype(np.float64) for p, q in shapes]
        values = [x @ (factor % modulus) % modulus for x, factor in zip(points, factors, strict=True)]
        found = (values[0] * values[1] % modulus * values[2] % modulus).sum(axis=1) % modulus
        scale = 1
        for denominator in denominators:
            scale = scale * denominator % modulus
        for reading in _readings(format):
            x, y, z = (
                _matrices(point, shape, flag) for point, shape, flag in zip(points, shapes, reading, strict=True)
            )
            wanted = ((x @ y % modulus) * z).sum(axis=(1, 2)) % modulus * scale % modulus
            if np.array_equal(found, wanted):
                yield ring, reading, _scheme(format, factors, denominators, ring, reading)


def _matrices(points: NDArray[Any], shape: tuple[int, int], column_major: bool) -> NDArray[Any]:
    """Flat vectors [s, p*q] as matrices [s, p, q] in one of the two orders."""
    p, q = shape
    return points.reshape(-1, q, p).transpose(0, 2, 1) if column_major else points.reshape(-1, p, q)


def _scheme(
    format: Format,
    factors: tuple[Factor, Factor, Factor],
    denominators: tuple[int, ...],
    ring: Ring,
    reading: Reading,
) -> Scheme:
    """The scheme of a reading without terms that are zero in the ring."""
    m, k, n = format
    turned = []
    for factor, (p, q), column_major in zip(factors, ((m, k), (k, n), (m, n)), reading, strict=True):
        cube = factor.reshape(q, p, -1).transpose(1, 0, 2) if column_major else factor
        turned.append(cube.reshape(p * q, factor.shape[1]))
    residues = [factor % ring.modulus if ring.modulus else factor for factor in turned]
    kept = np.logical_and.reduce([factor.any(axis=0) for factor in residues])
    return Scheme(format, ring, *(factor[:, kept] for factor in turned), denominators=denominators)


def _rings(draft: Draft, factors: tuple[Factor, Factor, Factor], denominators: tuple[int, ...]) -> list[list[Ring]]:
    """The rings to try, those of one list together, and a later list only when no ring of an earlier one holds.

    Raises:
        ValueError: the draft has fractions and states a finite field.
    """
    integral = denominators == (1, 1, 1)
    if draft.ring in (Ring.F2, Ring.F3):
        if not integral:
            raise ValueError(f"it says that it holds over {draft.ring} and has fractions")
        return [[draft.ring]]
    if draft.ring is not None or not integral:
        return [[Ring.Z if integral else Ring.Q]]
    return [[Ring.Z], [ring for ring in (Ring.F2, Ring.F3) if _are_residues(factors, ring)]]


def _are_residues(factors: tuple[Factor, Factor, Factor], ring: Ring) -> bool:
    least = min(int(factor.min(initial=0)) for factor in factors)
    most = max(int(factor.max(initial=0)) for factor in factors)
    return least >= 0 and most < ring.modulus or (ring is Ring.F3 and least == -1 and most <= 1)


def _narrowed(draft: Draft) -> tuple[tuple[Factor, Factor, Factor], tuple[int, int, int]]:
    """Factors and denominators in lowest terms; integers where scaling within terms makes all of them integers."""
    reduced, denominators = [], []
    for factor, denominator in zip(draft.factors, draft.denominators, strict=True):
        common = gcd(denominator, int(np.gcd.reduce(factor, axis=None))) if denominator > 1 and factor.size else 1
        reduced.append(factor // common if common > 1 else factor)
        denominators.append(denominator // common)
    u, v, w = reduced
    du, dv, dw = denominators
    if (du, dv, dw) != (1, 1, 1):
        whole = _scaled_to_integers((u, v, w), du * dv * dw)
        if whole is not None:
            return whole, (1, 1, 1)
    return (u, v, w), (du, dv, dw)


def _scaled_to_integers(
    factors: tuple[Factor, Factor, Factor], denominator: int
) -> tuple[Factor, Factor, Factor] | None:
    """Factors of which U and V are primitive in every term and W takes the rest, if that is integral."""
    contents = [np.gcd.reduce(factor, axis=0) for factor in factors]
    u, v, w = (factor // np.maximum(content, 1) for factor, content in zip(factors, contents, strict=True))
    rest = []
    for triple, peak in zip(
        zip(*(c.tolist() for c in contents), strict=True), abs(w).max(axis=0).tolist(), strict=True
    ):
        scale = Fraction(triple[0] * triple[1] * triple[2], denominator)
        if scale.denominator != 1 or scale.numerator * peak >= _SPREAD:
            return None
        rest.append(scale.numerator)
    return u, v, w * np.array(rest, dtype=np.int64)
