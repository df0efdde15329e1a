import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring
from catalog.transform import extend, orientations
from catalog.verify import is_exact
from search.lifts.bases import carry_back, representatives, sparsen
from search.lifts.lifting import lift
from tests.fuzzing import examples
from tests.search.lifts.test_lifting import invertible

BASES = [
    classical(Format(1, 2, 3), Ring.F2),
    extend(strassen(Ring.F2), "n"),
    extend(extend(winograd(Ring.F2), "m"), "m"),
    classical(Format(1, 1, 1), Ring.F2),
]


def ones(scheme) -> int:
    return sum(int(factor.sum()) for factor in scheme.factors)


@examples(25)
@given(base=st.sampled_from(BASES), turn=st.integers(0, 5), kicks=st.sampled_from([0, 4]), seed=st.integers(0, 2**32))
def test_a_sparse_scheme_is_exact_and_its_lift_can_be_carried_back(base, turn, kicks, seed):
    rng = np.random.default_rng(seed)
    scheme = orientations(base)[turn]
    scheme = sandwich(scheme, *(invertible(size, rng) for size in scheme.format))
    sparse, steps = sparsen(scheme, rng, kicks)
    assert is_exact(sparse)
    assert kicks or ones(sparse) <= ones(scheme)
    lifted = lift(sparse, seed=seed)
    assert lifted is not None
    back = carry_back(lifted, steps)
    assert back.ring is Ring.Z and is_exact(back)
    assert all(np.array_equal(f & 1, g) for f, g in zip(back.factors, scheme.factors, strict=True))


def test_the_standard_algorithm_is_found_again():
    rng = np.random.default_rng(0)
    base = classical(Format(3, 4, 2), Ring.F2)
    for _ in range(5):
        scheme = sandwich(base, *(invertible(size, rng) for size in base.format))
        assert ones(scheme) > ones(base)
        assert ones(sparsen(scheme, rng)[0]) == ones(base)


def test_representatives_differ_and_can_be_carried_back():
    rng = np.random.default_rng(2)
    base = extend(winograd(Ring.F2), "n", 2)
    scheme = sandwich(base, *(invertible(size, rng) for size in base.format))
    met = list(representatives(scheme, rng, 30))
    assert 1 <= len(met) < 30
    assert len({tuple(factor.tobytes() for factor in sparse.factors) for sparse, _ in met}) == len(met)
    for sparse, steps in met:
        assert is_exact(sparse)
        lifted = lift(sparse)
        assert lifted is not None
        back = carry_back(lifted, steps)
        assert is_exact(back)
        assert all(np.array_equal(f & 1, g) for f, g in zip(back.factors, scheme.factors, strict=True))
