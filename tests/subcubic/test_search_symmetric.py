"""subcubic search --method symmetric."""

import pytest

from catalog.store import Catalog
from catalog.verify import is_exact


@pytest.mark.parametrize("ring", ["F2", "Z", "ZT", "Q"])
@pytest.mark.parametrize(("format", "rank"), [("2x2x2", 7), ("3x3x3", 23)])
def test_the_symmetric_walk_serves_every_ring_that_it_lifts_to(cli, ring, format, rank):
    done = cli("search", format, "--method", "symmetric", "--ring", ring, "--budget", "30s", "--seed", 1, "--json")
    assert done.code == 0, done.err
    assert (done.json["rank"], done.json["ring"], done.json["method"]) == (rank, ring, "symmetric")
    scheme = Catalog().get(done.json["id"]).scheme
    assert is_exact(scheme) and (scheme.is_ternary or ring not in ("ZT",))


def test_a_symmetric_search_depends_on_seed_and_diagonal_alone_and_resumes(cli, home):
    def search(*options):
        return cli("search", "4x4x4", "--ring", "F2", "--method", "symmetric", "--seed", 3, "--json", *options).json

    whole = [search("--target", 46, "--steps", 2_000_000, "--workers", w) for w in (1, 2)]
    assert len({(run["rank"], run["id"], run["steps"]) for run in whole}) == 1
    # Three cubes: the rank stays a multiple of three. A catalog with better schemes would not take them.
    diagonal = ("--diagonal", "1100,0010,0001", "--target", 46, "--catalog", home / "three")
    half = search(*diagonal, "--steps", 300_000)
    on = cli("runs", "resume", half["run"], "--steps", 900_000, "--json").json
    once = search(*diagonal, "--steps", 900_000)
    same = ("rank", "steps", "flips", "id")
    assert [on[key] for key in same] == [once[key] for key in same] and on["rank"] % 3 == 0 and on["id"]


def test_a_search_with_the_transpose_lifts_is_repeatable_and_resumes_with_its_symmetry(cli):
    def search(*options):
        return cli(
            "search", "4x4x4", "--method", "symmetric", "--symmetry", "Z3A", "--seed", 2, "--json", *options
        ).json

    lifted = search("--target", 49, "--steps", 60_000_000)
    assert (lifted["status"], lifted["rank"], lifted["ring"]) == ("found", 49, "Z")
    half = search("--ring", "F2", "--target", 40, "--steps", 300_000)
    resumed = cli("runs", "resume", half["run"], "--steps", 900_000, "--json").json
    once = search("--ring", "F2", "--target", 40, "--steps", 900_000)
    same = ("rank", "steps", "flips", "id")
    assert [resumed[key] for key in same] == [once[key] for key in same] and resumed["id"]


def test_a_symmetric_search_starts_from_a_symmetric_scheme_only(cli):
    first = cli("search", "3x3x3", "--ring", "F2", "--method", "symmetric", "--seed", 1, "--json").json
    again = cli("search", "3x3x3", "--ring", "F2", "--method", "symmetric", "--from", first["id"], "--json")
    assert again.code == 0 and again.json["steps"] == 0
    plain = cli("search", "3x3x3", "--ring", "F2", "--seed", 1, "--json").json
    refused = cli("search", "3x3x3", "--ring", "F2", "--method", "symmetric", "--from", plain["id"])
    assert refused.code == 2 and "not invariant under the cyclic shift" in refused.err.replace("\n", " ")
