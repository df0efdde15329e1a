"""Games in a batch against plain integers, and endings against the bound."""

import jax
import numpy as np
import pytest

from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring
from catalog.verify import NotExactError, is_exact
from search.games.game import moves_of
from search.player.board import Board
from search.player.ending import scheme_of, slice_terms

BOARDS = [Board(Format(2, 2, 2), Ring.F2), Board(Format(2, 2, 2), Ring.Z), Board(Format(2, 1, 3), Ring.Z)]
pytestmark = pytest.mark.usefixtures("compile_quickly")
boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: f"{board.format}-{board.ring}")


def numbers(board, scheme):
    """The terms of a ternary scheme as moves."""
    return board.numbers([factor.T for factor in scheme.factors])


def random_moves(board, count, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(1, board.points(mode), count) for mode in range(3)], -1)


def test_strassen_ends_the_game():
    for ring in (Ring.F2, Ring.Z):
        board = Board(Format(2, 2, 2), ring)
        moves = numbers(board, strassen(ring))
        after, bound = jax.jit(board.after), jax.jit(board.bound)
        residual = board.opening()[None].astype(np.int32)
        bounds = [int(bound(residual)[0])]
        for move in moves:
            residual = after(residual, move[None])
            bounds.append(int(bound(residual)[0]))
        assert bounds[0] == 8 and bounds[-1] == 0 and bounds[-2] == 1
        # The plain bound rises on the way: by itself it leads away from Strassen's scheme.
        assert max(bounds) > 8
        assert digest(scheme_of(board, moves, np.asarray(residual[0]))) == digest(strassen(ring))
        assert (np.asarray(board.total(moves[None], np.array([7]))) == board.opening()).all()
        if ring is Ring.F2:
            assert (moves == moves_of(strassen(ring))).all()


@boards
def test_what_is_left_is_written_as_its_bound_says(board):
    total = np.asarray(board.total(random_moves(board, 6).reshape(2, 3, 3), np.array([1, 3])))
    for residual, bound in zip(total, np.asarray(jax.jit(board.bound)(total)), strict=True):
        u, v, w = slice_terms(board, residual.astype(np.int64))
        assert len(u) == bound
        assert (np.asarray(board.reduced(np.einsum("ta,tb,tc->abc", u, v, w))) == residual).all()


def test_the_bound_over_the_integers_is_not_that_modulo_three():
    board = Board(Format(1, 1, 1), Ring.Z)
    assert int(board.bound(np.full((1, 1, 1, 1), 3))[0]) == 1
    assert Board(Format(1, 1, 1), Ring.F2).bound(np.full((1, 1, 1, 1), 2))[0] == 0


@boards
def test_games_in_other_bases_end_as_schemes(board):
    bases = jax.jit(board.bases, static_argnums=1)(jax.random.key(3), 5)
    residual = jax.jit(board.changed)(np.broadcast_to(board.opening(), (5, *board.sizes)).astype(np.int32), bases)
    moves = random_moves(board, 5, seed=4)
    left = jax.jit(board.after)(residual, moves)
    bounds = np.asarray(jax.jit(board.bound)(left))
    left, bases = np.asarray(left), [np.asarray(basis) for basis in bases]
    schemes = set()
    for game in range(5):
        scheme = scheme_of(board, moves[game], left[game], tuple(basis[game] for basis in bases))
        assert is_exact(scheme) and scheme.ring is board.ring
        assert scheme.rank == 1 + int(bounds[game])
        schemes.add(digest(scheme))
    assert len(schemes) > 1


def test_a_game_that_does_not_add_up_is_refused():
    board = BOARDS[0]
    with pytest.raises(NotExactError):
        scheme_of(board, random_moves(board, 1), board.opening())


@boards
def test_moves_that_differ_by_signs_alone_are_played_once(board):
    for mode in range(3):
        signs = board.p - 1 if mode != board.order[2] else 1
        assert board.playable(mode).sum() * signs == board.points(mode) - 1 and not board.playable(mode)[0]
    if board.ring is Ring.F2:
        return
    moves = random_moves(board, 20)
    factors = [board.vectors(mode)[moves[:, mode]].astype(int) for mode in range(3)]
    played = board.numbers(factors)
    assert all(board.playable(mode)[played[:, mode]].all() for mode in range(3))
    assert (np.asarray(board.terms(played)) == np.asarray(board.terms(moves))).all()
    assert (board.numbers([-factors[0], -factors[1], factors[2]]) == played).all()
    assert board.numbers([2 * factors[0], *factors[1:]]) is None


def test_what_cannot_be_played_is_refused():
    with pytest.raises(ValueError, match="over F2 or Z, not F3"):
        Board(Format(2, 2, 2), Ring.F3)
    with pytest.raises(ValueError, match="format 4x4x4 over F2 has factors of 65536 vectors.*use the method flips"):
        Board(Format(4, 4, 4), Ring.F2)
    with pytest.raises(ValueError, match="format 3x3x3 over Z has factors of 19683 vectors"):
        Board(Format(3, 3, 3), Ring.Z)
    assert Board(Format(3, 3, 3), Ring.F2).limit == 27


def test_the_opening_is_the_product():
    board = Board(Format(2, 3, 4), Ring.F2)
    assert board.opening().sum() == 24 and board.sizes == (6, 12, 8)
    assert classical(board.format, Ring.F2).rank == board.limit
    assert is_exact(winograd())
