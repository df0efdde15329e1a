import itertools
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring
from catalog.transform import extend, kron
from catalog.verify import is_exact
from search.lifts.brent import Brent
from search.lifts.lifting import lift
from search.lifts.signs import Signs, signs_mod4
from tests.search.lifts.test_lifting import invertible

SMALL = [strassen(Ring.F2), winograd(Ring.F2), classical(Format(1, 2, 3), Ring.F2), extend(strassen(Ring.F2), "k")]


def points(signs: Signs) -> Iterator[np.ndarray]:
    """One solution modulo 4, and those that differ from it in one free sign."""
    for change in [np.zeros_like(signs.solution), *signs.basis]:
        point = signs.brent.start.copy()
        point[signs.support] = np.where(signs.solution ^ change, -1, 1)
        yield point


@pytest.mark.parametrize("scheme", SMALL)
def test_every_free_sign_leads_to_a_solution_modulo_4(scheme):
    brent = Brent.of(scheme)
    signs = signs_mod4(brent, np.random.default_rng(0))
    assert signs is not None and len(signs.basis)
    for point in points(signs):
        assert not (brent.residual(point) % 4).any()


def test_the_solutions_modulo_4_are_all_of_them():
    brent = Brent.of(classical(Format(1, 2, 1), Ring.F2))
    signs = signs_mod4(brent, np.random.default_rng(0))
    assert signs is not None
    count = 0
    for choice in itertools.product((1, -1), repeat=len(signs.support)):
        point = brent.start.copy()
        point[signs.support] = choice
        count += not (brent.residual(point) % 4).any()
    assert count == 2 ** len(signs.basis)


@pytest.mark.parametrize("scheme", [*SMALL, kron(strassen(Ring.F2), winograd(Ring.F2))])
def test_descents_end_at_exact_ternary_schemes(scheme):
    rng = np.random.default_rng(1)
    signs = signs_mod4(Brent.of(scheme), rng)
    assert signs is not None
    found = list(signs.descents(rng, 6))
    assert found
    for lifted in found:
        assert lifted.is_ternary and is_exact(lifted)
        assert all(np.array_equal(f & 1, g) for f, g in zip(lifted.factors, scheme.factors, strict=True))


def test_signs_of_a_large_scheme_are_found_in_a_few_descents():
    """Strassen's scheme to the third power: random walks among its signs modulo 4 get nowhere."""
    scheme = reduce(kron, [strassen(Ring.F2)] * 3)
    lifted = lift(scheme, attempts=1)
    assert lifted is not None and lifted.is_ternary and is_exact(lifted) and lifted.rank == 343
    assert all(np.array_equal(f & 1, g) for f, g in zip(lifted.factors, scheme.factors, strict=True))


def test_a_scheme_without_ternary_lift_has_no_signs():
    rng = np.random.default_rng(4)
    base = kron(strassen(Ring.F2), classical(Format(1, 1, 2), Ring.F2))
    scheme = sandwich(base, *(invertible(size, rng) for size in base.format))
    assert signs_mod4(Brent.of(scheme), rng) is None
    lifted = lift(scheme)
    assert lifted is not None and not lifted.is_ternary


def test_a_descent_stops_when_told_to():
    rng = np.random.default_rng(0)
    brent = Brent.of(strassen(Ring.F2))
    assert signs_mod4(brent, rng, lambda: True) is None
    signs = signs_mod4(brent, rng)
    assert signs is not None
    assert not list(signs.descents(rng, 2, lambda: True))
    assert len(list(signs.descents(rng, 2))) == 2
