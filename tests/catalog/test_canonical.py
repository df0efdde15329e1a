import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import digest
from catalog.known import strassen, winograd
from catalog.scheme import Ring, Scheme
from catalog.transform import transpose
from tests.catalog.catalog_examples import RINGS, SMALL, exact_schemes
from tests.fuzzing import examples


@examples(SMALL)
@given(exact_schemes(), st.randoms(use_true_random=False))
def test_digest_ignores_the_order_of_terms_and_signs(scheme, random):
    order = list(range(scheme.rank))
    random.shuffle(order)
    u, v, w = (factor[:, order].copy() for factor in scheme.factors)
    for term in order:
        first, second = random.sample([u, v, w], 2)
        first[:, term] *= -1
        second[:, term] *= -1
    assert digest(Scheme(scheme.format, scheme.ring, u, v, w, denominators=scheme.denominators)) == digest(scheme)


@examples(SMALL)
@given(exact_schemes([Ring.Q]), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))
def test_digest_ignores_scales_over_the_rationals(scheme, scale, mode, other):
    factors, denominators = list(scheme.factors), list(scheme.denominators)
    factors[mode] = factors[mode] * scale
    denominators[other] *= scale
    assert digest(Scheme(scheme.format, Ring.Q, *factors, denominators=tuple(denominators))) == digest(scheme)


def test_digest_tells_schemes_formats_and_rings_apart():
    schemes = [s(ring) for s in (strassen, winograd) for ring in RINGS]
    assert len({digest(s) for s in schemes}) == len(schemes)
    assert len(digest(strassen())) == 64
    # A different scheme of the same orbit keeps an id of its own.
    assert digest(transpose(winograd())) != digest(winograd())


@pytest.mark.parametrize("change", ["U", "V", "W"])
def test_digest_sees_every_coefficient(change):
    scheme = winograd()
    for row in range(4):
        for term in range(7):
            factors = {name: getattr(scheme, name).copy() for name in "UVW"}
            factors[change][row, term] += 2
            assert digest(Scheme(scheme.format, scheme.ring, **factors)) != digest(scheme)
