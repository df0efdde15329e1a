"""Random exact schemes over every ring, rectangular ones above all, for property tests."""

import numpy as np
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend, orientations

RINGS = list(Ring)
# Few and small: each example is a full exact computation.
SMALL = 25

small_formats = st.builds(Format, *(st.integers(1, 3) for _ in "mkn"))


def unimodular(size: int, seed: int) -> np.ndarray:
    """A random integer matrix of determinant 1 or -1, so invertible over every ring."""
    rng = np.random.default_rng(seed)
    matrix = np.eye(size, dtype=np.int64)[rng.permutation(size)]
    for _ in range(2 * size if size > 1 else 0):
        i, j = rng.choice(size, 2, replace=False)
        matrix[i] += int(rng.integers(-1, 2)) * matrix[j]
    return matrix


@st.composite
def exact_schemes(draw, rings=RINGS) -> Scheme:
    """An exact scheme with sizes up to 4: a seed, perhaps extended, its roles permuted, its bases changed."""
    ring = draw(st.sampled_from(rings))
    seeds = [strassen, winograd, lambda r: classical(draw(small_formats), r)]
    scheme = draw(st.sampled_from(seeds))(ring)
    if draw(st.booleans()):
        scheme = extend(scheme, draw(st.sampled_from("mkn")))
    if scheme.format == (2, 2, 2) and draw(st.booleans()):
        scheme = concatenate(scheme, winograd(ring), draw(st.sampled_from("mkn")))
    scheme = draw(st.sampled_from(orientations(scheme)))
    if draw(st.booleans()):
        seed = draw(st.integers(0, 1000))
        bases = [unimodular(size, seed + i) for i, size in enumerate(scheme.format)]
        if ring is Ring.Q:
            bases = [base * (2 + i) for i, base in enumerate(bases)]
            bases[0][0] *= 3
        scheme = sandwich(scheme, *bases)
    return scheme


def corrupted(scheme: Scheme, mode: int, row: int, term: int, by: int = 1) -> Scheme:
    """The scheme with one coefficient changed by ``by``, positions taken modulo the sizes."""
    factors = [factor.copy() for factor in scheme.factors]
    chosen = factors[mode]
    chosen[row % chosen.shape[0], term % chosen.shape[1]] += by
    return Scheme(scheme.format, scheme.ring, *factors, denominators=scheme.denominators)


def same(first: Scheme, second: Scheme) -> bool:
    """Whether two schemes are equal number by number."""
    return (first.format, first.ring, first.denominators) == (second.format, second.ring, second.denominators) and all(
        np.array_equal(a, b) for a, b in zip(first.factors, second.factors, strict=True)
    )
