import numpy as np
import pytest

from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme


def test_format_reads_back_what_it_prints():
    assert Format.parse(str(Format(3, 14, 5))) == (3, 14, 5)
    assert Format.parse(" 3X4,5 ") == (3, 4, 5)
    assert Format(3, 4, 5).described == "A 3x4 . B 4x5"
    assert Format(5, 3, 4).sorted == (3, 4, 5)
    assert Format(3, 4, 5).volume == 60


@pytest.mark.parametrize("text", ["", "3x4", "3x4x", "axbxc", "3x4x5x6", "-3x4x5", "3.0x4x5"])
def test_format_refuses_other_text(text):
    with pytest.raises(ValueError, match="not of the form MxKxN"):
        Format.parse(text)


@pytest.mark.parametrize("text", ["0x1x1", "1x65x1", "99999999999999999999x2x2"])
def test_format_refuses_sizes_out_of_range(text):
    with pytest.raises(ValueError, match="sizes must lie in 1..64"):
        Format.parse(text)


def test_entries_are_reduced_to_the_residues_of_the_ring():
    u = np.array([[-2, -1, 0, 1, 2, 5]])
    one = np.ones((1, 6), dtype=int)
    assert Scheme(Format(1, 1, 1), Ring.F2, u, one, one).U.tolist() == [[0, 1, 0, 1, 0, 1]]
    assert Scheme(Format(1, 1, 1), Ring.F3, u, one, one).U.tolist() == [[1, -1, 0, 1, -1, -1]]
    assert Scheme(Format(1, 1, 1), Ring.Z, u, one, one).U.tolist() == u.tolist()


def test_factors_cannot_be_changed_from_outside():
    u = np.ones((1, 1), dtype=np.int64)
    scheme = Scheme(Format(1, 1, 1), Ring.Z, u, u, u)
    u[0, 0] = 7
    assert scheme.U[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        scheme.U[0, 0] = 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"U": np.zeros((3, 7))}, r"U of a 2x2x2 scheme must have shape \(4, 7\)"),
        ({"W": np.zeros((4, 6))}, r"W of a 2x2x2 scheme must have shape \(4, 7\)"),
        ({"V": np.full((4, 7), 0.5)}, "V must hold integers"),
        ({"V": np.full((4, 7), np.nan)}, "V must hold integers"),
        ({"V": np.full((4, 7), 1e30)}, "V must hold integers"),
        ({"V": np.full((4, 7), 1 << 63, dtype=object)}, "V must hold integers that fit in 64 bits"),
        ({"V": np.full((4, 7), 1 << 63, dtype=np.uint64)}, "V must hold integers that fit in 64 bits"),
        ({"U": np.zeros(28)}, "U must be a matrix"),
        ({"U": [["a"]]}, "U must hold integers"),
        ({"ring": "R"}, "'R' is not a valid Ring"),
        ({"denominators": (1, 1)}, "three positive integers"),
        ({"denominators": (1, 0, 1)}, "three positive integers"),
        ({"denominators": (2, 1, 1)}, "need ring Q"),
        ({"format": (2, 2, 0)}, "sizes must lie in 1..64"),
    ],
)
def test_bad_parts_are_refused_in_one_sentence(change, message):
    base = strassen()
    parts = {"format": base.format, "ring": base.ring, "U": base.U, "V": base.V, "W": base.W}
    with pytest.raises(ValueError, match=message) as caught:
        Scheme(**(parts | change))
    assert "\n" not in str(caught.value)


def test_derived_properties():
    scheme = classical(Format(2, 3, 4))
    assert (scheme.m, scheme.k, scheme.n, scheme.rank, scheme.denominator) == (2, 3, 4, 24, 1)
    assert scheme.is_ternary and not strassen(Ring.F2).is_ternary and not strassen(Ring.Q).is_ternary
    assert repr(strassen(Ring.F3)) == "Scheme(2x2x2, rank 7 over F3)"


def test_residues_modulo_3_do_not_overflow():
    from catalog.known import strassen
    from catalog.verify import is_exact

    good = strassen(Ring.F3)
    for value, exact in ((2**63 - 1, False), (2**63 - 2, True), (-(2**63), False), (-(2**63) + 2, True)):
        u = good.U.astype(object).copy()
        zero = next(i for i in range(4) if u[i, 0] == 0)
        u[zero, 0] = value  # exact where that is 0 modulo 3
        assert is_exact(Scheme(good.format, Ring.F3, u, good.V, good.W)) is exact
