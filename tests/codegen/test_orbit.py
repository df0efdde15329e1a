"""Members of an orbit: the moves are sandwiches, the estimates are bounds, and the search finds Winograd's form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.measures import planes as planes_of
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend, orientations
from catalog.verify import NotExactError, first_violation
from codegen.orbit import CONSTANT_B, Objective, assess, cheapest
from codegen.orbit_moves import Factors, moved, moves, planes, publications
from tests.codegen.schemes import rational, rectangular
from tests.fuzzing import examples


def shaped(scheme: Scheme) -> Factors:
    m, k, n = scheme.format
    return scheme.U.reshape(m, k, -1), scheme.V.reshape(k, n, -1), scheme.W.reshape(m, n, -1)


@given(st.sampled_from(moves(Format(2, 3, 4))))
@examples(20)
def test_a_move_is_a_sandwich(move):
    scheme = rectangular()
    axis, i, j, c = move
    bases = [np.eye(size, dtype=int) for size in scheme.format]
    bases[axis][i, j] = c
    for ours, theirs in zip(moved(shaped(scheme), move), shaped(sandwich(scheme, *bases)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("scheme", [strassen(), winograd(), rectangular(), *orientations(rectangular())[1:3]])
def test_estimates_are_planes_and_a_bound_of_publications(scheme):
    U, V, W = shaped(scheme)
    made = assess(scheme)
    assert (planes(U), planes(V)) == planes_of(scheme)
    assert (made.planes_a, made.planes_b) >= planes_of(scheme)
    assert publications(W) <= made.publications


@pytest.mark.parametrize("turned", range(6))
def test_strassens_scheme_becomes_winograds_form(turned):
    scheme = orientations(strassen())[turned]
    found = cheapest(scheme, steps=600)
    assert (found.planes_a, found.planes_b, found.publications, found.slots) == (4, 4, 7, 2)
    assert first_violation(found.scheme) is None and found.scheme.is_ternary
    assert found.cost == pytest.approx(2 * 4 / 4 + 2 * 4 / 4 + 7 / 4)
    assert assess(scheme).cost == pytest.approx(2 * 5 / 4 + 2 * 5 / 4 + 10 / 4)


def disguised() -> Scheme:
    """A 2x3x2 scheme of rank 11, Winograd's form and a standard slice, in bases that hide how cheap it is."""
    x, y, z = [[1, 1], [0, 1]], [[1, 0, 1], [0, 1, 0], [0, 1, 1]], [[1, 0], [1, 1]]
    return sandwich(extend(winograd(), "k"), x, y, z)


def test_the_search_is_deterministic_and_undoes_a_change_of_bases():
    scheme = disguised()
    before, found = assess(scheme), cheapest(scheme, steps=1_500)
    assert found.cost < before.cost
    assert found.cost <= assess(extend(winograd(), "k")).cost
    assert found.scheme.format == scheme.format and first_violation(found.scheme) is None
    again = cheapest(scheme, steps=1_500)
    for ours, theirs in zip(found.scheme.factors, again.scheme.factors, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_objective_decides_what_is_made_small():
    scheme = disguised()
    only_a = cheapest(scheme, Objective(1.0, 0.0, 0.0), steps=1_500)
    only_b = cheapest(scheme, Objective(0.0, 1.0, 0.0), steps=1_500)
    assert only_a.planes_a <= only_b.planes_a and only_b.planes_b <= only_a.planes_b
    assert cheapest(scheme, steps=0).cost <= assess(scheme).cost


def test_a_constant_b_turns_the_roles_until_a_is_cheap():
    # 2x4x2: C has only 4 blocks, so that a publication is a quarter of it; the other permutations have 8 of them.
    scheme = concatenate(winograd(), winograd(), "k")
    kept, turned = cheapest(scheme, CONSTANT_B, steps=200), cheapest(scheme, CONSTANT_B, any_format=True, steps=200)
    assert kept.scheme.format == Format(2, 4, 2) and turned.scheme.format != Format(2, 4, 2)
    assert turned.scheme.format.sorted == Format(2, 2, 4)
    assert turned.cost < kept.cost and first_violation(turned.scheme) is None
    # Planes of B are free: the sum of the two others alone is the cost.
    m, k, n = turned.scheme.format
    assert turned.cost == pytest.approx(2 * turned.planes_a / (m * k) + turned.publications / (m * n))


def test_schemes_with_denominators_and_of_one_block():
    found = cheapest(rational(), steps=200)
    assert first_violation(found.scheme) is None and found.cost <= assess(rational()).cost
    one = cheapest(classical(Format(1, 1, 1)), steps=10)
    assert (one.planes_a, one.planes_b, one.publications, one.slots) == (0, 0, 1, 0)


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="lift it to Z first"):
        cheapest(strassen(Ring.F2))
    with pytest.raises(ValueError, match="at least 0, not -1"):
        cheapest(strassen(), steps=-1)
    with pytest.raises(ValueError, match="must not be negative"):
        Objective(a=-1.0)
    wrong = np.array(strassen().U)
    wrong[0, 0] += 1
    with pytest.raises(NotExactError):
        cheapest(Scheme(Format(2, 2, 2), Ring.Z, wrong, strassen().V, strassen().W))
