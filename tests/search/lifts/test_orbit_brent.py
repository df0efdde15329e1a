"""The equations of orbits say what the full ones say, and symmetric schemes lift with their symmetry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import digest
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import reduce_mod
from catalog.verify import is_exact
from search.lifts.brent import Brent
from search.lifts.gf2 import pack
from search.lifts.hensel import prepare
from search.lifts.lifting import lift
from search.lifts.orbit_brent import OrbitBrent
from search.walks.blocks import advance, begin, lowest
from search.walks.orbits import standard
from search.walks.policies import Policy
from tests.fuzzing import examples
from tests.search.walks.test_walk_symmetric import diagonals, invariant


def walked(n: int, diagonal: tuple, seed: int, steps: int = 20_000, plus: int = 1_000) -> Scheme:
    walk = begin(standard(n, diagonal), seed, symmetry="Z3")
    advance(walk, steps, 0, Policy(plus, 2, 1))
    return lowest(walk)


@examples(15)
@given(diagonals(), st.integers(0, 1 << 32))
def test_residuals_are_those_of_the_expanded_scheme(start, seed):
    scheme = walked(*start, seed, 500)
    rng = np.random.default_rng(seed)
    brent = OrbitBrent.of(scheme)
    assert not (brent.residual(brent.start) & 1).any()
    assert brent.rank == scheme.rank and len(brent.start) < len(Brent.of(scheme).start) / 2.5
    point = brent.start + rng.integers(-2, 3, len(brent.start))
    full = Brent.of(scheme)
    expanded = np.concatenate([factor.ravel() for factor in brent.factors(point)])
    size = scheme.n**2
    # The full residual in trace form is the same in every turn of an equation.
    trace = full.residual(expanded).reshape(size, size, scheme.n, scheme.n).transpose(0, 1, 3, 2).reshape((size,) * 3)
    assert np.array_equal(trace, trace.transpose(1, 2, 0))
    assert np.array_equal(trace.ravel()[brent.chosen], brent.residual(point))
    assert np.array_equal(brent.residual(point)[brent.classes], trace)


@examples(15)
@given(diagonals(), st.integers(0, 1 << 32))
def test_the_jacobian_is_the_change_of_the_residual(start, seed):
    brent = OrbitBrent.of(walked(*start, seed, 500))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(brent.start))
    matrix = brent.jacobian(order)[0]
    for density in (0.02, 0.5):
        step = rng.random(len(order)) < density
        image = np.unpackbits((matrix & pack(step[order][None])).view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
        # F(x + 2d) = F(x) + 2 J d modulo 4.
        change = brent.residual(brent.start) - brent.residual(brent.start + 2 * step)
        assert np.array_equal(change & 3, 2 * (image & 1))


@pytest.mark.parametrize(
    ("n", "diagonal", "rank"),
    [(2, ((0, 1),), 7), (3, ((0, 1), (2,)), 23), (4, ((0, 1), (2, 3)), 50), (5, ((0, 1), (2, 3), (4,)), 120)],
)
def test_schemes_of_the_walk_lift_to_z_and_stay_symmetric(n, diagonal, rank):
    lifted = 0
    for seed in range(1, 5):
        scheme = walked(n, diagonal, seed, 3_000_000, 20_000 if n == 5 else 1_000)
        over_z = lift(scheme, seed=seed, symmetric=True)
        assert scheme.rank <= rank
        if over_z is not None:
            assert over_z.ring is Ring.Z and is_exact(over_z) and invariant(over_z)
            assert digest(reduce_mod(over_z, Ring.F2)) == digest(scheme)
            lifted += 1
    assert lifted >= (4 if n < 4 else 2)


def test_hensel_steps_keep_the_symmetry():
    rng = np.random.default_rng(1)
    for seed in range(1, 4):
        brent = OrbitBrent.of(walked(3, ((0, 1), (2,)), seed, 300_000))
        hensel = prepare(brent, rng)
        assert hensel is not None and hensel.lifts_once()
        climbs = [hensel.climb(rng, 20) for _ in range(8)]
        found = [scheme for scheme in climbs if scheme is not None and scheme.ring is Ring.Z]
        assert found and all(is_exact(scheme) and invariant(scheme) for scheme in found)


def test_schemes_without_the_symmetry_and_too_large_ones_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="only schemes over F2"):
        lift(strassen(), symmetric=True)
    turned = Scheme(Format(2, 2, 2), Ring.F2, *(classical(Format(2, 2, 2), Ring.F2).factors))
    assert lift(turned, symmetric=True) is not None
    with pytest.raises(ValueError, match="not square"):
        lift(classical(Format(2, 2, 3), Ring.F2), symmetric=True)
    monkeypatch.setattr("search.lifts.orbit_brent.LIMIT", 1)
    monkeypatch.setattr("search.lifts.brent.LIMIT", 1)
    brent = OrbitBrent.of(turned)
    with pytest.raises(ValueError, match="lifting this symmetric 2x2x2 scheme of rank 8 would take"):
        brent.jacobian(np.arange(len(brent.start)))
