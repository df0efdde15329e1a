import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import extend, kron, reduce_mod
from catalog.verify import is_exact
from search.lifts import brent as brent_module
from search.lifts import hensel as hensel_module
from search.lifts.brent import Brent
from search.lifts.hensel import prepare, reconstruct
from tests.fuzzing import examples
from tests.search.lifts.test_lifting import invertible

BASES = [winograd(Ring.F2), extend(strassen(Ring.F2), "n"), classical(Format(1, 2, 3), Ring.F2)]


@examples(15)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32))
def test_every_step_is_right_to_one_more_bit(base, seed):
    hensel = prepare(Brent.of(base), np.random.default_rng(seed))
    assert hensel is not None and hensel.lifts_once()
    point = hensel.brent.start
    for bits in range(1, 4):
        assert not (hensel.brent.residual(point) % 2**bits).any()
        step = hensel.correction(point, bits)
        assert step is not None
        point = point + (step << bits)
    assert not (hensel.brent.residual(point) % 16).any()


@examples(15)
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32))
def test_the_jacobian_is_the_derivative_modulo_2(base, seed):
    rng = np.random.default_rng(seed)
    brent = Brent.of(base)
    order = rng.permutation(len(brent.start))
    matrix = np.unpackbits(brent.jacobian(order)[0].view(np.uint8), axis=1, bitorder="little")[:, : len(order)]
    step = rng.integers(0, 2, len(order))
    change = brent.residual(brent.start) - brent.residual(brent.start + 2 * step)
    np.testing.assert_array_equal(matrix[:, np.argsort(order)].astype(int) @ step % 2, change // 2 % 2)


def test_a_step_without_solution_is_mended_by_the_one_before(monkeypatch):
    rng = np.random.default_rng(2)
    scheme = sandwich(classical(Format(2, 3, 3), Ring.F2), *(invertible(size, rng) for size in (2, 3, 3)))

    def climbs() -> list[Scheme]:
        rng = np.random.default_rng(0)
        hensel = prepare(Brent.of(scheme), rng)
        assert hensel is not None
        return [found for found in (hensel.climb(rng, 20) for _ in range(20)) if found is not None]

    assert climbs() and all(is_exact(found) for found in climbs())
    monkeypatch.setattr(hensel_module, "_ROUNDS", 0)
    assert not climbs()


@examples(20)
@given(numerators=st.lists(st.sampled_from([1, 3, 5, -7]), min_size=4, max_size=4))
def test_rational_schemes_are_read_from_their_residues(numerators):
    a, b, c, d = numerators
    scheme = sandwich(strassen(Ring.Q), [[a, 2], [0, b]], [[c, 0], [4, 1]], [[1, 2 * d], [0, 1]])
    bits = 60
    residues = [
        [[int(e) * pow(den, -1, 1 << bits) % (1 << bits) for e in row] for row in factor.tolist()]
        for factor, den in zip(scheme.factors, scheme.denominators, strict=True)
    ]
    point = np.concatenate([np.array(r, dtype=np.int64).ravel() for r in residues])
    reduced = reduce_mod(scheme, Ring.F2)
    found = reconstruct(Brent.of(reduced), point, 1 << bits)
    assert found is not None
    assert is_exact(found)
    for factor, original in zip(found.factors, reduced.factors, strict=True):
        np.testing.assert_array_equal(factor & 1, original)


def test_what_takes_too_much_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(brent_module, "LIMIT", 1 << 16)
    brent = Brent.of(kron(strassen(Ring.F2), strassen(Ring.F2)))
    with pytest.raises(ValueError, match="4x4x4 scheme of rank 49"):
        prepare(brent, np.random.default_rng(0))


def test_elimination_and_climb_stop_when_told_to():
    brent, rng = Brent.of(strassen(Ring.F2)), np.random.default_rng(0)
    assert prepare(brent, rng, lambda: True) is None
    hensel = prepare(brent, rng)
    assert hensel is not None
    assert hensel.climb(rng, 20, lambda: True) is None
    assert hensel.climb(rng, 20) is not None
