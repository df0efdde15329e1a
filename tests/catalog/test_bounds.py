import csv
from importlib.resources import files
from itertools import permutations

import pytest

from catalog.bounds import SOURCES, best_known, best_known_source, check_target, lower_bound
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring

ROWS = list(csv.DictReader(files("catalog").joinpath("best_known.csv").read_text().splitlines()))
FORMATS = [Format.parse(row["format"]) for row in ROWS]


@pytest.mark.parametrize(
    ("text", "f2", "ternary", "z", "q"),
    [
        ("2x2x2", 7, 7, 7, 7),
        ("2x2x3", 11, 11, 11, 11),
        ("2x4x5", 33, 33, 33, 32),
        ("3x3x3", 23, 23, 23, 23),
        ("3x3x6", 42, 42, 42, 40),
        ("4x4x4", 47, 49, 49, 48),
        ("4x4x5", 60, 61, 61, 61),
        ("5x5x5", 93, 93, 93, 93),
        ("6x6x6", 153, 153, 153, 153),
        ("8x8x8", 329, 343, 343, 336),
    ],
)
def test_anchors(text, f2, ternary, z, q):
    for sizes in permutations(Format.parse(text)):
        fmt = Format(*sizes)
        assert best_known(fmt, Ring.F2) == f2 and best_known(fmt, Ring.Q) == q
        assert best_known(fmt, Ring.Z, ternary=True) == ternary
        assert best_known(fmt, Ring.Z) == best_known(fmt, Ring.F3) == z


def test_the_table_is_complete_and_ordered():
    assert len(set(FORMATS)) == len(FORMATS) == 680
    assert all(fmt == fmt.sorted and 2 <= min(fmt) and max(fmt) <= 16 for fmt in FORMATS)
    for row in ROWS:
        f2, ternary, z, q = (int(row[column]) for column in ("F2", "ZT", "Z", "Q"))
        # A ternary scheme is one over Z, which is one over Q and reduces to one over F2.
        assert f2 <= z <= ternary and q <= z
        for column in ("F2_source", "ZT_source", "Q_source"):
            assert row[column] and set(row[column].split("+")) <= SOURCES.keys()


@pytest.mark.parametrize("ring", list(Ring))
def test_the_table_is_closed_under_concatenation_and_projection(ring):
    """Otherwise an entry could be beaten by joining two others."""
    for fmt in FORMATS:
        rank = best_known(fmt, ring)
        for position, size in enumerate(fmt):
            parts = [Format(*(part if i == position else s for i, s in enumerate(fmt))) for part in range(1, size)]
            for first, second in zip(parts, reversed(parts), strict=True):
                assert rank <= best_known(first, ring) + best_known(second, ring)
                assert best_known(first, ring) <= rank


@pytest.mark.parametrize("ring", list(Ring))
def test_no_lower_bound_passes_a_known_rank(ring):
    for fmt in [*FORMATS, Format(1, 1, 1), Format(5, 1, 7)]:
        assert max(fmt) <= lower_bound(fmt, ring) <= best_known(fmt, ring) <= fmt.volume


def test_known_lower_bounds():
    assert [lower_bound(Format(2, 2, n), Ring.F2) for n in range(1, 7)] == [4, 7, 11, 14, 18, 21]
    assert all(lower_bound(Format(2, 2, 2), ring) == 7 for ring in Ring)
    assert lower_bound(Format(3, 2, 3), Ring.F2) == lower_bound(Format(3, 3, 2), Ring.Z) == 15
    assert lower_bound(Format(3, 3, 3), Ring.Q) == 19 and lower_bound(Format(3, 3, 3), Ring.F2) == 20
    assert lower_bound(Format(5, 5, 5), Ring.Q) == 53
    assert lower_bound(Format(1, 8, 9), Ring.F3) == 72


def test_formats_beyond_the_table():
    assert best_known(Format(2, 2, 17), Ring.Z) is None
    assert best_known_source(Format(1, 40, 40), Ring.Q).rank == 1600
    assert lower_bound(Format(2, 2, 64), Ring.F2) == 224


def test_sources_are_told():
    assert "AT" in best_known_source(Format(4, 4, 4), Ring.F2).sources
    assert best_known_source(Format(2, 12, 15), Ring.Z, ternary=True) == (280, ("D",))


def test_targets():
    assert check_target(Format(2, 2, 2), Ring.Z, 7) == strassen().rank == 7
    assert check_target(Format(3, 1, 2), Ring.F2, 6) == classical(Format(3, 1, 2)).rank
    for target in (0, -3):
        with pytest.raises(ValueError, match=f"target rank {target} must be at least 1"):
            check_target(Format(2, 2, 2), Ring.Z, target)
    with pytest.raises(
        ValueError, match="impossible: no 3x3x3 scheme over F2 has rank 19; the proved lower bound is 20"
    ):
        check_target(Format(3, 3, 3), Ring.F2, 19)
