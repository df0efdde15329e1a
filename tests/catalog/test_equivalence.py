import itertools
import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catalog.canonical import digest
from catalog.equivalence import Sandwich, UndecidedError, equivalent
from catalog.field import Equations, primitive, quotient
from catalog.invariants import TURNS, Terms, invariant, matrix_ranks
from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import concatenate, orientations, reduce_mod, rotate, transpose
from catalog.verify import is_exact, require_exact
from tests.catalog.catalog_examples import RINGS, SMALL, exact_schemes, unimodular
from tests.fuzzing import examples

SHIPPED = Path(__file__).resolve().parents[2] / "catalog" / "starter"


def over_fractions(scheme: Scheme) -> Scheme:
    if scheme.ring.modulus:
        return scheme
    return Scheme(scheme.format, Ring.Q, *scheme.factors, denominators=scheme.denominators)


def is_certified(first: Scheme, second: Scheme) -> bool:
    """Whether the search finds a symmetry, and the image under it is the second scheme."""
    found = equivalent(first, second)
    return found is not None and digest(over_fractions(found.apply(first))) == digest(over_fractions(second))


def disguised(scheme: Scheme, seed: int) -> Scheme:
    """The same scheme with other roles, bases, order of terms and scales."""
    rng = np.random.default_rng(seed)
    turned = orientations(scheme)[rng.integers(6)]
    bases = [unimodular(size, seed + i) for i, size in enumerate(turned.format)]
    if scheme.ring is Ring.Q:
        bases[0] *= 2
        bases[1][0] *= 3
    moved = sandwich(turned, *bases)
    order = rng.permutation(scheme.rank)
    signs = 1 - 2 * rng.integers(2, size=(2, scheme.rank))
    u, v, w = (factor[:, order] for factor in moved.factors)
    factors = u * signs[0], v * signs[1], w * signs[0] * signs[1]
    return Scheme(moved.format, scheme.ring, *factors, denominators=moved.denominators)


@examples(SMALL)
@given(exact_schemes(), st.integers(0, 999))
def test_disguises_are_recognised_with_a_certificate(scheme, seed):
    other = disguised(scheme, seed)
    assert is_exact(other) and is_certified(scheme, other)
    assert invariant(scheme) == invariant(other)


@pytest.mark.parametrize("ring", RINGS)
def test_all_schemes_of_rank_seven_are_equivalent(ring):
    # De Groote 1978: there is one 2x2x2 scheme of rank 7 up to symmetry.
    assert digest(strassen(ring)) != digest(winograd(ring))
    assert is_certified(strassen(ring), winograd(ring))
    assert is_certified(winograd(ring), transpose(strassen(ring)))
    assert is_certified(strassen(ring), rotate(strassen(ring)))


@examples(SMALL)
@given(exact_schemes())
def test_turned_terms_are_the_terms_of_the_turned_scheme(scheme):
    terms = Terms.of(scheme)
    for turn, turned in zip(TURNS, orientations(scheme), strict=True):
        mine, theirs = terms.turned(*turn), Terms.of(turned)
        assert mine.sizes == theirs.sizes == tuple(turned.format)
        assert np.array_equal(mine.traces, theirs.traces)
        assert np.array_equal(mine.own, theirs.own) and np.array_equal(mine.joint, theirs.joint)
        assert mine.colours == theirs.colours


def glued(ring: Ring, same: bool) -> Scheme:
    """Two 2x2x2 schemes that share A, in the same bases of A or in others."""
    other = (
        winograd(ring) if same else sandwich(winograd(ring), [[1, 1], [0, 1]], [[1, 0], [1, 1]], np.eye(2, dtype=int))
    )
    return concatenate(winograd(ring), other, "n")


@pytest.mark.parametrize("ring", RINGS)
def test_schemes_with_other_invariants_are_not_equivalent(ring):
    first, second = glued(ring, True), glued(ring, False)
    assert first.rank == second.rank == 14 and is_exact(second)
    assert invariant(first) != invariant(second)
    assert equivalent(first, second) is None
    assert is_certified(second, disguised(second, 5))


def test_other_sizes_and_ranks_are_not_equivalent_and_other_characteristics_are_refused():
    assert equivalent(strassen(), classical(Format(2, 2, 2))) is None
    assert equivalent(strassen(), classical(Format(1, 7, 1))) is None
    with pytest.raises(ValueError, match="different characteristics"):
        equivalent(strassen(), strassen(Ring.F2))


def test_schemes_over_z_may_need_bases_over_q():
    # Over Z this is no sandwich: its bases have determinants 2 and 3.
    wide = sandwich(over_fractions(winograd()), [[2, 0], [0, 1]], [[1, 0], [0, 3]], [[1, 0], [0, 1]])
    found = equivalent(winograd(), wide)
    assert found is not None
    assert digest(over_fractions(found.apply(winograd()))) == digest(wide)
    stretch = Sandwich(0, False, np.diag([2, 1]), np.diag([1, 3]), np.eye(2, dtype=int), tuple(range(7)))
    assert stretch.apply(winograd()).ring is Ring.Q and is_exact(stretch.apply(winograd()))


def test_the_limit_leaves_the_question_open():
    cube = classical(Format(3, 3, 3))
    assert is_certified(cube, disguised(cube, 3))
    with pytest.raises(UndecidedError, match="among 2 partial bijections"):
        equivalent(cube, cube, limit=2)


def test_large_schemes_are_refused():
    huge = classical(Format(7, 7, 7))
    with pytest.raises(ValueError, match="more than 256 terms"):
        invariant(huge)


def test_large_coefficients_stay_exact():
    bases = [[1, 10**5], [0, 1]], [[1, 0], [10**5, 1]], [[1, 7], [0, 1]]
    assert is_certified(strassen(), sandwich(winograd(), *bases))


def linear_group(size: int) -> list[np.ndarray]:
    """All invertible matrices over F2."""
    every = (np.array(bits).reshape(size, size) for bits in itertools.product(range(2), repeat=size * size))
    return [matrix for matrix in every if matrix_ranks(matrix[None], 2)[0] == size]


def is_equivalent_by_trying_all(first: Scheme, second: Scheme) -> bool:
    """The answer over F2 from every role permutation and every change of basis."""

    def blocks(scheme: Scheme) -> list[np.ndarray]:
        m, k, n = scheme.format
        return [
            scheme.U.T.reshape(-1, m, k),
            scheme.V.T.reshape(-1, k, n),
            scheme.W.T.reshape(-1, m, n).transpose(0, 2, 1),
        ]

    wanted = {tuple(np.concatenate([f.ravel() for f in term]).tolist()) for term in zip(*blocks(second), strict=True)}
    for turned in orientations(first):
        if turned.format != second.format:
            continue
        u, v, w = blocks(turned)
        for p, q, r in itertools.product(*(linear_group(size) for size in turned.format)):
            ip, iq, ir = (np.rint(np.linalg.inv(x) * round(np.linalg.det(x))).astype(int) for x in (p, q, r))
            rank = turned.rank
            moved = [(p @ u @ iq % 2), (q @ v @ ir % 2), (r @ w @ ip % 2)]
            lines = np.concatenate([f.reshape(rank, -1) for f in moved], axis=1).tolist()
            if set(map(tuple, lines)) == wanted:
                return True
    return False


def test_the_decision_is_that_of_trying_the_whole_group():
    rows = Catalog(SHIPPED).rows(Format(2, 2, 3), Ring.F2)[:2]
    schemes = [Catalog(SHIPPED).get(row.id).scheme for row in rows]
    schemes.append(disguised(schemes[0], 8))
    answers = []
    for first, second in itertools.combinations(schemes, 2):
        if first.format == second.format or first.format.sorted == second.format.sorted:
            answers.append(is_equivalent_by_trying_all(first, second))
            assert (equivalent(first, second) is not None) == answers[-1]
    assert True in answers and False in answers


@pytest.mark.parametrize(("ring", "classes"), [(Ring.F2, 2), (Ring.Z, 4)])
def test_equal_invariants_do_not_decide(ring, classes):
    # Over Z four schemes 2x3x3:15 are equivalent, two others are so among themselves, and two are alone; three of
    # these classes have one invariant in common.
    shelf = Catalog(SHIPPED)
    schemes = [shelf.get(row.id).scheme for row in shelf.rows(Format(2, 3, 3), ring)[:8]]
    found: list[list[Scheme]] = []
    for scheme in schemes:
        fitting = [group for group in found if equivalent(group[0], scheme) is not None]
        assert len(fitting) <= 1 and all(equivalent(scheme, other) is not None for group in fitting for other in group)
        (fitting[0] if fitting else found).append(scheme if fitting else [scheme])
    assert len(found) == classes
    assert len({invariant(scheme) for scheme in schemes}) == 2


matrices = arrays(np.int64, st.tuples(st.just(4), st.integers(1, 4), st.integers(1, 4)), elements=st.integers(-2, 2))


@examples(40)
@given(matrices, st.sampled_from([0, 2, 3]), st.sampled_from([1, 10**12]))
def test_ranks_are_those_of_row_by_row_elimination(batch, modulus, scale):
    expected = []
    for matrix in (batch.astype(object) * scale).tolist():
        equations = Equations(batch.shape[2], modulus)
        count = 0
        for row in matrix:
            before = len(equations._rows)
            equations.add(dict(enumerate(row)))
            count += len(equations._rows) - before
        expected.append(count)
    assert matrix_ranks(batch * scale, modulus).tolist() == expected
    if not modulus and scale == 1:
        assert expected == np.linalg.matrix_rank(batch).tolist()


def test_equations_have_one_solution_up_to_scale_or_none():
    equations = Equations(3, 0)
    assert equations.add({0: 2, 1: -3}) and equations.only_solution() is None
    assert equations.add({1: Fraction(1, 2), 2: -1}) and equations.only_solution() == [3, 2, 1]
    assert not equations.add({0: 1}) and equations.only_solution() is None
    modulo = Equations(2, 3)
    modulo.add({0: 1, 1: 1})
    assert modulo.only_solution() == [2, 1]
    assert primitive([Fraction(1, 2), Fraction(-1, 3)]) == [3, -2] and quotient(1, 2, 3) == 2
    with pytest.raises(ZeroDivisionError):
        quotient(1, 3, 3)


def foreign(folder: str, name: str) -> Path:
    data = os.environ.get("SUBCUBIC_TEST_DATA")
    path = Path(data or "", "schemes", folder, name)
    if not data or not path.exists():
        pytest.skip(f"SUBCUBIC_TEST_DATA does not name a folder with schemes/{folder}/{name}")
    return path


def laderman() -> Scheme:
    text = foreign("mathematica", "Laderman-333-23-98.m").read_text()
    terms = np.array(json.loads(text.replace("{", "[").replace("}", "]")))  # [23, 3, 3, 3], C transposed
    a, b, c = (terms[:, mode].reshape(len(terms), 9).T for mode in (0, 1, 2))
    c = c.reshape(3, 3, -1).transpose(1, 0, 2).reshape(9, -1)
    return require_exact(Scheme(Format(3, 3, 3), Ring.Z, a, b, c))


def test_laderman_is_equivalent_to_its_disguises():
    scheme = laderman()
    for turned in orientations(scheme):
        assert is_certified(scheme, turned)
    assert is_certified(scheme, disguised(scheme, 11))
    assert is_certified(reduce_mod(scheme, Ring.F2), disguised(reduce_mod(scheme, Ring.F2), 12))


def test_laderman_is_not_alphatensors_scheme():
    with np.load(foreign("alphatensor", "factorizations_f2.npz"), allow_pickle=True) as archive:
        u, v, w = archive["3,3,3"]
    w = np.asarray(w).reshape(3, 3, -1).transpose(1, 0, 2).reshape(9, -1)
    theirs = require_exact(Scheme(Format(3, 3, 3), Ring.F2, u, v, w))
    ours = reduce_mod(laderman(), Ring.F2)
    assert (equivalent(ours, theirs) is not None) == (invariant(ours) == invariant(theirs))
    assert is_certified(theirs, disguised(theirs, 2))
