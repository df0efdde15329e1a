"""What a user asks for: a format over a ring by a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import reduce_mod
from search.beyond_z import rank_over_z
from search.executors import require
from search.games.game import require_playable
from search.starts import require_fitting
from search.walks.blocks import require_walkable
from search.walks.orbits import rows_of
from search.walks.symmetry import symmetry_for

WalkRing = Literal["F2", "F3", "ZT"]
_SMALL_VOLUME = 27
# Methods that play the tensor game, and what they are called.
GAMES = {"mcts": "the tree search", "player": "the player"}


@dataclass(frozen=True)
class Query:
    """What to look for and how long.

    Attributes:
        format: the sizes.
        ring: "F2", "F3", "Z", "Q", or "ZT" for Z with coefficients in {-1, 0, 1}.
        target: rank to reach.
        method: "flips" for walks in the flip graph, "symmetric" for walks on orbits of the cyclic shift (square
            formats), "mcts" for the tree search without a network, "player" for games of a trained network.
        keep: how many distinct schemes of the target rank to find before the search ends.
        steps: limit on steps of all walks together, or on simulations; then the result depends on the seed alone.
        budget_s: limit on seconds, compiling left out.
        seed: of every random choice.
        workers: threads of the walks, or processes of a Dask cluster on this machine; None for one per core.
        executor: "local", "dask" or "dask=tcp://HOST:PORT", see ``search.executors``.
        walkers: walks on the format itself, at least four per worker to keep all of them busy.
        checkpoint_s: seconds between checkpoints.
        report_rungs: whether schemes of smaller formats that the walks pass through are reported as well.
        walk: ring of the walks of the method "flips" for another ring than F2: F2 or ZT; None for what suits the
            format. Schemes over F2 are lifted.
        diagonal: of the symmetric walk's start, for example "10001,01010,00100"; None for a choice by the target.
        symmetry: group of the symmetric walk, "Z3", "Z3T" or "Z3A" (see ``search.walks.symmetry.Symmetry``).
        weights: of the player, a file or the folder of a training; None for those that come with the project.
    """

    format: Format
    ring: str
    target: int
    method: Literal["flips", "symmetric", "mcts", "player"] = "flips"
    keep: int = 1
    steps: int | None = None
    budget_s: float | None = None
    seed: int = 0
    workers: int | None = None
    executor: str = "local"
    walkers: int = 8
    checkpoint_s: float = 10.0
    report_rungs: bool = False
    walk: Literal["F2", "ZT"] | None = None
    diagonal: str | None = None
    symmetry: str = "Z3"
    weights: str | None = None


def check(query: Query, starts: Sequence[Scheme] = ()) -> None:
    """Refuse a query that cannot be carried out, or starts that do not fit it.

    Raises:
        ValueError: the message says what and why.
    """
    if query.ring not in ("F2", "F3", "ZT", "Z", "Q"):
        raise ValueError(f"unknown ring {query.ring!r}; choose F2, F3, ZT, Z or Q")
    if query.method not in ("flips", "symmetric", "mcts", "player"):
        raise ValueError(f"unknown method {query.method!r}; choose flips, symmetric, mcts or player")
    if query.keep < 1:
        raise ValueError(f"keep is {query.keep}; it must be at least 1")
    if query.walkers < 1:
        raise ValueError(f"walkers is {query.walkers}; it must be at least 1")
    require(query.executor)
    if query.method in GAMES:
        what = GAMES[query.method]
        if query.method == "mcts":
            require_playable(query.format)
        if query.executor != "local":
            raise ValueError(f"{what} runs in this process; use the executor local, not {query.executor}")
        if query.ring == "ZT":
            raise ValueError(
                f"{what} plays over F2{' or Z' if query.method == 'player' else ''}; ask for ring Z, or for "
                "ZT with the method flips"
            )
        if starts:
            raise ValueError(f"{what} starts at the empty board; use the method flips to start from a scheme")
    else:
        require_walkable(query.format)
    if query.weights is not None and query.method != "player":
        raise ValueError(f"the method {query.method} has no network; leave weights out or use the method player")
    if query.walk is not None and query.method != "flips":
        raise ValueError(
            f"the method {query.method} works over F2, not over a ring of your choice; leave walk {query.walk} out or "
            "use the method flips"
        )
    if query.walk is not None and query.ring == "F2":
        raise ValueError(f"schemes over F2 come from walks over F2 alone; leave walk {query.walk} out")
    if query.method == "symmetric":
        if query.ring == "F3":
            raise ValueError("the symmetric walk is over F2; ask for ring Z, whose schemes hold over F3 too")
        group = symmetry_for(query.format, query.target, query.diagonal, query.symmetry).group
        for scheme in starts:
            rows_of(reduce_mod(scheme, Ring.F2), group)
    elif query.diagonal is not None:
        raise ValueError(f"the method {query.method} has no diagonal; leave it out or use the method symmetric")
    elif query.symmetry != "Z3":
        raise ValueError(f"the method {query.method} keeps no symmetry; leave it out or use the method symmetric")
    for scheme in starts:
        require_fitting(scheme, query.format, ring_of_walks(query))


def ring_of_walks(query: Query) -> WalkRing:
    """Where to walk: small formats over Z at once, which is as quick and finds ternary schemes, others over F2.

    Below the ranks known over Z, schemes over F3 and Q are looked for over F3.
    """
    if query.method != "flips" or query.ring == "F2":
        return "F2"
    if query.walk is not None:
        return query.walk
    if query.ring in ("F3", "Q") and query.target < rank_over_z(query.format):
        return "F3"
    return "ZT" if query.format.volume <= _SMALL_VOLUME else "F2"
