"""``subcubic additions`` from the command line."""

import numpy as np
import pytest

from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import kron, reduce_mod
from subcubic import starter
from subcubic.additions_verb import fewest_recorded

MADE = Provenance("test", "made for a test")


@pytest.fixture
def shelf(home):
    """A catalog in which a greedy elimination leaves something to be found for one scheme."""
    catalog = Catalog(home / "catalog")
    catalog.add_many(
        [(kron(winograd(), strassen()), MADE), (strassen(), MADE), (reduce_mod(strassen(), Ring.F2), MADE)]
    )
    return catalog


def test_it_prints_a_program_and_its_count(cli):
    done = cli("additions", "winograd", "--tries", 3)
    assert done.code == 0, done.err
    assert "15 additions (A 4, B 4, C 7); 24 as written, 15 by one greedy elimination; 3 tries a side" in done.out
    assert sum(" + " in line or " - " in line for line in done.out.splitlines()) == 15
    assert "M1 = a11*b11" in done.out


def test_what_is_found_is_recorded_once_and_shown(cli, shelf):
    identity = shelf.rows(Format(4, 4, 4))[0].id
    before = cli("catalog", "show", identity, "--json").json
    assert before["additions_found"] is None
    first = cli("additions", identity, "--tries", 30, "--seed", 4, "--json").json
    assert first["id"] == identity and first["additions"] < first["additions_cse"] == before["additions_cse"]
    assert first["recorded"] and first["earlier"] is None
    assert first["additions"] == first["additions_a"] + first["additions_b"] + first["additions_c"]
    again = cli("additions", identity, "--tries", 30, "--seed", 4, "--json").json
    assert again["program"] == first["program"] and not again["recorded"]
    assert again["earlier"] == first["additions"]
    assert cli("catalog", "show", identity, "--json").json["additions_found"] == first["additions"]
    (measured,) = shelf.measurements(identity)
    assert (measured["kind"], measured["seed"], measured["program"]) == ("additions", 4, first["program"])
    # The listing keeps the quick count, so that it depends on the scheme alone.
    listed = cli("catalog", "list", "4x4x4", "--json").json["schemes"][0]
    assert listed["additions_cse"] == before["additions_cse"]


def test_walks_store_a_scheme_with_fewer_additions(cli, shelf):
    (old,) = shelf.rows(Format(2, 2, 2), Ring.Z)
    assert old.additions_cse == 18
    found = cli("additions", old.id, "--walk", "--rounds", 2, "--tries", 2, "--json").json
    assert found["id"] != old.id and found["rank"] == 7 and found["additions"] == 15
    entry = shelf.get(found["id"])
    assert (entry.provenance.method, entry.provenance.parents) == ("lean walk", (old.id,))
    assert entry.provenance.options["additions"] == 15
    # Nothing is better than that: the scheme stays, and nothing is recorded.
    again = cli("additions", found["id"], "--walk", "--rounds", 1, "--tries", 2, "--json").json
    assert again["id"] == found["id"] and not again["recorded"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("winograd", "--tries", 0), "--tries 0 must be at least 1"),
        (("winograd", "--walk", "--rounds", 0), "--rounds 0 must be at least 1"),
        (("winograd", "--budget", "soon"), "budget 'soon' is no positive time"),
        (("winograd", "--seed", -1), "--seed -1 must lie in"),
        (("2x2",), "not of the form MxKxN"),
    ],
)
def test_bad_options_are_usage_errors(cli, arguments, message):
    done = cli("additions", *arguments)
    assert done.code == 2 and message in done.err


def test_walks_need_ternary_schemes(cli, shelf):
    (modulo,) = shelf.rows(Format(2, 2, 2), Ring.F2)
    done = cli("additions", modulo.id, "--walk", "--tries", 1)
    assert done.code == 1 and "is not ternary over Z" in done.err
    assert cli("additions", modulo.id, "--tries", 1).code == 0


def test_the_shipped_schemes_need_few_additions():
    shelf = Catalog(starter.shipped())
    assert min(row.additions_cse for row in shelf.rows(Format(2, 2, 2), Ring.Z)) == 15
    leanest = min(shelf.rows(Format(3, 3, 3), Ring.Z), key=lambda row: row.additions_cse)
    assert (leanest.rank, leanest.method) == (23, "lean walk") and leanest.additions_cse <= 58
    recorded = fewest_recorded(shelf, leanest.id)
    assert recorded is not None and recorded <= 56


def test_the_recorded_program_multiplies_matrices_whose_entries_do_not_commute():
    shelf = Catalog(starter.shipped())
    leanest = min(shelf.rows(Format(3, 3, 3), Ring.Z), key=lambda row: row.additions_cse)
    measured = min(shelf.measurements(leanest.id), key=lambda m: m["additions"])
    rng = np.random.default_rng(1)
    names = {f"{side}{i}{j}": rng.integers(-9, 10, (3, 3)) for side in "ab" for i in (1, 2, 3) for j in (1, 2, 3)}
    for line in measured["program"]:
        name, text = line.split(" = ")
        names[name] = eval(text.replace("*", "@"), {}, names)
    assert sum(" + " in line or " - " in line for line in measured["program"]) == measured["additions"]
    assert sum("*" in line for line in measured["program"]) == 23
    for i in (1, 2, 3):
        for j in (1, 2, 3):
            expected = sum(names[f"a{i}{p}"] @ names[f"b{p}{j}"] for p in (1, 2, 3))
            assert np.array_equal(names[f"c{i}{j}"], expected)
