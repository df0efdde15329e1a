"""What a campaign looks for and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catalog.scheme import Format, Ring
from search import executors
from search.walks.blocks import require_walkable
from search.walks.orbits import require_square
from search.walks.symmetry import Symmetry


@dataclass(frozen=True)
class Config:
    """What to look for and how long.

    Attributes:
        format: the sizes; every matrix has at most 64 blocks.
        ring: of the walks: "F2", "F3", or "ZT" for Z with coefficients in {-1, 0, 1}.
        goal: ring of the schemes in the end, named as on the command line; None for that of the walks. Where they are
            to be lifted from F2, schemes that do not lift are dead ends and are not walked on from.
        target: rank at which the campaign ends.
        steps: steps of all walks together before it ends, counted from the start of the campaign; None for no limit.
        budget_s: seconds before it ends, counted likewise and without compiling; None for no limit.
        seed: of every random choice.
        workers: threads, or processes of a Dask cluster on this machine; None for one per core.
        executor: "local", "dask" or "dask=tcp://HOST:PORT", see ``search.executors``.
        walkers: walks on this format. Rounds end together: four walks or more per worker keep all of them busy.
        plus_interval, margin, restart: see ``search.walks.policies.Policy``; None for a portfolio that suits the
            format.
        climb: whether to search smaller formats as well and start from what is found there.
        symmetry: to walk on orbits (``search.walks.walk_symmetric``, ``search.walks.walk_z3t``), square formats over F2
            only; then no smaller format is searched.
        checkpoint_s: seconds between checkpoints.
        extras: how many other distinct schemes of the lowest rank are reported beside the first one.
        report_rungs: whether schemes of smaller formats are reported as well, one of every new lowest rank.

    Raises:
        ValueError: a value makes no sense or there is no limit.
    """

    format: Format
    ring: Literal["F2", "F3", "ZT"]
    target: int
    goal: str | None = None
    steps: int | None = None
    budget_s: float | None = None
    seed: int = 0
    workers: int | None = None
    executor: str = "local"
    walkers: int = 8
    plus_interval: int | None = None
    margin: int | None = None
    restart: int | None = None
    climb: bool = True
    symmetry: Symmetry | None = None
    checkpoint_s: float = 10.0
    extras: int = 8
    report_rungs: bool = False

    def __post_init__(self) -> None:
        require_walkable(self.format)
        executors.require(self.executor)
        if self.ring not in ("F2", "F3", "ZT"):
            raise ValueError(f"flip-graph walks need ring F2, F3 or ZT, not {self.ring}")
        if self.symmetry is not None:
            require_square(self.format)
            if self.ring != "F2":
                raise ValueError(f"symmetric walks need ring F2, not {self.ring}; lift what they find")
        if self.steps is None and self.budget_s is None:
            raise ValueError("a campaign needs a limit; give steps or budget_s")
        limits = [("target", self.target, 0), ("steps", self.steps, 1), ("budget_s", self.budget_s, 0)]
        limits += [("workers", self.workers, 1), ("walkers", self.walkers, 1), ("margin", self.margin, 0)]
        limits += [("plus_interval", self.plus_interval, 1), ("restart", self.restart, 1)]
        for name, value, least in limits:
            if value is not None and not value >= least:  # refuses NaN too
                raise ValueError(f"{name} is {value}; it must be at least {least}")

    @property
    def scheme_ring(self) -> Ring:
        """Ring of the schemes that are yielded."""
        return Ring.Z if self.ring == "ZT" else Ring(self.ring)
