import json
import os
from itertools import product

import numpy as np
import pytest

from catalog import formats
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import extend

ROW = {
    "id",
    "format",
    "ring",
    "rank",
    "best_known",
    "ternary",
    "additions",
    "additions_cse",
    "growth",
    "planes_a",
    "planes_b",
    "publications",
    "source",
}

MADE = Provenance("test", "made for a test")


@pytest.fixture
def stocked(home):
    catalog = Catalog()
    schemes = [strassen(), winograd(), strassen(Ring.F2), extend(winograd(), "n"), classical(Format(2, 2, 3))]
    return [added.id for added in catalog.add_many((s, Provenance("test")) for s in schemes)]


def test_list_shows_every_scheme_with_its_gap(cli, stocked):
    rows = cli("catalog", "list", "--json").json["schemes"]
    assert {row["id"] for row in rows} == set(stocked)
    assert all(row.keys() >= ROW for row in rows)
    assert [(row["rank"], row["best_known"]) for row in rows if row["format"] == "2x2x3"] == [(11, 11), (12, 11)]
    text = cli("catalog", "list", "2x3x2").out
    assert text.count("2x2x3") == 2 and "2x2x2" not in text
    assert [row["ring"] for row in cli("catalog", "list", "--ring", "F2", "--json").json["schemes"]] == ["F2"]


def test_list_filters_sorts_and_says_how_many_there_are(cli, stocked):
    ranks = [row["rank"] for row in cli("catalog", "list", "--sort", "rank", "--reverse", "--json").json["schemes"]]
    assert ranks == sorted(ranks, reverse=True) and len(ranks) == len(stocked)
    near = cli("catalog", "list", "--max-gap", 0, "--max-rank", 10, "--text", "TEST", "--json").json
    assert near["count"] == 3 and {row["rank"] for row in near["schemes"]} == {7}
    short = cli("catalog", "list", "--limit", 2)
    assert len(short.out.splitlines()) == 3 and "2 of 5; --limit 5 shows all" in short.err
    Catalog().record(stocked[1], {"row": {"ratio": 1.25, "correct": True}})
    first = cli("catalog", "list", "--sort", "speed", "--json").json["schemes"][0]
    assert (first["id"], first["speed"]) == (stocked[1], 1.25)
    for text in ("nobody", "\udcff"):  # the second is a byte that is no text
        assert "leave one out" in cli("catalog", "list", "--text", text).err
    for words in (("--limit", 0), ("--max-rank", 0), ("--sort", "beauty")):
        assert cli("catalog", "list", *words).code == 2


def test_best_takes_formats_in_any_order(cli, stocked):
    best = cli("catalog", "best", "3x2x2", "--json").json["schemes"]
    assert [(row["format"], row["rank"]) for row in best] == [("2x2x3", 11)]
    assert cli("catalog", "best", "5x5x5").code == 1


def test_show_prints_formulas_factors_and_a_picture(cli, stocked, home):
    shown = cli("catalog", "show", stocked[0][:10], "--factors", "--plot", home / "s.png", "--json").json
    assert (shown["rank"], shown["additions"], len(shown["U"])) == (7, 18, 4)
    assert (home / "s.png").read_bytes().startswith(b"\x89PNG")
    text = cli("catalog", "show", "3x2x2").out
    assert "turned from 2x2x3 by role permutation" in text and "M11 = " in text
    assert cli("catalog", "show", "winograd", "--json").json["additions_cse"] == 15


def test_show_says_who_found_a_scheme_and_gives_its_factors_in_full(cli, home):
    rational = sandwich(classical(Format(4, 4, 4), Ring.Q), *(factor * np.eye(4, dtype=int) for factor in (1, 2, 1)))
    made = Provenance(
        "test", source="a file", discoverer="Ada", citation="A paper", licence="MIT", parents=("12", "34")
    )
    identity = Catalog().add(rational, made).id
    shown = cli("catalog", "show", identity, "--factors", "--json").json
    assert [shown[key] for key in ("discoverer", "citation", "licence")] == ["Ada", "A paper", "MIT"]
    assert shown["denominators"] == [1, 2, 1] and shown["parents"] == ["12", "34"]
    text = cli("catalog", "show", identity, "--factors").out
    assert "parents          12, 34\n" in text and "licence          MIT\n" in text
    for head, name in (("U", "U"), ("2 V", "V"), ("W", "W")):
        assert f"\n{head} =\n" + " ".join(map(str, shown[name][0])) + "\n" in text
    assert "parents          -\n" in cli("catalog", "show", "winograd").out


def test_ids_stand_to_the_left_whatever_they_begin_with():
    from subcubic.output import table

    assert table(("id", "rank"), [("7c79c3bce0a1", 7)]).splitlines()[0] == "id            rank"
    assert table(("rank", "recipe"), [(7, "2x2x2:7 [20723262]")]).splitlines()[0] == "rank  recipe"


def test_verify_reads_files_without_importing(cli, stocked, home):
    wrong = winograd().W.copy()
    wrong[2, 3] += 1
    formats.write(Scheme(Format(2, 2, 2), Ring.Z, winograd().U, winograd().V, wrong), home / "wrong.json")
    done = cli("catalog", "verify", home / "wrong.json", "--symbolic", "--json")
    assert done.code == 3
    assert len(done.json["id"]) == 64 and done.json["reference"].endswith("wrong.json")
    assert done.json["exact"] is False and done.json["symbolic"] is False
    assert "coefficient of a[" in done.json["first_violation"]
    refused = cli("catalog", "import", home / "wrong.json")
    assert refused.code == 3 and "not exact" in refused.err
    assert len(Catalog().rows()) == len(stocked)
    assert cli("export", home / "wrong.json").code == 3


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_export_and_import_round_trip(cli, stocked, home, suffix, monkeypatch):
    path = home / f"scheme.{suffix}"
    assert cli("catalog", "export", stocked[0], "-o", path).code == 0
    assert cli("catalog", "import", path, "--json").json["imported"][0]["status"] == "duplicate"
    monkeypatch.setenv("SUBCUBIC_CATALOG", str(home / "second"))
    imported = cli("catalog", "import", path, "--json").json["imported"][0]
    assert (imported["status"], imported["id"]) == ("new", stocked[0])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1, 2]", b'{"format": "2x2x2"}', b"PK\x03\x04 not really", b"\x00" * 100, b'{"U": [[1e400]]}'],
)
def test_corrupt_files_are_refused_by_name(cli, stocked, home, content):
    path = home / "broken.json"
    path.write_bytes(content)
    for command in (("catalog", "import", path), ("catalog", "verify", path), ("export", path)):
        done = cli(*command)
        assert done.code == 1
        if "none of the formats" in done.err:
            assert "`subcubic catalog import --help`" in done.err
        assert "broken.json" in done.err and len(done.err.strip().splitlines()) == 1
    assert len(Catalog().rows()) == len(stocked)


def test_pickles_are_never_loaded(cli, home):
    path = home / "evil.npz"
    np.savez(path, U=np.array([{"a": 1}], dtype=object))
    assert cli("catalog", "import", path).code == 1


def test_unknown_and_ambiguous_references(cli, stocked):
    assert cli("catalog", "show", "ffff0000ffff").code == 1
    assert cli("catalog", "show", "").code == 2
    assert cli("catalog", "show", "2x2").code == 2
    assert "search 4x4x4" in cli("catalog", "show", "4x4x4").err
    misspelt = cli("catalog", "show", "strasen")
    assert misspelt.code == 1 and "built-in name (strassen, winograd" in misspelt.err
    assert "`subcubic catalog list`" in misspelt.err and "`subcubic catalog list`" in cli("export", "ffff").err
    assert cli("catalog", "export", "winograd", "-o", "scheme.txt").code == 2


def test_fsck_names_a_flipped_bit(cli, stocked):
    assert cli("catalog", "fsck").code == 0
    shard = next((Catalog().path / "shards").glob("*.h5"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)
    done = cli("catalog", "fsck", "--json")
    assert done.code == 1
    assert shard.name in done.json["bad"][0]["path"]
    assert "sound copy" in cli("catalog", "fsck").err
    # What the index lists is not hashed at every reading.
    (Catalog().path / "index.h5").unlink()
    (line,) = (check["detail"] for check in cli("doctor", "--json").json["checks"] if check["name"] == "catalog")
    assert "1 damaged files left out" in line


def test_an_unwritable_place_is_one_sentence(cli, home):
    (home / "catalog").write_text("a file where the folder should be")
    done = cli("search", "2x2x2", "--ring", "F2")
    assert done.code == 1 and len([li for li in done.err.splitlines() if li.startswith("subcubic:")]) == 1
    assert str(home / "catalog") in done.err


def test_json_errors_are_documents_too(cli):
    done = cli("catalog", "show", "beef", "--json")
    assert done.code == 1
    assert json.loads(done.out)["exit_code"] == 1


def test_merge_and_compact_keep_every_scheme(cli, stocked, home):
    second = home / "second"
    assert cli("search", "2x3x3", "--ring", "F2", "--catalog", second).code == 0
    assert cli("catalog", "merge", second, "--json").json["new"] == 1
    again = cli("catalog", "merge", second, "--json").json
    assert again == {"schema_version": 1, "new": 0, "duplicate": 1, "left_out": []}
    before = {row.id for row in Catalog().rows()}
    assert cli("catalog", "compact", "--json").json["shards"] == 1
    assert {row.id for row in Catalog().rows()} == before and len(before) == len(stocked) + 1
    assert cli("catalog", "fsck").code == 0
    (home / "papers").mkdir()
    for other in ("nowhere", "papers"):
        refused = cli("catalog", "merge", home / other)
        assert refused.code == 1 and "there is no catalog at" in refused.err
    assert not list((home / "papers").iterdir())


def test_merging_a_damaged_catalog_takes_the_rest_and_says_so(cli, stocked, home):
    second = home / "second"
    for scheme in ("4x4x2", "4x4x3"):
        formats.write(classical(Format.parse(scheme)), home / f"{scheme}.json")
        assert cli("catalog", "import", home / f"{scheme}.json", "--catalog", second).code == 0
    shard = min((second / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    for left in ("listed", "unlisted"):  # the index knows the shard, or is made anew without it
        found = cli("catalog", "merge", second, "--json")
        assert found.code == 1 and found.json["new"] + found.json["duplicate"] == 1, left
        assert len(found.json["left_out"]) == 1 and shard.name in found.err
        (second / "index.h5").unlink(missing_ok=True)


def test_rings_are_named_as_in_search(cli, stocked):
    assert all(row["ternary"] for row in cli("catalog", "list", "--ring", "zt", "--json").json["schemes"])
    assert cli("catalog", "list", "--ring", "F4").code == 2


def test_a_catalog_that_is_not_there_is_said(cli, home):
    (home / "papers").mkdir()
    for verb, place in product(("list", "best", "fsck", "compact"), ("mistyped", "papers")):
        done = cli("catalog", verb, "--catalog", home / place)
        assert done.code == 0 and "no catalog at" in done.err and "`subcubic catalog merge starter`" in done.err
        assert not (home / "mistyped").exists() and not list((home / "papers").iterdir())


def test_one_bad_file_does_not_keep_the_others_out(cli, home):
    formats.write(strassen(), home / "good.json")
    (home / "bad.npz").write_bytes(b"PK" + bytes(range(256)) * 9)
    os.mkfifo(home / "fifo")
    done = cli("catalog", "import", home / "bad.npz", home / "fifo", "/dev/zero", home / "good.json", "--json")
    assert done.code == 1
    assert [row["status"] for row in done.json["imported"]] == ["new"] and len(done.json["refused"]) == 3


def test_best_counts_schemes_over_z_for_every_ring(home, cli):
    three = extend(strassen(Ring.F2), "n")
    Catalog().add_many([(strassen(), MADE), (extend(strassen(), "n", 2), MADE), (three, MADE)])
    for ring in ("F2", "Q"):
        (found,) = cli("catalog", "best", "2x2x2", "--ring", ring, "--json").json["schemes"]
        assert (found["ring"], found["rank"]) == ("Z", 7)
    rows = {(row["format"], row["ring"]): row["rank"] for row in cli("catalog", "best", "--json").json["schemes"]}
    assert rows == {("2x2x2", "Z"): 7, ("2x2x4", "Z"): 15, ("2x2x3", "F2"): 11}
    Catalog().add(extend(strassen(), "n"), MADE)
    rows = {(row["format"], row["ring"]) for row in cli("catalog", "best", "--json").json["schemes"]}
    assert ("2x2x3", "F2") not in rows


def test_an_empty_answer_names_what_was_asked_for(home, cli):
    Catalog().add(strassen(), MADE)
    assert "search 3x3x3 --ring F3" in cli("catalog", "list", "3x3x3", "--ring", "F3").err
