"""Training: steps on random sums first, then rounds of steps and self-play, until the target or a limit is reached.

After AlphaTensor (Fawzi et al., Nature 610, 2022): no scheme is shown, only random sums of rank-one terms, and later
what the player itself has found. A round depends on the state before it and on the seed alone, so a run that was
resumed goes on as if it had never ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from catalog.scheme import Scheme
from search.player import harvest
from search.player.course import Course
from search.player.episodes import openings, play
from search.player.learning import Games, Replay, empty_replay, optimizer, stored, train
from search.player.planning import Weights
from search.player.positions import parts_of_games

# Begins the names of the threads that compile what is called later.
COMPILER = "subcubic-compiler"
# Terms that a game from what is left of an own game has at least to find, if the game has so many.
_FEWEST = 5


@dataclass
class State:
    """Everything that training changes.

    Attributes:
        weights: of the network.
        moments: of the optimizer.
        replay: positions of self-play.
        pool: own games of the lowest rank.
        rounds: done.
        played: games.
        seconds: spent.
    """

    weights: Weights
    moments: Any
    replay: Replay
    pool: harvest.Pool
    rounds: int = 0
    played: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Round:
    """One round, a line of the learning curve.

    Attributes:
        round: counted from 1.
        steps: of training, in all.
        games: played, in all.
        simulations: of the tree search, in all.
        seconds: in all, compiling included.
        losses: policy and value on random sums, on self-play and on own games; 0 where there were none.
        lowest: rank found so far.
        mean: terms of the games from the opening, on average; None before any.
        hits: share of the games from the opening that took ``lowest`` terms.
        pool: own games of the lowest rank.
    """

    round: int
    steps: int
    games: int
    simulations: int
    seconds: float
    losses: tuple[float, ...]
    lowest: int
    mean: float | None
    hits: float
    pool: int


@dataclass(frozen=True)
class Found:
    """A scheme of lower rank than any before, exact over the ring.

    Attributes:
        scheme: the scheme.
        games: played so far.
        seconds: spent so far, compiling included.
    """

    scheme: Scheme
    games: int
    seconds: float


def begin(course: Course, weights: Weights | None = None) -> State:
    """The state before any training, with given weights or fresh ones."""
    player = course.player
    weights = player.fresh(course.seed) if weights is None else weights
    moments = optimizer(course.lessons).init(weights)
    replay = empty_replay(player.board, course.search, course.lessons)
    return State(weights, moments, replay, harvest.Pool.empty(player.board))


def learn(
    course: Course, state: State | None = None, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Round | Found]:
    """Train until the target or a limit is reached; ``state`` is changed in place.

    Args:
        course: what and how much.
        state: to go on from; a new one when None.
        should_stop: asked between rounds.

    Yields:
        Found for every new lowest rank below the standard algorithm's, and a Round after each round.
    """
    state = begin(course) if state is None else state
    pool = ThreadPoolExecutor(thread_name_prefix=COMPILER)
    try:
        yield from _rounds(course, state, should_stop, pool)
    finally:
        pool.shutdown(wait=False)  # nothing interrupts a compiler, and nobody waits for what it makes now


def _rounds(course: Course, state: State, should_stop: Callable[[], bool], pool: Executor) -> Iterator[Round | Found]:
    player, lessons, search = course.player, course.lessons, course.search
    warm_rounds = -(-lessons.warm // lessons.steps)
    plays = course.rounds is None or course.rounds > warm_rounds
    compiling = _compiling(course, state, pool) if plays else []
    started, before = time.perf_counter(), state.seconds
    while not _over(course, state) and not should_stop():
        keys = jax.random.split(jax.random.fold_in(jax.random.key(course.seed), state.rounds), 3)
        warm = state.rounds < warm_rounds
        while compiling and not warm:
            compiling.pop().result()
        (state.weights, state.moments), parts = train(
            player, lessons, warm, (state.weights, state.moments), state.replay, _games(state.pool, keys[0]), keys[0]
        )
        mean, hits = None, 0.0
        if not warm:
            terms, found = _play(course, state, keys[1:])
            state.played += course.games
            state.seconds = before + time.perf_counter() - started
            for scheme in found:
                yield Found(scheme, state.played, state.seconds)
            mean, hits = float(terms.mean()), float((terms <= state.pool.lowest).mean())
        state.rounds += 1
        state.seconds = before + time.perf_counter() - started
        simulations = state.played * search.simulations * player.board.limit
        losses = tuple(round(float(part), 4) for part in np.asarray(parts))
        if not all(map(math.isfinite, losses)):
            raise ValueError(
                f"training has diverged in round {state.rounds}: its losses are {losses}; start from other weights, or "
                "from none with another seed"
            )
        yield Round(
            state.rounds,
            state.rounds * lessons.steps,
            state.played,
            simulations,
            state.seconds,
            losses,
            state.pool.lowest,
            mean,
            hits,
            state.pool.number,
        )
        if course.target and state.pool.lowest <= course.target and hits >= course.hits and not warm:
            return


def _compiling(course: Course, state: State, pool: Executor) -> list[Future[Any]]:
    """Compiles what comes after the steps on random sums, meanwhile: it takes longer than they do."""
    key, player = jax.random.key(0), course.player
    weights, moments, replay = state.weights, state.moments, state.replay
    games = _games(state.pool, key)

    def of_play() -> None:
        start, _ = openings(player.board, key, course.games, course.change_basis)
        play.lower(player, course.search, weights, start, key).compile()

    def of_steps() -> None:
        train.lower(player, course.lessons, False, (weights, moments), replay, games, key).compile()

    return [pool.submit(of_play), pool.submit(of_steps)]


def _over(course: Course, state: State) -> bool:
    return (course.rounds is not None and state.rounds >= course.rounds) or (
        course.budget_s is not None and state.seconds >= course.budget_s
    )


def _games(pool: harvest.Pool, key: Any) -> Games:
    drawn = pool.drawn(np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist()))
    return Games(drawn, np.int32(min(pool.number, len(drawn))), np.int32(pool.rank))


def _play(course: Course, state: State, keys: Any) -> tuple[np.ndarray, list[Scheme]]:
    """Terms of the games from the opening, and schemes of new lowest ranks, from one batch of games."""
    player, board, pool = course.player, course.player.board, state.pool
    ways = jax.random.split(keys[0], 4)
    fresh = course.games if pool.number == 0 else max(1, round(course.games * (1 - course.again)))
    start, bases = openings(board, ways[0], course.games, course.change_basis)
    kept = np.zeros((course.games, 0, 3), np.int64)
    lengths = np.zeros(course.games, np.int64)
    if fresh < course.games:
        games = _games(pool, ways[1])
        parts = parts_of_games(board, ways[2], games.moves, games.number, games.rank, course.games, _FEWEST)
        again = np.arange(course.games) >= fresh
        start = jax.numpy.where(again[:, None, None, None], parts.residual, start)
        kept = np.asarray(parts.moves, np.int64)
        left = np.asarray(parts.left)
        lengths = np.where(again, pool.rank - left, 0)
        kept = np.stack([np.roll(moves, -count, axis=0) for moves, count in zip(kept, left, strict=True)])
        bases = [
            jax.numpy.where(again[:, None, None], np.eye(size, dtype=int), basis)
            for size, basis in zip(board.sizes, bases, strict=True)
        ]
    record = play(player, course.search, state.weights, start, keys[1])
    state.replay = stored(state.replay, record)
    found = harvest.gather(board, pool, record, kept, lengths, [np.asarray(basis) for basis in bases], course.repair)
    return np.asarray(record.terms)[:fresh], found
