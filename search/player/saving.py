"""Checkpoints of training on disk: everything that the next round depends on, replaced whole."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from catalog.files import write_durably
from search.player.course import Course
from search.player.harvest import Pool
from search.player.learning import Replay
from search.player.training import State, begin

# The one before the last stays until the last is whole.
_KEPT = 2
_COURSE = "course.json"
# What may differ where a run goes on: when it ends.
_LIMITS = ("target", "hits", "rounds", "budget_s")


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: theirs alone; made if it is not there.
        course: that they belong to; when it ends may differ.

    Raises:
        ValueError: the folder holds those of another course.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, course: Course) -> None:
        import orbax.checkpoint as orbax

        self._course, self._orbax = course, orbax
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {name: value for name, value in asdict(course).items() if name not in _LIMITS}
        text = json.dumps({**wanted, "format": str(course.format), "ring": str(course.ring)}, indent=1)
        if (folder / _COURSE).exists():
            if (folder / _COURSE).read_text(encoding="utf-8") != text:
                raise ValueError(f"{folder} holds the training of another course; choose an empty folder")
        else:
            write_durably(folder / _COURSE, text.encode())
        options = orbax.CheckpointManagerOptions(max_to_keep=_KEPT, create=True, enable_async_checkpointing=False)
        self._manager = orbax.CheckpointManager((folder / "rounds").absolute(), options=options)

    def save(self, state: State) -> None:
        """Save a state; when this returns it survives whatever happens to the process.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._manager.latest_step() == state.rounds:
            return
        self._manager.save(state.rounds, args=self._orbax.args.StandardSave(_tree(state)), force=True)
        self._manager.wait_until_finished()

    def latest(self) -> State | None:
        """The last state that was saved whole; None before any.

        Raises:
            ValueError: it cannot be read.
        """
        step = self._manager.latest_step()
        if step is None:
            return None
        blank = begin(self._course)
        template = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), _tree(blank))
        try:
            tree = self._manager.restore(step, args=self._orbax.args.StandardRestore(template))
        except Exception as error:  # whatever a damaged file makes its reader raise
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise ValueError(
                f"the checkpoint of round {step} cannot be read ({said}); start the training anew"
            ) from None
        return _state(blank, tree)

    def close(self) -> None:
        """Wait for what is under way."""
        self._manager.close()


def _tree(state: State) -> dict[str, Any]:
    """Arrays alone, in containers that the format keeps."""
    return {
        "weights": list(jax.tree.leaves(state.weights)),
        "moments": [np.asarray(leaf) for leaf in jax.tree.leaves(state.moments)],
        "replay": list(state.replay),
        "games": state.pool.moves,
        "counts": np.array([state.pool.number, state.pool.rank, state.pool.lowest, state.rounds, state.played]),
        "seconds": np.array([state.seconds]),
    }


def _state(blank: State, tree: dict[str, Any]) -> State:
    # What was read is bound to its device, for which all would be compiled anew.
    weights, moments, replay = (
        [jnp.asarray(np.asarray(leaf)) for leaf in tree[name]] for name in ("weights", "moments", "replay")
    )
    number, rank, lowest, rounds, played = (int(value) for value in tree["counts"])
    return State(
        jax.tree.unflatten(jax.tree.structure(blank.weights), weights),
        jax.tree.unflatten(jax.tree.structure(blank.moments), moments),
        Replay(*replay),
        Pool(np.array(tree["games"]), number, rank, lowest),
        rounds,
        played,
        float(tree["seconds"][0]),
    )
