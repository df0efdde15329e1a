import dataclasses
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import digest
from catalog.formats.draft import Draft
from catalog.formats.readings import NoExactReadingError, describe, format_of, is_plausible, read_draft
from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend
from catalog.verify import NotExactError, is_exact
from tests.catalog.catalog_examples import SMALL, exact_schemes, unimodular
from tests.fuzzing import examples

READINGS = list(product((False, True), repeat=3))
SKEW = sandwich(concatenate(winograd(), strassen(), "n"), *(unimodular(s, s) for s in (2, 2, 4)))
ALL_LARGE = extend(extend(SKEW, "m"), "k", 2)  # 3x4x4, three sizes above one


def draft_of(scheme, reading, **fields):
    """What a file of this convention says."""
    m, k, n = scheme.format
    factors = []
    for factor, (p, q), column_major in zip(scheme.factors, ((m, k), (k, n), (m, n)), reading, strict=True):
        cube = factor.reshape(p, q, -1)
        factors.append((cube.transpose(1, 0, 2) if column_major else cube).reshape(p * q, -1).copy())
    return Draft("test file", tuple(factors), tuple(scheme.denominators), **fields)


def in_ring(scheme, ring):
    """The scheme over a ring that contains or divides its own."""
    return Scheme(scheme.format, ring, *scheme.factors, denominators=scheme.denominators)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("scheme", [SKEW, ALL_LARGE, strassen()], ids=["2x2x4", "3x4x4", "2x2x2"])
def test_every_convention_is_found(scheme, reading):
    for sizes in (None, tuple(scheme.format)):
        found, convention = read_draft(draft_of(scheme, reading, sizes=sizes))
        assert digest(found) == digest(scheme)
        assert convention == describe(reading)


@examples(SMALL)
@given(exact_schemes(), st.sampled_from(READINGS))
def test_every_ring_and_rectangle(scheme, reading):
    found, convention = read_draft(draft_of(scheme, reading))
    assert is_exact(found)
    assert digest(in_ring(found, scheme.ring)) == digest(scheme)
    if min(scheme.format) > 1:
        assert convention == describe(reading)
    if scheme.ring.modulus:
        ring = scheme.ring
        assert read_draft(draft_of(scheme, reading, ring=ring))[0].ring is ring


def test_conventions_in_words():
    assert [describe(r) for r in READINGS] == [
        "C row-major",
        "C transposed",
        "B column-major",
        "B and C column-major",
        "A column-major",
        "A and C column-major",
        "A and B column-major",
        "A, B and C column-major",
    ]


@pytest.mark.parametrize(
    "format", [Format(1, 3, 1), Format(1, 2, 3), Format(3, 1, 2), Format(2, 3, 1), Format(1, 1, 1)]
)
def test_readings_that_are_equal_count_once(format):
    assert read_draft(draft_of(classical(format), (True, True, False)))[0].format == format
    assert read_draft(draft_of(classical(Format(2, 2, 1)), (False, True, True)))[1] == "C row-major"


@pytest.mark.parametrize("ring", [None, Ring.Z])
def test_a_wrong_sign_is_refused_and_not_read_over_f2(ring):
    """Modulo 2 a sign is nothing, so a file that has signs is not tried there."""
    for scheme in (ALL_LARGE, winograd()):
        draft = draft_of(scheme, (False, False, True), ring=ring)
        factors = [factor.copy() for factor in draft.factors]
        row, term = np.argwhere(factors[2])[0]
        factors[2][row, term] *= -1
        wrong = dataclasses.replace(draft, factors=tuple(factors))
        assert is_exact(read_draft(dataclasses.replace(wrong, ring=Ring.F2))[0])
        with pytest.raises(
            NoExactReadingError, match=r"no reading of this file \(test file\) .* with C transposed, over Z"
        ):
            read_draft(wrong)


def test_the_refusal_names_the_equation_and_what_was_tried():
    draft = draft_of(strassen(Ring.F2), (False, False, True))
    factors = [draft.factors[0].copy(), *draft.factors[1:]]
    factors[0][1, 2] ^= 1
    with pytest.raises(NotExactError) as caught:
        read_draft(dataclasses.replace(draft, factors=tuple(factors)))
    text = str(caught.value)
    assert "over Z and F2 and F3" in text and "the coefficient of a[1,1]" in text and "it must be" in text
    assert str(caught.value.violation) in text and caught.value.scheme.format == (2, 2, 2)


def test_residues_are_read_over_f2_and_f3():
    for ring in (Ring.F2, Ring.F3):
        scheme = sandwich(strassen(ring), *(unimodular(2, s + 3) for s in range(3)))
        scheme = concatenate(scheme, strassen(ring), "m")
        found, _ = read_draft(draft_of(scheme, (False, False, True)))
        assert found.ring is ring and digest(found) == digest(scheme)
    twos = tuple(factor % 3 for factor in strassen(Ring.F3).factors)
    assert read_draft(Draft("test file", twos))[0].ring is Ring.F3


def test_a_file_that_names_its_ring_is_read_there_alone():
    """Numbers that are Strassen's scheme modulo 2 with C transposed, and modulo 3 with C row-major."""
    transposed = draft_of(strassen(), (False, False, True))
    modulo2 = [factor % 2 for factor in transposed.factors]
    modulo3 = [factor % 3 for factor in strassen().factors]
    both = [3 * a + 4 * b for a, b in zip(modulo2, modulo3, strict=True)]
    for ring in (Ring.F2, Ring.F3):
        assert read_draft(Draft("test file", tuple(f % 6 for f in both), ring=ring))[0].ring is ring
    # Their residues modulo 6 are no residues of either ring, so that only a file that names its ring is read.
    with pytest.raises(NoExactReadingError):
        read_draft(Draft("test file", tuple(f % 6 for f in both)))


def test_a_file_exact_in_two_rings_is_refused_with_both_named():
    """Entries 0 and 1 alone: exact over F2 with C transposed, over F3 with C row-major."""
    terms_f2 = draft_of(strassen(Ring.F2), (False, False, True)).factors
    terms_f3 = [factor % 3 for factor in strassen(Ring.F3).factors]
    # Thrice a term is a term over F2 and nothing over F3; four times one is nothing over F2 and a term over F3.
    # An entry 2 is split into two terms with entry 1.
    columns = [[], [], []]
    for times, factors in ((3, terms_f2), (4, terms_f3)):
        for term in zip(*(f.T for f in factors), strict=True):
            parts = [[(c == 1) | (c == 2), c == 2] if (c == 2).any() else [c == 1] for c in term]
            for u, v, w in product(*parts):
                for _ in range(times):
                    for column, part in zip(columns, (u, v, w), strict=True):
                        column.append(part.astype(np.int64))
    draft = Draft("test file", tuple(np.array(c).T for c in columns))
    with pytest.raises(
        ValueError, match="more than one reading is exact: C transposed over F2 and C row-major over F3"
    ):
        read_draft(draft)


def test_fractions_are_read_over_q_and_integers_in_disguise_over_z():
    scheme = sandwich(strassen(Ring.Q), *(np.array([[2, 0], [1, 3]]),) * 3)
    found, _ = read_draft(draft_of(scheme, (False, False, True)))
    assert found.ring is Ring.Q and digest(found) == digest(scheme)
    u, v, w = strassen().factors
    halves = Draft("test file", (u, 4 * v, w), (2, 1, 2))
    found, _ = read_draft(halves)
    assert found.ring is Ring.Z and found.denominators == (1, 1, 1)
    assert digest(found) == digest(strassen())
    with pytest.raises(ValueError, match="over F2 and has fractions"):
        read_draft(dataclasses.replace(draft_of(scheme, (False,) * 3), ring=Ring.F2))


def test_zero_terms_are_dropped():
    u, v, w = strassen().factors
    padded = tuple(np.hstack([f, z[:, None]]) for f, z in zip((u, v, w), (u[:, 0], v[:, 0], 0 * w[:, 0]), strict=True))
    assert read_draft(Draft("test file", padded))[0].rank == 7


@pytest.mark.parametrize(
    ("shapes", "sizes", "message"),
    [
        (((4, 7), (4, 7), (4, 6)), None, "7, 7, 6 terms"),
        (((4, 7), (4, 7), (5, 7)), None, "4, 4 and 5 entries, which are not those of a matrix product"),
        (((4, 7), (4, 7), (4, 7)), (2, 2, 3), "of the sizes 2, 2, 3 that it states"),
        (((0, 7), (4, 7), (4, 7)), None, "no entries"),
        (((65 * 65, 1), (65 * 65, 1), (65 * 65, 1)), None, "must lie in 1..64"),
    ],
)
def test_numbers_of_entries_that_fit_no_product(shapes, sizes, message):
    draft = Draft("test file", tuple(np.ones(shape, dtype=np.int64) for shape in shapes), sizes=sizes)
    with pytest.raises(ValueError, match=message):
        read_draft(draft)


def test_no_terms_at_all_are_no_scheme():
    with pytest.raises(NotExactError, match="rank 0"):
        read_draft(Draft("test file", (np.zeros((4, 0), dtype=np.int64),) * 3))


@examples(SMALL)
@given(exact_schemes(), st.sampled_from(READINGS))
def test_the_quick_test_never_discards_an_exact_scheme(scheme, reading):
    draft = draft_of(scheme, reading, ring=scheme.ring)
    assert is_plausible(draft) and format_of(draft) == scheme.format


def test_the_modulus_is_a_prime():
    from catalog.formats import readings

    assert all(readings._PRIME % divisor for divisor in range(2, 1100))


def test_coefficients_near_64_bits_stay_exact():
    """Products far beyond 64 bits: exact by Python integers, and one unit more is seen."""
    big = 3037000493
    scheme = sandwich(strassen(), *(np.array([[1, big], [0, 1]]),) * 3)
    assert read_draft(draft_of(scheme, (False, False, True)))[0].rank == 7
    factors = [scheme.U.copy(), scheme.V, scheme.W]
    factors[0][1, 1] += 1048573  # nothing modulo the prime of the quick test
    draft = Draft("test file", tuple(factors))
    assert is_plausible(draft)
    with pytest.raises(NotExactError):
        read_draft(draft)
