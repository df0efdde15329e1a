import pytest

from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import extend
from search.composition.closure import close
from subcubic.closure_verb import table_line, totals
from tests.search.composition.test_closure import CONCATENATED, published

LINE = {
    "format",
    "rank",
    "best_known",
    "best_known_is_derived",
    "above",
    "mark",
    "stored",
    "recipe",
    "parents",
}


@pytest.fixture
def stocked(home):
    schemes = [winograd(), strassen(Ring.F2), extend(winograd(), "n")]
    return [added.id for added in Catalog().add_many((s, Provenance("test")) for s in schemes)]


def lines(document):
    assert all(line.keys() == LINE for line in document["formats"])
    return {line["format"]: line for line in document["formats"]}


def test_the_table_marks_what_reaches_the_best_known_rank(cli, stocked):
    done = cli("catalog", "closure", "--max", 4, "--json")
    assert done.code == 0
    document = done.json
    assert document["schema_version"] == 1 and document["ring"] == "Z" and document["leaves"] == 2
    table = lines(document)
    assert len(table) == 10
    assert (table["2x2x2"]["rank"], table["2x2x2"]["mark"], table["2x2x2"]["parents"]) == (7, "=", [stocked[0]])
    assert (table["2x2x3"]["stored"], table["2x2x3"]["rank"], table["2x2x4"]["rank"]) == (11, 11, 14)
    assert table["2x2x4"]["stored"] is None
    four = table["4x4x4"]
    assert (four["rank"], four["best_known"], four["above"], four["mark"]) == (49, 49, 0, "=")
    three = table["3x3x3"]
    assert (three["mark"], three["above"]) == (f"+{three['rank'] - 23}", three["rank"] - 23)
    equal = sum(line["mark"] == "=" for line in table.values())
    assert document["summary"] == {"formats": 10, "equal": equal, "beat": 0, "unpublished": []}
    assert document["added"] == []


def test_formats_without_an_equal_published_scheme_are_named():
    """Ranks of published ternary schemes as hypothetical leaves: concatenation beats them in five formats."""
    ranks = close(published(Ring.Z, True, 16**3), ternary=True)
    every = [table_line(ranks, format, "ZT", {}) for format in ranks.formats()]
    summary = totals(every)
    assert summary == {"formats": 680, "equal": 680, "beat": 0, "unpublished": list(CONCATENATED)}


def test_text_lists_formats_and_sums_up(cli, stocked):
    done = cli("catalog", "closure", "--max", 4, "--ring", "f2")
    rows = done.out.splitlines()
    assert done.code == 0 and rows[0].split() == ["format", "rank", "known", "mark", "stored", "recipe"]
    four = next(row for row in rows if row.split()[0] == "4x4x4").split()
    assert four[1:4] == ["49", "47", "+2"]
    assert "best known rank, 0 beat it" in rows[-1] and "over F2" in rows[-1]
    better = cli("catalog", "closure", "--max", 4, "--ring", "F2", "--better-only").out.splitlines()
    assert 1 < len(better) < len(rows) and all(row.split()[3] == "=" for row in better[1:-1])


def test_added_schemes_are_exact_and_keep_their_lineage(cli, stocked):
    done = cli("catalog", "closure", "--ring", "ZT", "--max", 8, "--add", "4x4x4", "--add", "2x5x4", "--json")
    assert done.code == 0
    first, second = done.json["added"]
    assert (first["format"], first["rank"], first["status"]) == ("4x4x4", 49, "new")
    assert second["format"] == "2x5x4" and second["rank"] <= second["promised"]
    entry = Catalog().get(first["id"])
    assert entry.scheme.is_ternary and entry.scheme.format == (4, 4, 4)
    assert entry.provenance.method == "closure" and entry.provenance.parents == (stocked[0],)
    assert "2x2x2:7" in entry.provenance.options["recipe"]
    assert entry.provenance.options["lineage"][0].startswith("4x4x4:49 = ")
    assert Catalog().get(second["id"]).scheme.format == (2, 5, 4)
    assert cli("catalog", "verify", first["id"], "--symbolic").code == 0
    again = cli("catalog", "closure", "--ring", "ZT", "--max", 8, "--add", "4x4x4")
    assert "duplicate" in again.out


def test_a_pool_of_one_leaves_the_others_out(cli, stocked):
    Catalog().add(strassen(), Provenance("test"))
    counts = [cli("catalog", "closure", "--max", 4, "--pool", n, "--json").json["leaves"] for n in (1, 2)]
    assert counts == [2, 3]


def test_add_all_stores_every_improvement_and_then_nothing(cli, stocked):
    done = cli("catalog", "closure", "--max", 4, "--add", "all", "--up-to", 3, "--json")
    formats = [row["format"] for row in done.json["added"]]
    assert formats == ["2x3x3", "3x3x3"]
    stored = {str(row.format): row.rank for row in Catalog().rows(ring=Ring.Z)}
    assert all(stored[row["format"]] == row["rank"] for row in done.json["added"])
    assert cli("catalog", "closure", "--max", 4, "--add", "all", "--up-to", 3, "--json").json["added"] == []
    assert cli("catalog", "fsck").code == 0


def test_a_scheme_over_z_serves_other_rings(cli, stocked):
    for ring, leaves in (("Q", 2), ("F3", 2), ("F2", 3), ("ZT", 2)):
        document = cli("catalog", "closure", "--max", 4, "--ring", ring, "--json").json
        assert (document["leaves"], lines(document)["4x4x4"]["rank"]) == (leaves, 49)
    for ring in ("Q", "F3", "F2", "ZT"):
        added = cli("catalog", "closure", "--max", 4, "--ring", ring, "--add", "4x4x4", "--json").json["added"]
        scheme = Catalog().get(added[0]["id"]).scheme
        assert scheme.ring == (Ring.Z if ring == "ZT" else Ring(ring)) and scheme.format == Format(4, 4, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max", 1), "--max 1 must lie in 2..16"),
        (("--max", 17), "--max 17 must lie in 2..16"),
        (("--up-to", 99), "--up-to 99 must lie in 2..16"),
        (("--pool", 0), "--pool 0 must be at least 1"),
        (("--ring", "R"), "unknown ring 'R'"),
        (("--add", "2x2"), "not of the form MxKxN"),
        (("--max", 4, "--add", "2x2x5"), "cannot add 2x2x5: its sizes must lie in 2..4"),
        (("--add", "1x2x2"), "cannot add 1x2x2"),
    ],
)
def test_bad_input_is_one_sentence(cli, stocked, arguments, message):
    done = cli("catalog", "closure", *arguments)
    assert done.code == 2 and message in done.err and len(done.err.strip().splitlines()) == 1


def test_without_a_catalog_it_is_the_standard_algorithm(cli, home):
    done = cli("catalog", "closure", "--max", 3)
    assert done.code == 0 and "no catalog at" in done.err and "from 0 stored schemes" in done.out
    assert not (home / "catalog").exists()
