"""The state of a campaign as named arrays and numbers, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from catalog.scheme import Ring
from search.rungs import NUMBERS, Rung
from search.walks.blocks import ARRAYS, Walk

State = dict[str, Any]
VERSION = 4
# Name under which a state holds the digests of the schemes that the search was given to start from.
STARTS = "starts"


@dataclass
class Totals:
    """What a campaign has spent and reached: rounds, blocks, steps, flips, lowest rank (0 before any), seconds."""

    rounds: int = 0
    blocks: int = 0
    steps: int = 0
    flips: int = 0
    rank: int = 0
    extras: int = 0
    seconds: float = 0.0


def save(rungs: list[Rung], totals: Totals, ring: Ring, seed: int, starts: Sequence[str] = ()) -> State:
    """Copy everything into a flat dictionary of numpy arrays, integers and floats; ``starts`` are digests."""
    state: State = {"version": VERSION, "characteristic": ring.modulus, "seed": seed, **asdict(totals)}
    state["symmetry"] = _symmetry(rungs)
    state[STARTS] = np.array(starts, dtype="U64")
    state["formats"] = np.array([rung.format for rung in rungs], np.int64)
    state["walkers"] = np.array([len(rung.walks) for rung in rungs], np.int64)
    for level, rung in enumerate(rungs):
        state[f"{level}/pool"] = np.array(rung.pool)
        for name in NUMBERS:
            state[f"{level}/{name}"] = getattr(rung, name).copy()
        for index, walk in enumerate(rung.walks):
            for name in ARRAYS:
                state[f"{level}/{index}/{name}"] = getattr(walk, name).copy()
    return state


def restore(state: State, rungs: list[Rung], totals: Totals, ring: Ring, seed: int, starts: Sequence[str] = ()) -> None:
    """Put a saved state in place of the first walks of a campaign.

    Raises:
        ValueError: the state is of another search, or one from other starts, or lacks something.
    """
    try:
        version = int(state["version"])
        if version != VERSION:
            raise ValueError(
                f"the checkpoint is of version {version} and this version of subcubic reads version {VERSION}; start "
                "the search anew"
            )
        wanted = {
            "characteristic": ring.modulus,
            "seed": seed,
            "symmetry": _symmetry(rungs),
            "formats": [list(rung.format) for rung in rungs],
            "walkers": [len(rung.walks) for rung in rungs],
        }
        for name, value in wanted.items():
            found = np.asarray(state[name]).tolist()
            if found != value:
                raise ValueError(f"the checkpoint has {name} {found}, this search {value}; resume it as it was started")
        begun = np.asarray(state[STARTS]).tolist()
        if begun != list(starts):
            raise ValueError(
                f"the checkpoint began from other schemes, {len(begun)} of them, than the {len(starts)} that this "
                "search is given; resume it with the starts that it had"
            )
        for name, value in asdict(totals).items():
            setattr(totals, name, type(value)(state[name]))
        for level, rung in enumerate(rungs):
            rung.pool[:] = [np.array(entry, np.uint64) for entry in state[f"{level}/pool"]]
            for name in NUMBERS:
                setattr(rung, name, np.array(state[f"{level}/{name}"], np.int64))
            for index, walk in enumerate(rung.walks):
                arrays = {
                    name: np.array(state[f"{level}/{index}/{name}"], getattr(walk, name).dtype) for name in ARRAYS
                }
                restored = Walk(walk.format, walk.ring, **arrays, symmetry=walk.symmetry)
                if not restored.is_sound:
                    raise ValueError("the checkpoint is damaged, its indices do not fit; start the search anew")
                rung.walks[index] = restored
    except KeyError as error:
        raise ValueError(f"the checkpoint lacks {error.args[0]!r}; start the search anew") from None


def _symmetry(rungs: list[Rung]) -> str:
    return ",".join(str(rung.symmetry) for rung in rungs if rung.symmetry)
