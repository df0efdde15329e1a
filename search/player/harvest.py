"""What self-play brings in: exact schemes, and a pool of the player's own games of the lowest rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Scheme
from search.player.board import Board
from search.player.ending import left_after, scheme_of
from search.player.episodes import Record
from search.player.repair import repaired

# Own games kept, those of a step of training, and games of a batch that are looked at.
KEPT, DRAWN, _LOOKED_AT = 4096, 512, 64


@dataclass
class Pool:
    """Games of the lowest rank whose moves the board can play.

    Attributes:
        moves: [KEPT, t, 3] int32, t moves of the standard algorithm, of which ``rank`` count.
        number: of games.
        rank: of each; the standard algorithm's before any.
        lowest: rank of the best scheme found, playable or not.
    """

    moves: NDArray[np.int32]
    number: int
    rank: int
    lowest: int

    @classmethod
    def empty(cls, board: Board) -> Pool:
        """No game yet."""
        return cls(np.zeros((KEPT, board.limit, 3), np.int32), 0, board.limit, board.limit + 1)

    def add(self, moves: NDArray[np.int64]) -> bool:
        """Add a game [rank, 3] unless it is known or longer than the others; the oldest goes where there is no room."""
        rank = len(moves)
        if rank > self.rank:
            return False
        if rank < self.rank:
            self.number, self.rank = 0, rank
        ordered = moves[np.lexsort(moves.T)]
        place = self.number % KEPT
        filled = self.moves[: min(self.number, KEPT), :rank]
        if (filled == ordered).all(axis=(1, 2)).any():
            return False
        self.moves[place] = 0
        self.moves[place, :rank] = ordered
        self.number += 1
        return True

    def drawn(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Some of the games, [DRAWN, t, 3]."""
        some = min(self.number, KEPT)
        if some <= DRAWN:
            return self.moves[:DRAWN]
        return self.moves[rng.choice(some, DRAWN, replace=False)]


def gather(
    board: Board,
    pool: Pool,
    record: Record,
    kept: NDArray[np.int64],
    lengths: NDArray[np.int64],
    bases: Sequence[NDArray[np.int64]],
    repair: int = 0,
) -> list[Scheme]:
    """Put the shortest games of a batch into the pool.

    Args:
        board: format and ring.
        pool: to add to.
        record: of B games.
        kept: moves before each game began, [B, s, 3].
        lengths: how many of them, [B].
        bases: in which each was played, three of [B, d, d].
        repair: steps of a walk in the flip graph from the end of each game; 0 for none.

    Returns:
        Schemes of lower rank than any before, each lower than the one before it.
    """
    terms, steps, paths = np.asarray(record.terms), np.asarray(record.steps), np.asarray(record.path)
    starts = np.asarray(record.start)
    total = terms + lengths
    found: list[Scheme] = []
    for game in np.argsort(total, kind="stable")[:_LOOKED_AT].tolist():
        if total[game] > pool.rank and not repair:
            break
        path = paths[game, : steps[game]]
        residual = left_after(board, starts[game], path)
        moves = np.concatenate([kept[game, : lengths[game]], path])
        scheme = scheme_of(board, moves, residual, tuple(basis[game] for basis in bases))
        if repair:
            scheme = repaired(scheme, repair, game)
        if scheme.rank < pool.lowest:
            pool.lowest = scheme.rank
            if scheme.rank < board.limit:
                found.append(scheme)
        played = board.numbers(tuple(factor.T for factor in scheme.factors))
        if played is not None and len(np.unique(played, axis=0)) == len(played):
            pool.add(played)
    return found
