import json

import pytest

from catalog.errors import CatalogError
from catalog.known import classical, strassen
from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from search.query import Query
from subcubic.search_run import Outcome
from subcubic.search_verb import _verdict

KEYS = {
    "schema_version",
    "status",
    "format",
    "ring",
    "rank",
    "best_known",
    "id",
    "seconds",
    "steps",
    "seed",
    "verified",
    "run",
    "compile_seconds",
    "ids",
}


@pytest.mark.parametrize(("ring", "rank"), [("F2", 7), ("ZT", 7), ("Z", 7), ("Q", 7), ("F3", 7)])
def test_search_finds_proves_and_stores(cli, ring, rank):
    done = cli("search", "2x2x2", "--ring", ring, "--seed", 1, "--budget", "30s", "--json")
    assert done.code == 0, done.err
    assert done.json.keys() >= KEYS
    assert (done.json["status"], done.json["rank"], done.json["verified"]) == ("found", rank, True)
    assert done.json["id"] in [row.id for row in Catalog().rows()]
    assert cli("catalog", "verify", done.json["id"][:12], "--symbolic").code == 0


def test_blas_letters_are_read_by_name(cli):
    done = cli("search", "--m", 2, "--n", 3, "--k", 1, "--budget", "5s")
    assert "search 2x1x3 (A 2x1 . B 1x3)" in done.err
    assert done.code == 0  # the standard algorithm has the known rank


@pytest.mark.parametrize("method", ["flips", "mcts"])
def test_with_steps_the_seed_decides_alone(cli, method):
    found = [
        cli("search", "2x2x3", "--method", method, "--steps", 2_000_000, "--seed", 5, "--workers", w, "--json").json
        for w in (1, 2, 3)
    ]
    assert len({(run["rank"], run["id"], run["steps"]) for run in found}) == 1
    assert found[0]["rank"] == 11


def test_keep_gathers_distinct_schemes(cli):
    done = cli("search", "2x2x3", "--ring", "F2", "--keep", 12, "--seed", 1, "--json").json
    assert len(set(done["ids"])) == len(done["ids"]) >= 12
    assert {row.rank for row in Catalog().rows()} == {11}


def test_a_missed_target_is_exit_code_5_and_can_be_resumed(cli, home):
    first = cli("search", "3x3x3", "--ring", "F2", "--target", 22, "--steps", 400_000, "--seed", 2, "--json")
    assert first.code == 5 and first.json["status"] == "budget"
    listed = cli("runs", "list", "--json").json["runs"]
    assert [run["run"] for run in listed] == [first.json["run"]]
    on = cli("runs", "resume", first.json["run"], "--steps", 1_200_000, "--json")
    assert on.code == 5 and on.json["steps"] >= 1_200_000
    whole = cli("search", "3x3x3", "--ring", "F2", "--target", 22, "--steps", 1_200_000, "--seed", 2, "--json")
    assert (whole.json["rank"], whole.json["steps"]) == (on.json["rank"], on.json["steps"])
    lines = (home / "runs" / first.json["run"] / "progress.jsonl").read_text().splitlines()
    assert first.json["id"] in [json.loads(line).get("stored") for line in lines]


def test_a_search_can_start_from_a_stored_scheme(cli):
    first = cli("search", "2x2x2", "--ring", "F2", "--seed", 1, "--json").json
    done = cli("search", "2x2x3", "--ring", "F2", "--from", first["id"], "--seed", 1, "--json")
    assert done.code == 0 and done.json["rank"] == 11


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["3x4"], 2, "'3x4' is not of the form MxKxN"),
        (["0x2x2"], 2, "m=0"),
        (["2x2x2", "--m", "2"], 2, "not both"),
        (["--m", "2", "--n", "2"], 2, "all of --m --n --k"),
        (["2x2x2", "--target", "-3"], 2, "target rank -3 must be at least 1"),
        (["2x2x2", "--target", "6"], 2, "impossible"),
        (["2x2x2", "--ring", "F5"], 2, "unknown ring 'F5'"),
        (["2x2x2", "--budget", "soon"], 2, "budget 'soon'"),
        (["2x2x2", "--budget", "-1s"], 2, "budget '-1s'"),
        (["2x2x2", "--steps", "0"], 2, "--steps 0"),
        (["2x2x2", "--workers", "0"], 2, "0"),
        (["2x2x2", "--method", "magic"], 2, "magic"),
        (["2x2x2", "--device", "gpu"], 4, "GPU"),
        (["9x9x9", "--ring", "F2"], 2, "at most 64"),
        (["2x2x2", "--ring", "ZT", "--method", "mcts"], 2, "F2"),
        (["4x4x4", "--method", "mcts"], 2, "flips"),
        (["2x2x3", "--method", "symmetric"], 2, "format 2x2x3 is not square"),
        (["9x9x9", "--method", "symmetric"], 2, "at most 64"),
        (["3x3x3", "--method", "symmetric", "--ring", "F3"], 2, "ask for ring Z"),
        (["3x3x3", "--method", "symmetric", "--diagonal", "110,01"], 2, "'01' is not a vector of 3 digits"),
        (["3x3x3", "--method", "symmetric", "--diagonal", ""], 2, "--diagonal '' is empty"),
        (["3x3x3", "--method", "symmetric", "--diagonal", "110,011"], 2, "index 2 in 2 of its terms"),
        (["3x3x3", "--diagonal", "110,001"], 2, "the method flips has no diagonal"),
        (["3x3x3", "--method", "symmetric", "--walk", "ZT"], 2, "the method symmetric works over F2"),
        (["2x2x2", "--method", "mcts", "--walk", "F2"], 2, "leave walk F2 out or use the method flips"),
        (["3x3x3", "--ring", "F2", "--walk", "ZT"], 2, "schemes over F2 come from walks over F2 alone"),
        (["4x4x4", "--symmetry", "Z3T"], 2, "the method flips keeps no symmetry"),
        (["4x4x4", "--method", "symmetric", "--symmetry", "Z4"], 2, "'Z4' is not one of 'Z3', 'Z3T', 'Z3A'"),
        (["3x3x3", "--method", "symmetric", "--symmetry", "Z3A", "--diagonal", "110,001"], 2, "read backwards"),
        (["2x2x2", "--seed", "-1"], 2, "--seed -1"),
        (["2x2x2", "--seed", str(1 << 64)], 2, "2^63"),
        (["2x2x2", "--from", "beef"], 1, "'beef'"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, code, says):
    done = cli("search", *arguments)
    assert done.code == code
    assert says in done.err.replace("\n", " ")
    assert Catalog().rows() == []
    assert cli("runs", "list", "--json").json["runs"] == []


@pytest.mark.parametrize(
    ("start", "arguments", "says"),
    [
        (classical(Format(3, 3, 3)), ["2x2x2"], "a 3x3x3 scheme does not fit into 2x2x2"),
        (classical(Format(2, 2, 5)), ["3x3x3"], "a 2x2x5 scheme does not fit into 3x3x3"),
        (strassen(Ring.F2), ["2x2x3", "--ring", "ZT"], "is not ternary over Z"),
        (strassen(Ring.F2), ["2x2x3", "--ring", "Z", "--walk", "ZT"], "is not ternary over Z"),
        (strassen(Ring.F3), ["2x2x3", "--ring", "F2"], "cannot reduce a scheme over F3 to F2"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_a_run_begins(cli, start, arguments, says):
    identity = Catalog().add(start, Provenance("test", "made for a test")).id
    done = cli("search", *arguments, "--from", identity, "--steps", 1000)
    assert done.code == 2 and says in done.err.replace("\n", " ")
    assert cli("runs", "list", "--json").json["runs"] == []


def test_a_start_with_a_slice_more_fits(cli):
    identity = Catalog().add(classical(Format(2, 3, 2)), Provenance("test", "made for a test")).id
    assert cli("search", "2x2x2", "--from", identity, "--ring", "F2", "--seed", 1).code == 0


def test_a_run_whose_checkpoint_cannot_be_used_has_failed(cli, home):
    begun = cli("search", "3x3x3", "--ring", "F2", "--target", 20, "--steps", 1000, "--seed", 1, "--json").json
    (home / "runs" / begun["run"] / "checkpoint.npz").write_bytes(b"nothing")
    done = cli("runs", "resume", begun["run"], "--steps", 2000)
    assert done.code == 1 and "is damaged" in done.err
    (row,) = cli("runs", "list", "--json").json["runs"]
    assert (row["status"], row["rank"], row["id"]) == ("failed", begun["rank"], begun["id"])


def test_a_run_whose_finds_cannot_be_stored_has_failed(cli, monkeypatch):
    def full(*_):
        raise CatalogError("cannot write to the catalog: no space left")

    monkeypatch.setattr(Catalog, "add_many", full)
    done = cli("search", "2x2x2", "--ring", "F2", "--seed", 1)
    assert done.code == 1 and "no space left" in done.err
    assert [row["status"] for row in cli("runs", "list", "--json").json["runs"]] == ["failed"]


def test_runs_stop_and_resume_refuse_what_makes_no_sense(cli):
    done = cli("search", "2x2x2", "--ring", "F2", "--json").json
    assert cli("runs", "stop", done["run"]).code == 1
    assert cli("runs", "stop", "nope").code == 1
    assert cli("runs", "resume", "nope").code == 1


def test_a_run_remembers_its_catalog_and_its_new_limits(cli, home):
    options = ("--ring", "F2", "--target", 22, "--steps", 300_000, "--catalog", home / "mine")
    first = cli("search", "3x3x3", *options, "--json")
    assert cli("runs", "resume", first.json["run"], "--steps", 600_000, "--json").json["steps"] >= 600_000
    assert not (home / "catalog").exists() and Catalog(home / "mine").rows()
    assert cli("runs", "list", "--json").json["runs"][0]["steps"] == 600_000


def test_a_damaged_run_is_listed_as_such(cli, home):
    run = cli("search", "2x2x2", "--ring", "F2", "--json").json["run"]
    (home / "runs" / run / "config.toml").write_text("steps = ")
    assert cli("runs", "list", "--json").json["runs"][0]["status"] == "damaged"
    assert "damaged" in cli("runs", "resume", run).err


def test_parents_are_kept(cli):
    first = cli("search", "2x2x2", "--ring", "F2", "--seed", 1, "--json").json
    second = cli("search", "2x2x3", "--ring", "F2", "--from", first["id"], "--json").json
    assert Catalog().get(second["id"]).provenance.parents == (first["id"],)


def test_the_tree_search_says_that_it_cannot_resume(cli):
    run = cli("search", "2x2x2", "--method", "mcts", "--json").json["run"]
    assert "keeps no checkpoint" in cli("runs", "resume", run).err


def test_a_time_limit_is_kept_while_lifting(cli):
    done = cli("search", "3x3x4", "--target", 28, "--budget", "4s", "--seed", 1, "--json")
    assert done.code == 5 and 4 <= done.json["seconds"] < 12


def test_what_is_worse_than_stored_is_not_stored(cli):
    assert cli("search", "3x3x3", "--ring", "F2", "--seed", 1).code == 0
    worse = cli("search", "3x3x3", "--ring", "F2", "--target", 22, "--steps", 40_000, "--seed", 5)
    assert worse.code == 5
    assert {row.rank for row in Catalog().rows()} == {23}


def test_small_formats_over_z_come_out_ternary(cli):
    for text in ("2x2x2", "2x3x3", "3x3x3"):
        cli("search", text, "--seed", 3)
    assert all(row.ternary for row in Catalog().rows()) and len(Catalog().rows()) == 3


@pytest.mark.parametrize("cut", [1_500_000, 3_900_000])
def test_a_resumed_search_finds_what_the_uncut_one_finds(cli, home, cut):
    options = ("3x3x3", "--ring", "ZT", "--keep", 3, "--seed", 1)
    whole = cli("search", *options, "--steps", 4_000_000, "--catalog", home / "whole", "--json").json
    part = cli("search", *options, "--steps", cut, "--catalog", home / "cut", "--json").json
    on = cli("runs", "resume", part["run"], "--steps", 4_000_000, "--json").json
    assert on["rank"] == whole["rank"] == 23 and on["id"]
    ids = [{row.id for row in Catalog(home / name).rows() if row.rank == 23} for name in ("whole", "cut")]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("ring", "walked", "failed", "given_up", "says"),
    [
        ("Z", "F2", 2, 0, "rank 46 over F2, and 2 of their schemes did not lift to Z: ask for --ring F2 or for a"),
        (
            "Q",
            "F3",
            1,
            1,
            "rank 46 over F3, and 1 of their schemes did not lift to Q and 1 lift to Q had to be given up",
        ),
        ("F3", "F2", 0, 2, "2 lifts to F3 had to be given up: ask for --ring F2, for a higher --target or go on with"),
        ("Z", "F2", 0, 0, None),
    ],
)
def test_the_verdict_names_the_rings_and_tells_a_lift_that_failed_from_one_given_up(
    ring, walked, failed, given_up, says
):
    query = Query(Format(4, 4, 4), ring, 46, steps=1)
    outcome = Outcome(walk_rank=46, walk_ring=walked, lift_failures=failed, lifts_given_up=given_up)
    text = _verdict(query, outcome)
    assert says in text if says else "lift" not in text


def test_the_exit_code_survives_a_reader_that_leaves(home):
    import os
    import subprocess
    import sys

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [
        sys.executable,
        "-m",
        "subcubic",
        "search",
        "3x3x3",
        "--ring",
        "F2",
        "--target",
        "22",
        "--steps",
        "50000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 5
    assert Catalog().rows()
