"""The smallest network learns on a CPU, plays, and goes on where it was stopped."""

import dataclasses
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from catalog.known import strassen
from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from search.player.board import Board
from search.player.course import Course
from search.player.ending import left_after, slice_terms
from search.player.harvest import Pool, gather
from search.player.learning import Lessons
from search.player.network import Sizes
from search.player.planning import Player, Search, memory, plan, repeated
from search.player.positions import parts_of_games, random_sums
from search.player.saving import Checkpoints
from search.player.training import Found, Round, begin, learn
from tests.fuzzing import rare

pytestmark = pytest.mark.usefixtures("compile_quickly")
SMALL = Sizes(channels=8, rounds=1)
TINY = Course(
    Format(2, 2, 2),
    Ring.F2,
    games=8,
    sizes=SMALL,
    search=Search(4, 4),
    lessons=Lessons(batch=16, warm=20, steps=10, memory=256),
    rounds=5,
)


@pytest.fixture(scope="module", params=[Ring.F2, Ring.Z], ids=str)
def player(request):
    return Player(Board(Format(2, 2, 2), request.param), SMALL)


@pytest.fixture(scope="module")
def weights(player):
    # Far from what a fresh network has, whose last layers are nearly zero.
    fresh, keys = player.fresh(0), iter(range(1000))
    return jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(next(keys)), leaf.shape), fresh)


def compiled(player, weights):
    """The network's look at positions, and the chances of moves in what it saw."""
    look = jax.jit(lambda weights, residual: player.network(weights).look(residual))
    chance = jax.jit(lambda weights, view, moves: player.network(weights).log_probability(view, moves))
    return partial(look, weights), partial(chance, weights)


def some_positions(board, count):
    return random_sums(board, jax.random.key(5), count)


def test_sums_are_made_of_their_terms(player):
    sums = some_positions(player.board, 50)
    assert set(np.asarray(sums.left).tolist()) <= set(range(1, 9)) and len(set(np.asarray(sums.left).tolist())) > 4
    rest = np.asarray(sums.residual)
    for game, (moves, left) in enumerate(zip(sums.moves, sums.left, strict=True)):
        total = np.asarray(player.board.terms(moves[: int(left)])).sum(0)
        assert (rest[game] == np.asarray(player.board.reduced(total))).all()


def test_the_network_says_the_same_in_every_basis(player, weights):
    board = player.board
    look, chance = compiled(player, weights)
    sums = some_positions(board, 6)
    bases = board.bases(jax.random.key(6), 6)
    moved = board.changed(sums.residual, bases)
    here, there = look(sums.residual), look(moved)
    assert np.allclose(here.value, there.value, atol=2e-4)
    assert np.ptp(np.asarray(here.terms_left())) > 1e-3
    # A move in the new basis has the chance that it had in the old one.
    factors = []
    for mode in range(3):
        vectors = np.asarray(board.vectors(mode), int)[np.asarray(sums.moves[:, 0, mode])]
        changed = np.einsum("bij,bj->bi", np.asarray(bases[mode]), vectors)
        factors.append(changed % 2 if board.p == 2 else (changed + 1) % 3 - 1)
    moves = jnp.asarray(board.numbers(tuple(factors)))[:, None]
    before = chance(here, sums.moves[:, :1])
    after = chance(there, moves)
    assert np.allclose(before, after, atol=2e-3) and np.ptp(np.asarray(before)) > 0.05


def test_chances_add_up_and_moves_are_playable(player, weights):
    board = player.board
    residual = some_positions(board, 3).residual

    @jax.jit
    def chosen(weights):
        network = player.network(weights)
        view = network.look(residual)
        moves, chances = network.propose(view, jax.random.key(0), 40)
        u = moves[..., board.order[0]]
        parts = network.first_factor(view), network.second_factor(view, u)
        return moves, chances, network.log_probability(view, moves), *parts

    moves, chances, again, first, second = chosen(weights)
    assert np.allclose(chances, again, atol=1e-4)
    for mode in range(3):
        assert board.playable(mode)[np.asarray(moves[..., mode])].all()
    for part in (first, second):
        assert np.allclose(np.exp(np.asarray(part)).sum(-1), 1, atol=1e-4)


@pytest.mark.parametrize("ring", [Ring.F2, rare(Ring.Z)], ids=str)
def test_a_plan_is_a_way_to_the_end(ring):
    # So small that moves drawn without any training finish some positions.
    player = Player(Board(Format(1, 2, 2), ring), SMALL)
    board = player.board
    sums = some_positions(board, 64)
    found = plan(player, Search(64, 64), player.fresh(0), sums.residual, jax.random.key(1))
    bounds = np.asarray(board.bound(sums.residual))
    assert (np.asarray(found.terms) <= bounds).all()
    assert np.allclose(np.asarray(found.weights).sum(-1), 1, atol=1e-3)
    again = np.asarray(repeated(found.candidates))
    assert again.any() and (np.asarray(found.weights)[again] == 0).all()
    shorter = 0
    for game in range(64):
        steps = int(found.steps[game])
        left = left_after(board, sums.residual[game], found.path[game, :steps])
        assert steps + len(slice_terms(board, left)[0]) == int(found.terms[game])
        shorter += int(found.terms[game]) < bounds[game]
    assert shorter > 0


def test_the_memory_of_the_trees_is_estimated():
    board = Board(Format(2, 2, 2), Ring.F2)
    assert memory(board, Search(32, 16), 1024) == 1024 * 33 * (30 * 16 + 64 + 40)
    with pytest.raises(ValueError, match="candidates is 65; a node holds at most 64"):
        Search(8, 65)
    with pytest.raises(ValueError, match="value is 'guess'; choose network or bound"):
        Search(value="guess")


def test_parts_of_games_are_what_is_left_of_them():
    board = Board(Format(2, 2, 2), Ring.F2)
    game = board.numbers(tuple(factor.T for factor in strassen(Ring.F2).factors))
    games = np.zeros((4, 8, 3), np.int32)
    games[0, :7] = game
    parts = parts_of_games(board, jax.random.key(0), games, np.int32(1), np.int32(7), 20, 3)
    assert set(np.asarray(parts.left).tolist()) <= set(range(3, 8))
    for moves, left, residual in zip(parts.moves, parts.left, parts.residual, strict=True):
        assert {tuple(move) for move in np.asarray(moves)[:7].tolist()} == {tuple(move) for move in game.tolist()}
        assert (np.asarray(board.total(moves[None], left[None]))[0] == residual).all()


def test_the_pool_keeps_the_shortest_games():
    pool = Pool.empty(Board(Format(2, 2, 2), Ring.F2))
    rng = np.random.default_rng(0)
    long, short, other = rng.integers(1, 16, (8, 3)), rng.integers(1, 16, (7, 3)), rng.integers(1, 16, (7, 3))
    assert pool.add(long) and not pool.add(long[::-1]) and pool.number == 1
    assert pool.add(short) and pool.rank == 7 and pool.number == 1 and not pool.add(long)
    assert pool.add(other) and pool.number == 2
    assert (pool.drawn(rng)[:2, 7:] == 0).all()


@pytest.fixture(scope="module")
def whole():
    """A training from its beginning to its end: state and events."""
    state = begin(TINY)
    return state, list(learn(TINY, state))


@pytest.mark.parametrize("ring", [Ring.F2, rare(Ring.Z)], ids=str)
def test_training_yields_exact_schemes_and_a_curve(ring, whole):
    events = whole[1] if ring is Ring.F2 else list(learn(dataclasses.replace(TINY, ring=ring)))
    curve = [event for event in events if isinstance(event, Round)]
    assert [line.round for line in curve] == [1, 2, 3, 4, 5] and [line.games for line in curve] == [0, 0, 8, 16, 24]
    assert curve[-1].simulations == 24 * 4 * 8 and curve[-1].steps == 50
    assert curve[1].losses[2:] == (0, 0, 0, 0) and curve[-1].losses[3] > 0
    for event in events:
        if isinstance(event, Found):
            assert is_exact(event.scheme) and event.scheme.ring is ring and event.scheme.rank < 8


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that the library leaves open
def test_what_was_stopped_goes_on_as_if_it_had_not(tmp_path, whole):
    state, events = whole
    curve = [event for event in events if isinstance(event, Round)]
    half = dataclasses.replace(TINY, rounds=3)
    stopped = begin(half)
    list(learn(half, stopped))
    checkpoints = Checkpoints(tmp_path / "checkpoints", TINY)
    assert checkpoints.latest() is None
    checkpoints.save(stopped)
    checkpoints.close()
    again = Checkpoints(tmp_path / "checkpoints", TINY)
    restored = again.latest()
    assert restored.rounds == 3 and restored.played == stopped.played
    rest = [event for event in learn(TINY, restored) if isinstance(event, Round)]
    assert [line.losses for line in rest] == [line.losses for line in curve[3:]]
    for one, other in zip(jax.tree.leaves(state.weights), jax.tree.leaves(restored.weights), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(state.pool.moves, restored.pool.moves)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_checkpoints_of_another_course_are_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path, TINY)
    checkpoints.save(begin(TINY))
    checkpoints.close()
    other = dataclasses.replace(TINY, sizes=Sizes(channels=4, rounds=1))
    with pytest.raises(ValueError, match="holds the training of another course; choose an empty folder"):
        Checkpoints(tmp_path, other)
    assert Checkpoints(tmp_path, dataclasses.replace(TINY, rounds=9, target=2)).latest().rounds == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_checkpoint_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path, TINY)
    checkpoints.save(begin(TINY))
    checkpoints.close()
    for path in (tmp_path / "rounds").rglob("*"):
        if path.is_file():
            path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="checkpoint.* cannot be read .*; start the training anew"):
        Checkpoints(tmp_path, TINY).latest()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounds": None}, "give rounds or budget_s"),
        ({"games": 0}, "games is 0; it must be at least 1"),
        ({"again": 1.5}, "again is 1.5; it must lie between 0 and 1"),
        ({"budget_s": float("nan")}, "budget_s is nan; it must be positive"),
        ({"ring": Ring.F3}, "over F2 or Z, not F3"),
    ],
)
def test_a_course_that_makes_no_sense_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changed)


def test_nothing_gathered_is_longer_than_what_is_known():
    board = Board(Format(2, 2, 2), Ring.F2)
    pool = Pool.empty(board)
    pool.rank = pool.lowest = 3
    record = type("", (), {})()
    record.terms, record.steps = np.array([7]), np.array([0])
    record.path, record.start = np.zeros((1, 8, 3), int), board.opening()[None]
    bases = [np.eye(size, dtype=int)[None] for size in board.sizes]
    assert gather(board, pool, record, np.zeros((1, 0, 3), int), np.zeros(1, int), bases) == [] and pool.number == 0


def test_training_that_diverges_says_so():
    """Else the curve, the checkpoints and the weights would hold what no later command reads."""
    state = begin(TINY)
    state.weights = jax.tree.map(lambda leaf: jnp.full_like(leaf, 3e38), state.weights)
    with pytest.raises(ValueError, match="training has diverged in round 1: its losses are .*; start from other"):
        list(learn(TINY, state))


def test_a_full_disk_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    checkpoints = Checkpoints(tmp_path, TINY)

    def full(*_, **__):
        raise ValueError('OUT_OF_RANGE: Error writing "moments" in\ndatabase: No space left on device')

    monkeypatch.setattr(checkpoints._manager, "save", full)
    with pytest.raises(
        OSError, match="cannot write the checkpoint of round 0 to .*: No space left on device; make room"
    ):
        checkpoints.save(begin(TINY))
    checkpoints.close()
