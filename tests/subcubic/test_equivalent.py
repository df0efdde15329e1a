"""Equivalent schemes on the command line and on import."""

import numpy as np
import pytest

from catalog import formats
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import extend
from subcubic.equivalents import Equivalents

MADE = Provenance("test")
BASES = ([[1, 2], [0, 1]], [[1, 0], [3, 1]], [[0, 1], [1, 0]])


def test_strassen_and_winograd_are_one_and_the_bases_prove_it(cli, home):
    found = cli("catalog", "equivalent", "strassen", "winograd", "--json").json
    assert found["equivalent"] and "over Q" in found["group"]
    assert all(np.array(found[name]).shape == (2, 2) for name in "xyz")
    assert "becomes winograd" in cli("catalog", "equivalent", "strassen", "winograd").out
    other = cli("catalog", "equivalent", "strassen", "classical-2x2x2")
    assert other.code == 0 and "not equivalent" in other.out


def test_stored_ones_are_found(cli, home):
    added = Catalog().add_many(
        (one, MADE) for one in (winograd(), strassen(), extend(strassen(), "n"), classical(Format(2, 2, 2)))
    )
    rows = cli("catalog", "equivalent", added[0].id[:12], "--json").json["same_invariants"]
    assert rows == [{"id": added[1].id, "equivalent": True}]
    assert "1 stored schemes are equivalent" in cli("catalog", "equivalent", added[0].id[:12]).out
    assert "name the second scheme" in cli("catalog", "equivalent", "classical-9x9x9").err


def test_import_tells_equivalent_ones_also_within_one_batch(cli, home):
    folder = home / "files"
    folder.mkdir()
    for number, one in enumerate(
        (strassen(), sandwich(strassen(), *BASES), strassen(Ring.F2), classical(Format(2, 2, 2)))
    ):
        formats.write(one, folder / f"{number}.json")
    rows = cli("catalog", "import", folder, "--json").json["imported"]
    assert [row["status"] for row in rows] == ["new", "equivalent", "new", "new"]
    assert rows[1]["equivalent_to"] == rows[0]["id"]
    formats.write(winograd(), folder / "5.json")
    again = cli("catalog", "import", folder, "--json").json["imported"]
    assert [row["status"] for row in again] == ["duplicate"] * 4 + ["equivalent"]


def test_what_is_too_large_is_not_decided(tmp_path):
    equivalents = Equivalents(Catalog(tmp_path / "c"))
    large = classical(Format(3, 3, 4))
    assert equivalents.first(large) is None and equivalents.first(large) is None
    with pytest.raises(ValueError, match="too large"):
        equivalents.alike(classical(Format(5, 5, 5)))
