"""What is to be learned, and how much: the configuration of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.scheme import Format, Ring
from search.player.board import Board
from search.player.learning import Lessons
from search.player.network import Sizes
from search.player.planning import Player, Search


@dataclass(frozen=True)
class Course:
    """A training run.

    Attributes:
        format: the sizes.
        ring: F2 or Z.
        seed: of the first weights and of every random choice.
        games: played side by side.
        again: share of them that begin at what is left of an own game, once there is one.
        change_basis: whether games from the opening are played in random bases; over Z every other one is.
        repair: steps of a walk in the flip graph from the end of each game; 0 for none, which is how the player's own
            part is measured.
        sizes: of the network.
        search: for each move.
        lessons: of the network.
        target: rank at which training ends; 0 for none.
        hits: share of the games from the opening that must reach the target as well before it ends.
        rounds: of training and playing before it ends; None for no limit.
        budget_s: seconds before it ends, counted over all parts of a run that was resumed; None for no limit.

    Raises:
        ValueError: a value makes no sense or there is no limit.
    """

    format: Format
    ring: Ring = Ring.F2
    seed: int = 0
    games: int = 256
    again: float = 0.6
    change_basis: bool = True
    repair: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    search: Search = field(default_factory=Search)
    lessons: Lessons = field(default_factory=Lessons)
    target: int = 0
    hits: float = 0.0
    rounds: int | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        Board(self.format, self.ring)  # refuses what cannot be played
        numbers: list[tuple[str, int | None, int]] = [
            ("games", self.games, 1),
            ("seed", self.seed, 0),
            ("target", self.target, 0),
        ]
        numbers += [("rounds", self.rounds, 1), ("batch", self.lessons.batch, 1)]
        numbers += [("steps", self.lessons.steps, 1)]
        numbers += [("warm", self.lessons.warm, 0), ("channels", self.sizes.channels, 1)]
        numbers += [("network rounds", self.sizes.rounds, 1), ("memory", self.lessons.memory, 1)]
        for name, value, least in numbers:
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        for name, share in (("again", self.again), ("hits", self.hits)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; it must lie between 0 and 1")
        if self.budget_s is not None and not self.budget_s > 0:  # refuses NaN too
            raise ValueError(f"budget_s is {self.budget_s}; it must be positive")
        if self.rounds is None and self.budget_s is None:
            raise ValueError("training needs a limit; give rounds or budget_s")

    @property
    def player(self) -> Player:
        """Board and network."""
        return Player(Board(self.format, self.ring), self.sizes)
