"""A tiny batch of games and a few steps of training: ``python -m tests.search.player.spread_outcome FILE``.

Run in a process with several devices, its results are those of one.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from catalog.scheme import Format, Ring
from search.player.episodes import openings, play
from search.player.harvest import DRAWN
from search.player.learning import Games, empty_replay, optimizer, stored, train
from search.player.presets import course

# As in the tests of ``train``, so that what one of them compiles serves the others.
_TINY = {"games": 4, "simulations": 4, "candidates": 4, "channels": 4, "batch": 8, "warm": 0}
COURSE = course(Format(1, 1, 2), Ring.F2, "small", rounds=1, **_TINY)
PLAYER, SEARCH, LESSONS, GAMES = COURSE.player, COURSE.search, COURSE.lessons, COURSE.games


def outcome() -> dict[str, Any]:
    """Arrays by name, and on how many devices the games and their positions in training were."""
    board, weights = PLAYER.board, PLAYER.fresh(0)
    start, _ = openings(board, jax.random.key(0), GAMES, True)
    record = play(PLAYER, SEARCH, weights, start, jax.random.key(1))
    replay = stored(empty_replay(board, SEARCH, LESSONS), record)
    none = Games(np.zeros((DRAWN, board.limit, 3), np.int32), np.int32(0), np.int32(board.limit))
    state = weights, optimizer(LESSONS).init(weights)
    (learned, _), losses = train(PLAYER, LESSONS, False, state, replay, none, jax.random.key(2))
    arrays = {f"record/{name}": np.asarray(getattr(record, name)) for name in record._fields}
    arrays |= {f"weights/{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(learned))}
    devices = len(record.residual.sharding.device_set)
    return {**arrays, "losses": np.asarray(losses), "devices": np.array(devices)}


if __name__ == "__main__":
    np.savez(Path(sys.argv[1]), **outcome())
