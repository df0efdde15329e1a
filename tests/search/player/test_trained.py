"""Files of weights: what is written is read, and what is damaged or of another network is refused."""

import io
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest

from catalog.scheme import Format, Ring
from search.player.board import Board
from search.player.network import Sizes
from search.player.planning import Player, Search
from search.player.trained import Trained, dumps, fitted, load, shipped, trained_for

FACTS = {"rank": 7, "seed": 3, "seconds": 1.5, "steps": 10, "trained_games": 4, "commit": "abc"}


def player_of(format="2x2x2", ring=Ring.F2, channels=2):
    return Player(Board(Format.parse(format), ring), Sizes(channels=channels, rounds=1))


@pytest.fixture(scope="module")
def trained():
    player = player_of()
    return Trained(player, player.fresh(3), Search(5, 6), 7, True, FACTS)


@pytest.fixture(scope="module")
def members(trained):
    with np.load(io.BytesIO(dumps(trained)), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def written(path, members, **header):
    """A file with some of its header or arrays changed."""
    told = json.loads(bytes(members["header"])) | header
    np.savez(path, **{**members, "header": np.frombuffer(json.dumps(told).encode(), np.uint8)})
    return path


def test_what_is_written_is_read(trained, tmp_path):
    data = dumps(trained)
    assert data == dumps(trained)
    (tmp_path / "weights.npz").write_bytes(data)
    for place in (tmp_path, tmp_path / "weights.npz"):
        again = load(place)
        assert (again.player, again.search, again.games, again.facts) == (trained.player, Search(5, 6), 7, FACTS)
        assert again.change_basis is True
        assert jax.tree.structure(again.weights) == jax.tree.structure(trained.weights)
        for one, other in zip(jax.tree.leaves(again.weights), jax.tree.leaves(trained.weights), strict=True):
            assert one.dtype == np.float32 and np.array_equal(one, other)


def test_halves_are_read_as_floats(trained, members, tmp_path):
    half = {name: array.astype(np.float16) if array.dtype == np.float32 else array for name, array in members.items()}
    again = load(written(tmp_path / "half.npz", half))
    for one, other in zip(jax.tree.leaves(again.weights), jax.tree.leaves(trained.weights), strict=True):
        assert one.dtype == np.float32 and np.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"version": 2}, "its layout has version 2, and this is version 1"),
        ({"format": "2x2"}, "2x2"),
        ({"ring": "F3"}, "over F2 or Z, not F3"),
        ({"format": "2x2x3"}, "has the shape .*, and the network needs"),
        ({"sizes": {"channels": 10**9, "rounds": 1, "spare": 5}}, "its channels 1000000000 is no size of a network"),
        ({"sizes": {"channels": 3, "rounds": 1, "spare": 5}}, "has the shape .*, and the network needs"),
        ({"sizes": {"channels": 2, "rounds": 2, "spare": 5}}, "it lacks rounds/1"),
        ({"games": 0}, "its games is no number of that kind"),
        ({"change_basis": 1}, "its change_basis is neither true nor false"),
        ({"rank": "7"}, "its rank is no number of that kind"),
        ({"search": {"simulations": 5, "candidates": 65}}, "a node holds at most 64"),
        ({"search": {"simulations": 2.5, "candidates": 6}}, "its simulations 2.5 is no whole number"),
        ({"search": {"simulations": 5}}, "it lacks 'candidates'"),
        ({"search": {"simulations": 5, "candidates": 6, "temperature": float("nan")}}, "its temperature nan is no pos"),
        ({"search": {"simulations": 5, "candidates": 6, "temperature": 10**400}}, "its temperature 1000.* is no pos"),
        ({"sizes": {"channels": 2, "rounds": 4096, "spare": 5}}, "its rounds 4096 is no size of a network"),
        ({"sizes": {"channels": 2, "rounds": 0, "spare": 5}}, "its rounds 0 is no size of a network"),
        ({"sizes": {"channels": 0, "rounds": 1, "spare": 5}}, "its channels 0 is no size of a network"),
    ],
)
def test_headers_that_make_no_sense_are_refused(members, tmp_path, header, message):
    path = written(tmp_path / "bad.npz", members, **header)
    with pytest.raises(ValueError, match=f"bad.npz holds no weights of a player that can be read: .*{message}"):
        load(path)


def test_damaged_arrays_are_refused(members, tmp_path):
    name = next(name for name in members if name.startswith("value"))
    for wrong in (np.full_like(members[name], np.nan), members[name].astype(np.int32)):
        with pytest.raises(ValueError, match=f"{name} does not consist of finite numbers"):
            load(written(tmp_path / "bad.npz", {**members, name: wrong}))
    with pytest.raises(ValueError, match="it has more, which the network lacks"):
        load(written(tmp_path / "bad.npz", {**members, "more": np.zeros(3, np.float32)}))
    with pytest.raises(ValueError, match="can be read: .*header"):
        np.savez(tmp_path / "bad.npz", **{name: members[name]})
        load(tmp_path / "bad.npz")
    for data in (b"", b"nonsense", (tmp_path / "bad.npz").read_bytes()[:200]):
        (tmp_path / "bad.npz").write_bytes(data)
        with pytest.raises(ValueError, match="holds no weights"):
            load(tmp_path / "bad.npz")
    with pytest.raises(
        ValueError, match="there are no weights at .*; `subcubic train FORMAT --out FOLDER` writes them"
    ):
        load(tmp_path)


def test_reading_executes_nothing(members, tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    name = next(name for name in members if name.startswith("value"))
    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    np.savez(tmp_path / "trap.npz", **{**members, name: trap})
    with pytest.raises(ValueError, match="holds no weights of a player that can be read: Object arrays cannot"):
        load(tmp_path / "trap.npz")


def test_weights_go_where_their_shapes_fit(trained):
    assert fitted(trained, player_of()) is trained.weights
    for other in (player_of("2x2x3"), player_of(ring=Ring.Z), player_of(channels=3)):
        with pytest.raises(ValueError, match="weights of 2x2x2 over F2 with 2 channels do not fit .*; train without"):
            fitted(trained, other)


def test_shipped_weights_are_chosen_by_format_and_ring():
    assert trained_for(Format(2, 3, 2), "F2").player.board.format == Format(2, 2, 3)
    assert trained_for(Format(2, 2, 2), "Q").player.board.ring is Ring.Z
    # Where there are none over Z, those over F2 serve, and what they find is lifted.
    assert trained_for(Format(3, 2, 2), "Z").player.board.ring is Ring.F2
    with pytest.raises(ValueError, match="no weights for 2x3x4 over Z come with subcubic"):
        trained_for(Format(2, 3, 4), "Z")
    with pytest.raises(ValueError, match="play 2x2x2 over Z, not 2x2x2 over F2"):
        trained_for(Format(2, 2, 2), "F2", shipped()[Format(2, 2, 2), Ring.Z])


def test_what_is_no_regular_file_is_refused(tmp_path):
    """Reading a pipe would wait for ever, and reading /dev/zero would fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "run" / "weights.npz").mkdir(parents=True)
    for place in (tmp_path / "pipe", tmp_path / "run", Path("/dev/zero")):
        with pytest.raises(ValueError, match="is no regular file; name a file of weights"):
            load(place)


def test_headers_beyond_all_reason_are_refused(members, tmp_path):
    np.savez_compressed(tmp_path / "long.npz", **{**members, "header": np.full(1 << 21, 32, np.uint8)})
    with pytest.raises(ValueError, match="its header has more than 1 MB"):
        load(tmp_path / "long.npz")
    np.savez(tmp_path / "list.npz", **{**members, "header": np.frombuffer(b"[]", np.uint8)})
    with pytest.raises(ValueError, match="its header is no object"):
        load(tmp_path / "list.npz")
    np.savez(tmp_path / "none.npz", **{name: array for name, array in members.items() if name != "header"})
    with pytest.raises(ValueError, match="it has no header"):
        load(tmp_path / "none.npz")
