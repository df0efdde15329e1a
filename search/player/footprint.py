"""How much memory a player takes, estimated before anything is allocated, and how much its device has.

The factors are fits to what XLA reports of compiled play and training (``memory_analysis``) on a CPU, for 2x2x2 over F2
and Z and 2x3x3 over F2 with 16 and 32 channels; there they are within a tenth.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import jax

from search.player.board import Board
from search.player.course import Course
from search.player.harvest import DRAWN, KEPT
from search.player.learning import SHOWN
from search.player.network import Sizes
from search.player.planning import Player, Search, memory

# Arrays [positions, vectors, channels] float32 that are alive at a time: where a position is looked at, and where moves
# are looked at in it; in play, and in training, which keeps them for the gradient, those of a look for every round.
_PLAY_LOOK, _PLAY_MOVES = 7, 2
_TRAIN_LOOK, _TRAIN_MOVES = 26, 14
# Copies of the parameters: weights and two moments, in and out, and the gradient.
_COPIES = 7
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Footprint:
    """Bytes on each device, estimates.

    Attributes:
        trees: of the games that are played side by side.
        play: what the network has at hand while they are searched.
        records: positions and policies of a batch of games, twice.
        training: what a step of training has at hand.
        replay: positions that are kept, twice while some are added, and own games.
        parameters: of the network, with the optimizer's, and its Fourier transforms.
    """

    trees: int
    play: int
    records: int
    training: int
    replay: int
    parameters: int

    @property
    def total(self) -> int:
        """At the worst time: games and training take turns."""
        return max(self.trees + self.play + self.records, self.training) + self.replay + self.parameters

    def __str__(self) -> str:
        kept = self.replay + self.parameters + self.records
        return (
            f"about {size(self.total)} of memory: trees {size(self.trees)}, network in play {size(self.play)}, in "
            f"training {size(self.training)}, kept {size(kept)}"
        )


def of_play(board: Board, sizes: Sizes, search: Search, games: int, devices: int = 1) -> Footprint:
    """What playing takes, without any training.

    Args:
        board: format and ring.
        sizes: of the network.
        search: for each move.
        games: side by side.
        devices: that share them.
    """
    own = -(-games // devices)
    looks, moves = _arrays(board, sizes)
    move = board.limit * 3 * 4
    position = _position(board, search)
    return Footprint(
        trees=memory(board, search, own),
        play=own * (_PLAY_LOOK * looks + _PLAY_MOVES * search.candidates * moves),
        records=2 * own * (board.limit * position + 2 * move),
        training=0,
        replay=0,
        parameters=_parameters(board, sizes) * 4 + _transforms(board),
    )


def of_course(course: Course, devices: int = 1) -> Footprint:
    """What a training takes on each of the devices that share its batches."""
    board, sizes, lessons = course.player.board, course.sizes, course.lessons
    played = of_play(board, sizes, course.search, course.games, devices)
    looks, moves = _arrays(board, sizes)
    known, seen = lessons.batch + max(lessons.batch // 2, 1), max(lessons.batch // 4, 1)
    looked_at, followed = known + seen, known * SHOWN + seen * course.search.candidates
    training = (_TRAIN_LOOK * sizes.rounds * looked_at * looks + _TRAIN_MOVES * followed * moves) // devices
    games = (KEPT + DRAWN) * board.limit * 3 * 4
    return Footprint(
        trees=played.trees,
        play=played.play,
        records=played.records,
        training=training,
        replay=2 * lessons.memory * _position(board, course.search) + games,
        parameters=_COPIES * _parameters(board, sizes) * 4 + _transforms(board),
    )


def room() -> int:
    """Bytes that are free for JAX on its first device: of a GPU what JAX may take, of a CPU the machine's."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return min(_machine(), _allowed())


def require_room(needed: Footprint, options: str) -> None:
    """Refuse what does not fit, before anything is allocated.

    Args:
        needed: the estimate.
        options: to lower, for the message.

    Raises:
        ValueError: the estimate is above what the device has.
    """
    free = room()
    if needed.total > free:
        raise ValueError(
            f"this takes {needed}, and the {jax.devices()[0].platform.upper()} has {size(free)} free; lower {options}"
        )


def size(count: int) -> str:
    """Bytes in MB or GB."""
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def _arrays(board: Board, sizes: Sizes) -> tuple[int, int]:
    """Bytes of an array for a position that is looked at, all factors together, and for a move in it, the later two."""
    a, b, c = (board.points(mode) for mode in board.order)
    return 4 * sizes.channels * (a + b + c), 4 * sizes.channels * (b + c)


def _position(board: Board, search: Search) -> int:
    """Bytes of a position that is kept with its candidates, see ``search.player.learning.Replay``."""
    d0, d1, d2 = board.sizes
    return d0 * d1 * d2 + search.candidates * (3 * 2 + 2) + 8


def _transforms(board: Board) -> int:
    """Bytes of the Fourier transforms, see ``search.player.fields.characters``."""
    return sum((board.p - 1) * board.points(mode) ** 2 * 4 for mode in range(3))


def _parameters(board: Board, sizes: Sizes) -> int:
    return sum(int(leaf.size) for leaf in jax.tree.leaves(Player(board, sizes).blank()))


def _machine() -> int:
    """Bytes that processes can still have, caches given up; as far as the system tells, else without a limit."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _NO_LIMIT


def _allowed() -> int:
    """Bytes that a container of this process may still take, caches of files given up; no limit where there is none."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = ((folder / f"memory.{name}").read_text(encoding="ascii").strip() for name in ("max", "current"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return _NO_LIMIT if most == "max" else max(0, int(most) - int(used) + int(stat.get("file", 0)))
    except (OSError, ValueError):
        return _NO_LIMIT
