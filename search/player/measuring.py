"""What the player reaches and what of it is the network's, as rows of a report."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from search.player.course import Course
from search.player.ending import left_after, scheme_of
from search.player.episodes import openings, play
from search.player.footprint import of_play, require_room
from search.player.planning import Player, Search, Weights, plan
from search.player.repair import repaired
from search.player.training import Found, Round, State, begin, learn

Row = dict[str, Any]
_REPEATS = 5


def training_row(course: Course, on_round: Callable[[Round], None] = lambda line: None) -> tuple[Row, State]:
    """Train from a fresh start until the course ends.

    Returns:
        The time to the target with the learning curve, and the state in the end.
    """
    state, curve, best, reached = begin(course), [], None, None
    for event in learn(course, state):
        if isinstance(event, Found):
            best = event.scheme.rank
            if best <= course.target and reached is None:
                reached = event
        else:
            curve.append(event)
            on_round(event)
    settings = asdict(course)
    simulations = course.search.simulations * course.player.board.limit
    return {
        "what": "training",
        "format": str(course.format),
        "ring": str(course.ring),
        "seed": course.seed,
        "target": course.target,
        "rank": best,
        "reached": reached is not None,
        "seconds": None if reached is None else reached.seconds,
        "games": None if reached is None else reached.games,
        "simulations": None if reached is None else reached.games * simulations,
        "total_seconds": state.seconds,
        "total_games": state.played,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(state.weights)),
        "settings": {name: settings[name] for name in ("games", "again", "change_basis", "repair")}
        | {part: settings[part] for part in ("sizes", "search", "lessons")},
        "curve": [
            [line.steps, line.games, round(line.seconds, 2), line.lowest, line.mean, round(line.hits, 4)]
            for line in curve
        ],
    }, state


def rates(course: Course, weights: Weights, batches: Sequence[int]) -> list[Row]:
    """A row of simulations per second for every batch; one that the device has no memory for says so."""
    player, search, rows = course.player, course.search, []
    for games in batches:
        row: Row = {
            "what": "rate",
            "format": str(player.board.format),
            "ring": str(player.board.ring),
            "games": games,
            "simulations": search.simulations,
            "candidates": search.candidates,
            "channels": player.sizes.channels,
        }
        try:
            require_room(of_play(player.board, player.sizes, search, games, jax.device_count()), "the batch")
            row |= rate(player, search, weights, games)
        except ValueError as error:
            row |= {"seconds": None, "per_second": None, "refused": str(error)}
        rows.append(row)
    return rows


def rate(player: Player, search: Search, weights: Weights, games: int) -> dict[str, float]:
    """Simulations per second of the tree search, each with the network's look at a new position, compiling left out."""
    residual, _ = openings(player.board, jax.random.key(0), games, True)
    keys = jax.random.split(jax.random.key(1), _REPEATS + 1)
    seconds = []
    for key in keys:
        begun = time.perf_counter()
        jax.block_until_ready(plan(player, search, weights, residual, key))
        seconds.append(time.perf_counter() - begun)
    spent = statistics.median(seconds[1:])
    return {"seconds": spent, "per_second": games * search.simulations / spent}


def hits_row(course: Course, weights: Weights, games: int, trained: bool, seed: int = 0) -> Row:
    """How many games from the opening reach the target, each found scheme proved, all with the same simulations.

    Args:
        course: with the target, the search, whether bases are changed, and the repair.
        weights: of the network.
        games: to play.
        trained: whether these weights are trained ones; said in the row.
        seed: of the games.
    """
    player, board = course.player, course.player.board
    first, second = jax.random.split(jax.random.key(seed))
    start, bases = openings(board, first, games, course.change_basis)
    record = play(player, course.search, weights, start, second)
    terms, steps, path = np.array(record.terms), np.asarray(record.steps), np.asarray(record.path)
    starts, own = np.asarray(start), [np.asarray(basis) for basis in bases]
    for game in range(games):
        if terms[game] <= course.target or course.repair:
            moves = path[game, : steps[game]]
            left = left_after(board, starts[game], moves)
            scheme = scheme_of(board, moves, left, tuple(basis[game] for basis in own))
            if course.repair:
                scheme = repaired(scheme, course.repair, game)
            terms[game] = scheme.rank
    return {
        "what": "hits",
        "format": str(course.format),
        "ring": str(course.ring),
        "target": course.target,
        "network": "trained" if trained else "untrained",
        "value": course.search.value,
        "change_basis": course.change_basis,
        "repair": course.repair,
        "games": games,
        "simulations": course.search.simulations * board.limit,
        "hits": int((terms <= course.target).sum()),
        "lowest": int(terms.min()),
        "mean": float(terms.mean()),
    }


def ablation(course: Course, weights: Weights, games: int, repair: int) -> list[Row]:
    """Hits with and without the network's training, its value, changes of bases and the repair step."""
    fresh = course.player.fresh(course.seed)
    bound = replace(course.search, value="bound")
    arms: list[tuple[Course, Weights, bool]] = []
    for trained, own in ((True, weights), (False, fresh)):
        for search in (course.search, bound):
            arms.append((replace(course, search=search, change_basis=True, repair=0), own, trained))
        arms.append((replace(course, change_basis=False, repair=0), own, trained))
        arms.append((replace(course, change_basis=True, repair=repair), own, trained))
    return [hits_row(arm, own, games, trained) for arm, own, trained in arms]


def same_in_all_bases(player: Player, weights: Weights, count: int = 64) -> float:
    """The largest difference of the expected terms left between the opening and the opening in random bases."""
    residual, _ = openings(player.board, jax.random.key(2), count, True)
    values = jax.jit(lambda w, r: player.network(w).look(r).terms_left())(weights, residual)
    here = jax.jit(lambda w, r: player.network(w).look(r).terms_left())(
        weights, jnp.asarray(player.board.opening(), jnp.int32)[None]
    )
    return float(jnp.abs(values - here).max())
