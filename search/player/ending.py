"""The end of a game: what is left is written as rank-one terms, slice by slice, and the whole as a scheme."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catalog.sandwich import inverse
from catalog.scheme import Ring, Scheme
from catalog.verify import require_exact
from search.player.board import Board

Vectors = NDArray[np.int64]


def scheme_of(
    board: Board, moves: ArrayLike, residual: ArrayLike, bases: tuple[ArrayLike, ...] | None = None
) -> Scheme:
    """The scheme of a game: its moves, then the terms that the plain slice-rank bound counts.

    Args:
        board: format and ring.
        moves: [t, 3] numbers of vectors.
        residual: [d0, d1, d2], what the moves leave.
        bases: three invertible matrices [d, d] in which the game was played; None for the standard ones.

    Raises:
        NotExactError: moves and residual do not add up to the matrix multiplication tensor.
    """
    played = np.asarray(moves, dtype=np.int64).reshape(-1, 3)
    rest = slice_terms(board, np.asarray(residual, dtype=np.int64))
    factors = []
    for mode in range(3):
        vectors = board.vectors(mode)[played[:, mode]].astype(np.int64)
        whole = np.concatenate([vectors, rest[mode]])
        if bases is not None:
            back = inverse("a basis", np.asarray(bases[mode], dtype=np.int64), board.ring)
            whole = whole @ np.array(back, dtype=object).astype(np.int64).T
        factors.append(whole.T % 2 if board.ring is Ring.F2 else whole.T)
    return require_exact(Scheme(board.format, board.ring, *factors))


def left_after(board: Board, start: ArrayLike, moves: ArrayLike) -> Vectors:
    """What is left of a position [d0, d1, d2] after moves [t, 3]."""
    played = np.asarray(moves, dtype=np.int64).reshape(-1, 3)
    u, v, w = (board.vectors(mode)[played[:, mode]].astype(np.int64) for mode in range(3))
    left = np.asarray(start, dtype=np.int64) - np.einsum("ta,tb,tc->abc", u, v, w)
    return left % 2 if board.ring is Ring.F2 else left


def slice_terms(board: Board, residual: Vectors) -> tuple[Vectors, Vectors, Vectors]:
    """Rank-one terms that add up to a residual, as few as the plain slice-rank bound says: three of [t, d].

    Over Z a slice of rank r is the product of r columns and r rows of integers by Euclid's algorithm on its rows.
    """
    best: tuple[Vectors, Vectors, Vectors] | None = None
    for mode in range(3):
        slices = np.moveaxis(residual, mode, 0)
        found: list[tuple[Vectors, Vectors, Vectors]] = []
        for index, matrix in enumerate(slices):
            unit = np.zeros(len(slices), np.int64)
            unit[index] = 1
            for left, right in _matrix_terms(matrix, board.ring):
                term = [left, right]
                term.insert(mode, unit)
                found.append((term[0], term[1], term[2]))
        if best is None or len(found) < len(best[0]):
            best = _stacked(found, residual.shape)
    assert best is not None
    return best


def _stacked(terms: list[tuple[Vectors, Vectors, Vectors]], sizes: tuple[int, ...]) -> tuple[Vectors, Vectors, Vectors]:
    a, b, c = (
        np.array([term[mode] for term in terms], np.int64).reshape(len(terms), size) for mode, size in enumerate(sizes)
    )
    return a, b, c


def _matrix_terms(matrix: Vectors, ring: Ring) -> list[tuple[Vectors, Vectors]]:
    """Columns and rows whose products add up to a matrix, as many as its rank."""
    rows = [[int(entry) for entry in row] for row in matrix]
    # matrix = columns . rows throughout; each step on the rows is undone on the columns.
    columns = np.eye(len(rows), dtype=object)
    top = 0
    for at in range(matrix.shape[1]):
        while True:
            some = [i for i in range(top, len(rows)) if rows[i][at]]
            if not some:
                break
            least = min(some, key=lambda i: abs(rows[i][at]))
            rows[top], rows[least] = rows[least], rows[top]
            columns[:, [top, least]] = columns[:, [least, top]]
            for i in range(top + 1, len(rows)):
                if times := rows[i][at] // rows[top][at]:
                    rows[i] = [x - times * y for x, y in zip(rows[i], rows[top], strict=True)]
                    columns[:, top] += times * columns[:, i]
            if ring is Ring.F2:
                rows = [[entry % 2 for entry in row] for row in rows]
            if not any(rows[i][at] for i in range(top + 1, len(rows))):
                top += 1
                break
    return [(columns[:, i].astype(np.int64), np.array(rows[i], np.int64)) for i in range(top)]
