"""A trained network as a file: its arrays by name and a header in JSON. Reading one executes nothing.

A file is an npz archive with a float16 or float32 array for each parameter, named by its path in the network, and the
header as bytes of UTF-8. Those that come with the project lie in ``weights/``; ``subcubic train --out`` writes others.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from catalog.scheme import Format, Ring
from search.player.board import Board
from search.player.network import Sizes
from search.player.planning import Player, Search, Weights

FILE = "weights.npz"  # in the folder of a training
_VERSION = 1
_HEADER = "header"
# Larger networks than any that is affordable; an archive may claim anything.
_MOST_BYTES, _MOST_HEADER = 1 << 30, 1 << 20
# Least and most of each; tracing a network of thousands of rounds takes longer than anybody waits.
_SIZES = {"channels": (1, 1 << 12), "rounds": (1, 64), "spare": (0, 1 << 12)}
_HOTTEST = 1000.0
_WHOLE = {"games", "rank", "seed", "trained_games", "steps"}


@dataclass(frozen=True)
class Trained:
    """A network with its weights, and how it plays.

    Attributes:
        player: board and network.
        weights: its parameters, float32.
        search: for each move, as in its training.
        games: side by side, as in its training.
        change_basis: whether each game is played in a basis of its own.
        facts: of the training: rank, seed, seconds, steps, trained_games, commit.
    """

    player: Player
    weights: Weights
    search: Search
    games: int
    change_basis: bool
    facts: Mapping[str, Any]


def dumps(trained: Trained) -> bytes:
    """The file; the same network gives the same bytes."""
    board = trained.player.board
    header = {
        "version": _VERSION,
        "format": str(board.format),
        "ring": str(board.ring),
        "sizes": asdict(trained.player.sizes),
        "search": asdict(trained.search),
        "games": trained.games,
        "change_basis": trained.change_basis,
        **trained.facts,
    }
    arrays = {name: np.asarray(leaf) for name, leaf in _named(trained.weights).items()}
    data = io.BytesIO()
    np.savez_compressed(data, **{_HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)  # type: ignore[arg-type]
    return data.getvalue()


def load(place: Path) -> Trained:
    """Read a file of weights, or the one in the folder of a training.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file of weights, or not one that this version reads.
    """
    path = place / FILE if place.is_dir() else place
    if not path.exists():
        raise ValueError(f"there are no weights at {path}; `subcubic train FORMAT --out FOLDER` writes them at its end")
    if not path.is_file():  # a pipe would be waited for, and a device may have no end
        raise ValueError(f"{path} is no regular file; name a file of weights or the folder of a training")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES >> 30} GB")
            if f"{_HEADER}.npy" not in archive.namelist():
                raise ValueError("it has no header")
            if archive.getinfo(f"{_HEADER}.npy").file_size > _MOST_HEADER:
                raise ValueError(f"its header has more than {_MOST_HEADER >> 20} MB")
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(bytes(stored[_HEADER]))
            return _restored(header, {name: stored[name] for name in stored.files if name != _HEADER})
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive makes its reader raise
        said = " ".join(str(error).split())[:200] or type(error).__name__
        said = f"it lacks {said}" if type(error) is KeyError else said
        raise ValueError(f"{path} holds no weights of a player that can be read: {said}") from None


def shipped() -> dict[tuple[Format, Ring], Path]:
    """The files that come with the project, by format and ring."""
    found = {}
    for path in sorted((Path(__file__).parent / "weights").glob("*.npz")):
        format, _, ring = path.stem.partition("-")
        found[Format.parse(format), Ring(ring)] = path
    return found


def trained_for(format: Format, ring: str, place: Path | None = None) -> Trained:
    """Weights that can play a format, in any order of its sizes, for schemes over a ring.

    Over F2 games are over F2; for other rings over Z, else over F2, whose schemes are lifted.

    Args:
        format: wanted.
        ring: "F2", "F3", "Z" or "Q".
        place: a file or a folder; None for what comes with the project.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged or of another format or ring, or none comes with the project.
    """
    rings = [Ring.F2] if ring == "F2" else [Ring.Z, Ring.F2]
    remedy = f"`subcubic train {format} --ring {rings[0]} --out FOLDER` makes them"
    if place is not None:
        trained = load(place)
        own = trained.player.board
        if own.format.sorted != format.sorted or own.ring not in rings:
            raise ValueError(
                f"the weights {place} play {own.format} over {own.ring}, not {format} over {ring}; {remedy} for that"
            )
        return trained
    files = shipped()
    for own_ring in rings:
        for (own_format, other), path in files.items():
            if own_format.sorted == format.sorted and other is own_ring:
                return load(path)
    there = ", ".join(f"{own} over {other}" for own, other in files)
    raise ValueError(f"no weights for {format} over {ring} come with subcubic, which has {there}; {remedy}")


def fitted(trained: Trained, player: Player) -> Weights:
    """Weights for another player, whose network has the same shapes.

    Raises:
        ValueError: it has others.
    """
    own, wanted = _named(trained.weights), _shapes(player)
    for name in sorted(own.keys() | wanted.keys()):
        shapes = [None if name not in some else tuple(some[name].shape) for some in (own, wanted)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"weights of {_told(trained.player)} do not fit {_told(player)}: {name} has the shape {shapes[0]}, "
                f"not {shapes[1]}; train without them or with the same format, ring and --channels"
            )
    return trained.weights


def _restored(header: Any, arrays: Mapping[str, np.ndarray]) -> Trained:
    if type(header) is not dict:
        raise ValueError("its header is no object")
    if header["version"] != _VERSION:
        raise ValueError(f"its layout has version {header['version']!r}, and this is version {_VERSION}")
    player = Player(Board(Format.parse(header["format"]), Ring(header["ring"])), Sizes(**_numbers(header["sizes"])))
    bad = [name for name in _WHOLE if type(header[name]) is not int or header[name] < (name == "games")]
    if bad or type(header["seconds"]) not in (int, float):
        raise ValueError(f"its {(bad or ['seconds'])[0]} is no number of that kind")
    if type(header["change_basis"]) is not bool:
        raise ValueError("its change_basis is neither true nor false")
    facts = {name: header[name] for name in ("rank", "seed", "seconds", "steps", "trained_games", "commit")}
    wanted = _shapes(player)
    if lacking := sorted(wanted.keys() - arrays.keys()):
        raise ValueError(f"it lacks {lacking[0]}")
    for name, shape in wanted.items():
        found = arrays[name]
        if found.shape != shape.shape:
            raise ValueError(f"{name} has the shape {found.shape}, and the network needs {tuple(shape.shape)}")
        if found.dtype not in (np.float16, np.float32) or not np.isfinite(found).all():
            raise ValueError(f"{name} does not consist of finite numbers in float16 or float32")
    if more := sorted(arrays.keys() - wanted.keys()):
        raise ValueError(f"it has {more[0]}, which the network lacks")
    structure = jax.tree.structure(player.blank())
    weights = jax.tree.unflatten(structure, [jnp.asarray(arrays[name], jnp.float32) for name in wanted])
    return Trained(player, weights, _searched(header["search"]), header["games"], header["change_basis"], facts)


def _numbers(sizes: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of a network that is not beyond all reason."""
    for name, (least, most) in _SIZES.items():
        if type(number := sizes[name]) is not int or not least <= number <= most:
            raise ValueError(f"its {name} {str(number)[:40]} is no size of a network")
    return dict(sizes)


def _searched(settings: Mapping[str, Any]) -> Search:
    """How to look for a move, with the types that the compiled search relies on."""
    for name in ("simulations", "candidates"):
        if type(number := settings[name]) is not int:
            raise ValueError(f"its {name} {str(number)[:40]} is no whole number")
    heat = settings.get("temperature", 1.0)
    if type(heat) not in (int, float) or not 0 < heat <= _HOTTEST:
        raise ValueError(f"its temperature {str(heat)[:40]} is no positive number up to {_HOTTEST:g}")
    return Search(**settings)


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by their path, in the order of the tree."""
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value"): leaf for path, leaf in found}


def _shapes(player: Player) -> dict[str, Any]:
    return _named(player.blank())


def _told(player: Player) -> str:
    return f"{player.board.format} over {player.board.ring} with {player.sizes.channels} channels"
