"""``subcubic search --method player``: games by a trained network, from the command line."""

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("mctx", reason="no mctx; install the extra player")

from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.verify import is_exact
from search.player.trained import dumps, load, shipped

pytestmark = pytest.mark.usefixtures("compile_quickly")
GAME = 16 * 8  # simulations of a game of 2x2x2
WORDS = ("search", "2x2x2", "--ring", "F2", "--method", "player", "--json")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """The shipped network before its training."""
    trained = load(shipped()[Format(2, 2, 2), Ring.F2])
    path = tmp_path_factory.mktemp("untrained") / "weights.npz"
    path.write_bytes(dumps(dataclasses.replace(trained, weights=trained.player.fresh(trained.facts["seed"]))))
    return path


def test_a_trained_network_finds_what_an_untrained_one_does_not(cli, home, untrained):
    found = cli(*WORDS, "--steps", 8 * GAME)
    assert found.code == 0, found.err
    assert found.json["rank"] == 7 and found.json["status"] == "found" and found.json["verified"]
    assert found.json["steps"] <= 8 * GAME and found.json["method"] == "player"
    entry = Catalog(home / "catalog").get(found.json["id"])
    assert is_exact(entry.scheme) and entry.scheme.ring is Ring.F2
    assert entry.provenance.method == "player" and entry.provenance.options["weights"] == "shipped"
    missed = cli(*WORDS, "--steps", 8 * GAME, "--weights", untrained)
    assert missed.code == 5 and missed.json["rank"] is None and missed.json["steps"] == 8 * GAME


def test_a_search_goes_on_as_if_it_had_not_ended(cli, home, monkeypatch):
    """Blocks depend on their number and the seed alone: as many games make the same schemes in one run or in two."""
    keep = (*WORDS, "--keep", 1000)
    whole = cli(*keep, "--steps", 48 * GAME, "--catalog", home / "whole")
    assert whole.code == 5 and whole.json["steps"] == 48 * GAME
    half = cli(*keep, "--steps", 32 * GAME)
    assert 0 < len(half.json["ids"]) < len(whole.json["ids"])
    rest = cli("runs", "resume", half.json["run"], "--steps", 48 * GAME, "--json")
    assert rest.code == 5 and rest.json["steps"] == 48 * GAME, rest.err
    assert {row.id for row in Catalog(home / "catalog").rows()} == set(whole.json["ids"])
    monkeypatch.setattr("search.player.playing.Table._seal", lambda table: "another")
    other = cli("runs", "resume", half.json["run"], "--steps", 96 * GAME)
    assert other.code == 1 and "made with other weights or another seed; start a new search" in other.err


def test_a_game_over_f2_is_lifted_and_turned(cli, monkeypatch):
    """What weights can play serves other rings and other orders of the sizes."""
    from search.player import trained

    monkeypatch.setattr(trained, "shipped", lambda: {(Format(2, 2, 2), Ring.F2): shipped()[Format(2, 2, 2), Ring.F2]})
    found = cli("search", "2x2x2", "--method", "player", "--steps", 32 * GAME, "--json")
    assert found.code == 0 and found.json["ring"] == "Z" and found.json["rank"] == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["3x3x3", "--ring", "F2"], "no weights for 3x3x3 over F2 come with subcubic, which has 2x2x2 over F2"),
        (["3x3x3", "--ring", "F2"], "`subcubic train 3x3x3 --ring F2 --out FOLDER` makes them"),
        (["2x2x2", "--ring", "ZT"], "the player plays over F2 or Z; ask for ring Z, or for ZT with the method flips"),
        (["2x2x2", "--executor", "dask"], "the player runs in this process; use the executor local, not dask"),
        (["2x2x2", "--weights", "nowhere"], "no weights at"),
        (["2x2x2", "--walk", "F2"], "the method player works over F2, not over a ring of your choice"),
        (["2x2x2", "--device", "gpu"], "JAX finds no GPU; install the extra cuda13 or cuda12, or use --device cpu"),
    ],
)
def test_what_cannot_be_played_is_refused(cli, words, message):
    done = cli("search", *words, "--method", "player")
    assert done.code == (4 if "gpu" in words else 2) and message in done.err


def test_weights_of_another_format_are_refused(cli, untrained):
    done = cli("search", "2x2x3", "--ring", "F2", "--method", "player", "--weights", untrained)
    assert done.code == 2 and "play 2x2x2 over F2, not 2x2x3 over F2" in done.err
    done = cli("search", "2x2x2", "--weights", untrained)
    assert done.code == 2 and "the method flips has no network; leave weights out" in done.err


def test_shipped_weights_are_in_the_package():
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert '"search.player" = ["weights/*.npz"]' in text
    files = shipped()
    assert set(files) >= {(Format(2, 2, 2), Ring.F2), (Format(2, 2, 2), Ring.Z), (Format(2, 2, 3), Ring.F2)}
    assert sum(path.stat().st_size for path in files.values()) < 2_000_000
    for (format, ring), path in files.items():
        trained = load(path)
        assert (trained.player.board.format, trained.player.board.ring) == (format, ring)
        assert trained.facts["rank"] == (7 if format.volume == 8 else 11) and trained.facts["commit"] != "unknown"
