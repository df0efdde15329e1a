"""Checkpoints of training on disk: everything that the next round depends on, replaced whole."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import sys
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

    Attributes:
        damage: sentences about those that ``latest`` could not read and put aside.

    Args:
        folder: theirs alone; made if it is not there.
        course: that they belong to; when it ends may differ.

    Raises:
        ValueError: the folder holds those of another course.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, course: Course) -> None:
        import orbax.checkpoint as orbax

        logging.getLogger("absl").setLevel(logging.CRITICAL)  # what fails is raised, and said in one sentence
        self._course, self._orbax = course, orbax
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {name: value for name, value in asdict(course).items() if name not in _LIMITS}
        text = json.dumps({**wanted, "format": str(course.format), "ring": str(course.ring)}, indent=1)
        self.damage: list[str] = []
        if (folder / _COURSE).exists():
            if not (folder / _COURSE).is_file() or (folder / _COURSE).read_bytes() != text.encode():
                raise ValueError(f"{folder} holds the training of another course; choose an empty folder")
        else:
            write_durably(folder / _COURSE, text.encode())
        options = orbax.CheckpointManagerOptions(max_to_keep=_KEPT, create=True, enable_async_checkpointing=False)
        self._rounds = (folder / "rounds").absolute()
        for begun in self._rounds.glob("*.orbax-checkpoint-tmp*"):  # by a process that was killed
            shutil.rmtree(begun, ignore_errors=True)
        self._manager = orbax.CheckpointManager(self._rounds, options=options)

    def save(self, state: State) -> None:
        """Save a state; when this returns it survives whatever happens to the process.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._manager.latest_step() == state.rounds:
            return
        hook = sys.unraisablehook
        # Where a disk is full, writes that were given up end in a loop that is closed, and each of them says so there.
        sys.unraisablehook = lambda what: None if what.exc_type is RuntimeError else hook(what)
        try:
            self._manager.save(state.rounds, args=self._orbax.args.StandardSave(_tree(state)), force=True)
            self._manager.wait_until_finished()
        except Exception as error:  # of the file system, in whatever words its writer finds
            said = " ".join(str(error).split())
            why = said.rpartition(": ")[2][:200] or type(error).__name__
            raise OSError(
                f"cannot write the checkpoint of round {state.rounds} to {self._rounds}: {why}; make room, and the "
                f"same command goes on after round {self._manager.latest_step() or 0}"
            ) from None
        sys.unraisablehook = hook

    def latest(self) -> State | None:
        """The last state that can be read; None before any.

        Newer ones that are damaged are put aside, since their rounds are played and saved again.

        Raises:
            OSError: one cannot be put aside.
            ValueError: there are some and none can be read.
        """
        steps = sorted(self._manager.all_steps(), reverse=True)
        if not steps:
            return None
        blank = begin(self._course)
        template = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), _tree(blank))
        said = dict[int, str]()
        for step in steps:
            try:
                tree = self._manager.restore(step, args=self._orbax.args.StandardRestore(template))
                state = _state(blank, tree)
            except MemoryError:
                raise
            except Exception as error:  # whatever a damaged file makes its reader raise
                said[step] = " ".join(str(error).split())[:200] or type(error).__name__
                continue
            for number, why in said.items():
                self._put_aside(number, why)
            return state
        raise ValueError(
            f"the checkpoint of round {steps[0]} cannot be read ({said[steps[0]]}); start the training anew in "
            "another folder"
        )

    def _put_aside(self, step: int, why: str) -> None:
        place = self._rounds.parent / f"damaged-{step}-{secrets.token_hex(4)}"
        (self._rounds / str(step)).rename(place)
        self._manager.reload()
        self.damage.append(f"the checkpoint of round {step} cannot be read ({why}) and lies in {place} now")

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
