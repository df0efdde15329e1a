"""Lifts from F3: exact, congruent to what was lifted, with halves where they are needed."""

import os
from fractions import Fraction
from math import lcm
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend, kron, reduce_mod
from catalog.verify import NotExactError, is_exact
from search.lifts.brent import Brent
from search.lifts.hensel import prepare
from search.lifts.lifting import lift
from search.walks.blocks import advance, begin, lowest
from search.walks.policies import Policy
from tests.fuzzing import examples

BASES = [
    classical(Format(1, 2, 3), Ring.F3),
    extend(strassen(Ring.F3), "n"),
    extend(extend(winograd(Ring.F3), "m"), "k"),
    concatenate(strassen(Ring.F3), winograd(Ring.F3), "k"),
    kron(winograd(Ring.F3), classical(Format(1, 1, 2), Ring.F3)),
]


def invertible(size: int, rng: np.random.Generator) -> np.ndarray:
    lower = np.tril(rng.integers(-1, 2, (size, size)), -1) + np.diag(rng.choice((-1, 1), size))
    upper = np.triu(rng.integers(-1, 2, (size, size)), 1) + np.eye(size, dtype=np.int64)
    return lower[rng.permutation(size)] @ upper


def turned(base: Scheme, seed: int) -> Scheme:
    """The scheme after random changes of bases over F3, each of which is one over Z as well."""
    rng = np.random.default_rng(seed)
    return sandwich(base, *(invertible(size, rng) for size in base.format))


def disguised(base: Scheme, seed: int) -> Scheme:
    """The same after flips too, which may use factors that are equal over F3 alone: it need not lift."""
    walk = begin(turned(base, seed), seed)
    advance(walk, 50, 0, Policy(1 << 40, 1, 1 << 40))
    return lowest(walk)


def same_tensor_terms(first: Scheme, second: Scheme) -> bool:
    """Whether the terms agree over F3 as products, whatever the signs of their factors."""
    one, two = (np.einsum("ar,br,cr->rabc", *scheme.factors) % 3 for scheme in (first, second))
    return np.array_equal(one, two)


@pytest.mark.parametrize("base", BASES, ids=str)
def test_lifts_are_exact_and_congruent(base):
    """Each of these schemes has a lift; the random orders of the unknowns may miss one of them, not more."""
    schemes = [turned(base, seed) for seed in range(6)]
    lifted = [lift(scheme, rational=True) for scheme in schemes]
    assert sum(found is not None for found in lifted) >= 5
    for scheme, found in zip(schemes, lifted, strict=True):
        if found is not None:
            assert found.ring in (Ring.Z, Ring.Q) and is_exact(found)
            assert same_tensor_terms(reduce_mod(found, Ring.F3), scheme)


@examples(12)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32))
def test_whatever_is_lifted_is_exact_and_congruent(base, seed):
    scheme = disguised(base, seed)
    found = lift(scheme, seed=seed, attempts=1, rational=True)
    if found is not None:
        assert is_exact(found) and same_tensor_terms(reduce_mod(found, Ring.F3), scheme)


@pytest.mark.parametrize("base", BASES, ids=str)
def test_ternary_schemes_come_back_as_they_were(base):
    lifted = lift(base)
    assert lifted is not None and lifted.is_ternary
    assert all(np.array_equal(one, two) for one, two in zip(lifted.factors, base.factors, strict=True))


@examples(10)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32))
def test_every_step_is_right_to_one_more_digit(base, seed):
    hensel = prepare(Brent.of(disguised(base, seed)), np.random.default_rng(seed))
    assert hensel is not None and hensel.lifts_once()
    point = hensel.brent.start
    for digits in range(1, 4):
        assert not (hensel.brent.residual(point) % 3**digits).any()
        step = hensel.correction(point, digits)
        if step is None:
            return
        point = point + step * 3**digits
    assert not (hensel.brent.residual(point) % 81).any()


@examples(10)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32))
def test_the_jacobian_is_the_derivative_modulo_3(base, seed):
    rng = np.random.default_rng(seed)
    brent = Brent.of(disguised(base, seed))
    order = rng.permutation(len(brent.start))
    value, sign = (
        np.unpackbits(plane.view(np.uint8), axis=1, bitorder="little")[:, : len(order)].astype(int)
        for plane in brent.jacobian(order)
    )
    assert not (sign & ~value).any()
    step = rng.integers(0, 3, len(order))
    change = brent.residual(brent.start) - brent.residual(brent.start + 3 * step)
    np.testing.assert_array_equal((value + sign)[:, np.argsort(order)] @ step % 3, change // 3 % 3)


def test_halves_of_a_known_scheme_are_found():
    """The scheme of rank 48 by Dumas, Pernet and Sedoglavic (2025) has no integral counterpart of that rank yet."""
    scheme = rational_4x4x4()
    reduced = reduce_mod(scheme, Ring.F3)
    assert is_exact(reduced) and reduced.rank == 48
    lifted = lift(reduced, rational=True)
    assert lifted is not None and is_exact(lifted) and lifted.rank == 48
    assert lifted.ring is Ring.Q and lifted.denominator % 2 == 0
    assert lift(reduced) is None


def rational_4x4x4() -> Scheme:
    data = os.environ.get("SUBCUBIC_TEST_DATA")
    path = Path(data or "") / "schemes" / "plinopt"
    if not data or not path.is_dir():
        pytest.skip("set SUBCUBIC_TEST_DATA to a folder with schemes/plinopt")
    u, v, w = (matrix(path / f"4x4x4_48_rational_{name}.sms") for name in "LRP")
    factors, denominators = zip(*(cleared(f) for f in (u.T, v.T, w)), strict=True)
    scheme = Scheme((4, 4, 4), Ring.Q, *factors, denominators=denominators)
    assert is_exact(scheme)
    return scheme


def matrix(path: Path) -> np.ndarray:
    """An SMS file: sizes, then lines of row, column and value, until a row 0."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    whole = np.full((int(lines[0][0]), int(lines[0][1])), Fraction(0), dtype=object)
    for row, column, value in lines[1:]:
        if row != "0":
            whole[int(row) - 1, int(column) - 1] = Fraction(value)
    return whole


def cleared(fractions: np.ndarray) -> tuple[np.ndarray, int]:
    common = lcm(*(e.denominator for e in fractions.ravel()))
    return (fractions * common).astype(np.int64), common


def test_what_is_not_exact_is_refused():
    good = strassen(Ring.F3)
    wrong = good.W.copy()
    wrong[2, 3] += 1
    with pytest.raises(NotExactError):
        lift(Scheme(good.format, Ring.F3, good.U, good.V, wrong))


def test_a_lift_stops_when_it_is_told_to():
    scheme = disguised(BASES[2], 5)
    assert lift(scheme, rational=True, should_stop=lambda: True) is None
