"""Public scheme files, found through $SUBCUBIC_TEST_DATA: format, rank, ring and convention of every one of them."""

import os
from pathlib import Path

import pytest

from catalog import formats
from catalog.formats import Draft, Flaw, FormatError, read_all, read_draft
from catalog.verify import is_exact

DATA = Path(os.environ.get("SUBCUBIC_TEST_DATA", "nowhere")) / "schemes"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="set SUBCUBIC_TEST_DATA to a folder whose schemes/ holds public scheme files"
)

T, ROWS = "C transposed", "C row-major"
# File, then format, rank, ring and convention of its one scheme.
SINGLE = [
    ("alphaevolve/decomposition_245.txt", "2x4x5", 32, "Q", T),
    ("benson_ballard/grey322-11-50", "3x2x2", 11, "Z", ROWS),
    ("benson_ballard/smirnov336-40-960", "3x3x6", 40, "Q", ROWS),
    ("mathematica/Laderman-333-23-98.m", "3x3x3", 23, "Z", T),
    ("flip_cpd/gg-222-rank7-rec-0-0-0-z.npy", "2x2x2", 7, "Z", ROWS),
    ("flip_cpd/gg-222-rank7-rec-0-0-0-z.txt", "2x2x2", 7, "Z", ROWS),
    ("perminov/2x2x2_m7_cr15_cn24_ZT_reduced.json", "2x2x2", 7, "Z", T),
    ("perminov/2x4x5_m33_ZT.json", "2x4x5", 33, "Z", T),
    ("perminov/2x4x9_m58_Q.json", "2x4x9", 58, "Q", T),
    ("perminov/3x3x10_m71_Z.json", "3x3x10", 71, "Z", T),
    ("perminov/3x4x5_m47_ZT.json", "3x4x5", 47, "Z", T),
    ("perminov/4x4x4_m49_ZT.json", "4x4x4", 49, "Z", T),
    ("perminov/4x4x8_m94_Z2.json", "4x4x8", 94, "F2", T),
    ("plinopt/4x4x4_48_rational_L.sms", "4x4x4", 48, "Q", ROWS),
    ("plinopt/4x4x4_48_rational_P.sms", "4x4x4", 48, "Q", ROWS),
    ("plinopt/4x4x4_48_rational_R.sms", "4x4x4", 48, "Q", ROWS),
]
# File and what its refusal says.
REFUSED = [
    ("alphaevolve/decomposition_444.txt", "complex, and the rings here are F2, F3, Z and Q"),
    ("benson_ballard/bini322-10-52-approx", "line 3: the coefficient 'x' is a parameter, so the scheme is approximate"),
    ("SOURCES.md", "is not a scheme file"),
]


@pytest.mark.parametrize(("name", "format", "rank", "ring", "convention"), SINGLE, ids=lambda value: str(value))
def test_single_schemes(name, format, rank, ring, convention):
    (group,) = formats.together([DATA / name])
    (item,) = read_all(*group)
    scheme, found = read_draft(item)
    assert (str(scheme.format), scheme.rank, scheme.ring, found) == (format, rank, ring, convention)
    assert is_exact(scheme) and formats.read(DATA / name).rank == rank


@pytest.mark.parametrize("name", [name for name, *_ in SINGLE] + [name for name, _ in REFUSED[:2]])
def test_one_reader_alone_accepts_a_file(name):
    data = (DATA / name).read_bytes()
    assert sum(reader.accepts(data) for reader in formats.READERS) == 1


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_refusals(name, message):
    with pytest.raises(FormatError, match=message):
        formats.read(DATA / name)


def test_alphatensor_over_f2():
    read = {item.name: read_draft(item) for item in read_all(DATA / "alphatensor/factorizations_f2.npz")}
    assert len(read) == 20
    for name, (scheme, convention) in read.items():
        assert str(scheme.format) == name.replace(",", "x")
        assert (scheme.ring, convention) == ("F2", T)
    ranks = {str(scheme.format): scheme.rank for scheme, _ in read.values()}
    assert (ranks["4x4x4"], ranks["4x5x5"], ranks["5x5x5"], ranks["3x4x5"]) == (47, 76, 96, 47)


def test_a_sign_changed_in_any_of_them_is_refused():
    """One coefficient of C of each sign-bearing file gets the other sign."""
    for name, *_ in SINGLE:
        (group,) = formats.together([DATA / name])
        (item,) = read_all(*group)
        assert isinstance(item, Draft) and not isinstance(item, Flaw)
        w = item.factors[2].copy()
        row, term = (int(i) for i in next(zip(*w.nonzero(), strict=True)))
        w[row, term] *= -1
        wrong = Draft(item.kind, (*item.factors[:2], w), item.denominators, item.sizes, item.ring, item.name)
        if item.ring is None:
            with pytest.raises(ValueError, match="no reading of this"):
                read_draft(wrong)
        else:  # over F2 there are no signs
            assert read_draft(wrong)[0].ring is item.ring
