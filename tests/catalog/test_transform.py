import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import (
    concatenate,
    drop_zero_terms,
    extend,
    kron,
    orient,
    orientations,
    project,
    reduce_mod,
    rotate,
    transpose,
)
from catalog.verify import is_exact
from tests.catalog.catalog_examples import RINGS, SMALL, exact_schemes, same, unimodular
from tests.fuzzing import examples

axes = st.sampled_from("mkn")


@examples(SMALL)
@given(exact_schemes())
def test_role_permutations_are_exact_and_form_the_group_of_order_six(scheme):
    m, k, n = scheme.format
    turned = orientations(scheme)
    assert all(is_exact(s) for s in turned)
    assert {s.format for s in turned} == {(m, k, n), (k, n, m), (n, m, k), (n, k, m), (m, n, k), (k, m, n)}
    assert same(rotate(rotate(rotate(scheme))), scheme)
    assert same(transpose(transpose(scheme)), scheme)
    assert orient(scheme, Format(n, k, m)).format == (n, k, m)


def test_orient_refuses_other_sizes():
    with pytest.raises(ValueError, match="has no orientation 2x2x3"):
        orient(strassen(), Format(2, 2, 3))


@examples(SMALL)
@given(exact_schemes(), axes, st.integers(1, 2))
def test_extend_is_exact_and_project_undoes_its_format(scheme, axis, by):
    larger = extend(scheme, axis, by)
    position = "mkn".index(axis)
    assert is_exact(larger) and larger.format[position] == scheme.format[position] + by
    back = project(larger, axis, larger.format[position] - 1)
    assert is_exact(back) and back.rank <= larger.rank
    assert back.format[position] == larger.format[position] - 1


@examples(SMALL)
@given(exact_schemes(), st.data())
def test_concatenate_and_kron_add_and_multiply_ranks(scheme, data):
    axis = data.draw(axes)
    position = "mkn".index(axis)
    sizes = list(scheme.format)
    sizes[position] = data.draw(st.integers(1, 2))
    other = classical(Format(*sizes), scheme.ring)
    joined = concatenate(scheme, other, axis)
    assert is_exact(joined) and joined.rank == scheme.rank + other.rank
    inner = data.draw(st.sampled_from([winograd(scheme.ring), classical(Format(1, 2, 1), scheme.ring)]))
    nested = kron(scheme, inner)
    assert is_exact(nested) and nested.rank == scheme.rank * inner.rank
    assert nested.format == tuple(a * b for a, b in zip(scheme.format, inner.format, strict=True))


@examples(SMALL)
@given(exact_schemes(), st.integers(0, 999))
def test_sandwich_is_exact_and_undone_by_the_inverse(scheme, seed):
    bases = [unimodular(size, seed + i) for i, size in enumerate(scheme.format)]
    moved = sandwich(scheme, *bases)
    assert is_exact(moved)
    inverses = [np.rint(np.linalg.inv(base)).astype(np.int64) for base in bases]
    back = sandwich(moved, *inverses)
    ratio = [d * scheme.denominators[i] for i, d in enumerate(back.denominators)]
    for mode, (f, g) in enumerate(zip(back.factors, scheme.factors, strict=True)):
        left = f.astype(object) * (ratio[mode] // back.denominators[mode])
        assert np.array_equal(left, g.astype(object) * (ratio[mode] // scheme.denominators[mode]))


@pytest.mark.parametrize(
    ("ring", "x", "message"),
    [
        (Ring.Z, [[1, 1], [1, 1]], "X has no inverse over Z"),
        (Ring.Z, [[2, 0], [0, 1]], "determinant must be 1 or -1"),
        (Ring.F2, [[2, 0], [0, 1]], "X has no inverse over F2"),
        (Ring.F3, [[1, 2], [2, 1]], "X has no inverse over F3"),
        (Ring.Z, [[1]], r"X must have shape \(2, 2\)"),
    ],
)
def test_sandwich_refuses_what_has_no_inverse(ring, x, message):
    identity = np.eye(2, dtype=int)
    with pytest.raises(ValueError, match=message):
        sandwich(strassen(ring), x, identity, identity)


@examples(SMALL)
@given(exact_schemes([Ring.Z]), st.sampled_from([Ring.F2, Ring.F3]))
def test_reduction_modulo_a_prime_is_exact(scheme, ring):
    assert is_exact(reduce_mod(scheme, ring))


def test_reduction_divides_by_invertible_denominators_only():
    identity = np.eye(2, dtype=int)
    halves = sandwich(strassen(Ring.Q), 2 * identity, [[1, 0], [0, 2]], identity)
    assert halves.denominator % 2 == 0 and is_exact(halves) and is_exact(reduce_mod(halves, Ring.F3))
    with pytest.raises(ValueError, match="not invertible over F2"):
        reduce_mod(halves, Ring.F2)
    with pytest.raises(ValueError, match="cannot reduce a scheme over F2 to F3"):
        reduce_mod(strassen(Ring.F2), Ring.F3)


@pytest.mark.parametrize("ring", RINGS)
def test_zero_terms_are_dropped(ring):
    scheme = strassen(ring)
    padded = Scheme(
        scheme.format, ring, *(np.concatenate([f, 0 * f[:, :2]], axis=1) for f in scheme.factors[:2]),
        np.concatenate([scheme.W, scheme.W[:, :2]], axis=1),
    )  # fmt: skip
    assert padded.rank == 9 and same(drop_zero_terms(padded), scheme)


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="rings differ"):
        kron(strassen(), strassen(Ring.F2))
    with pytest.raises(ValueError, match="other sizes differ"):
        concatenate(strassen(), classical(Format(3, 2, 1)), "n")
    with pytest.raises(ValueError, match="cannot project"):
        project(classical(Format(1, 2, 2)), "m", 0)
    with pytest.raises(ValueError, match="cannot project"):
        project(strassen(), "m", 2)
    huge = Scheme(Format(1, 1, 1), Ring.Z, [[1 << 40]], [[1]], [[1]])
    with pytest.raises(ValueError, match="beyond 64 bits"):
        kron(huge, huge)
