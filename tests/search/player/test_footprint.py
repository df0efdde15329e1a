"""What a player is said to take against what its compiled functions take, and the refusal of what does not fit."""

import jax
import numpy as np
import pytest

from catalog.scheme import Format, Ring
from search.player import footprint
from search.player.board import Board
from search.player.footprint import Footprint, of_course, of_play, require_room, room, size
from search.player.learning import Games
from search.player.network import Sizes
from search.player.planning import Player, Search
from search.player.presets import course
from tests.fuzzing import rare

# Bytes that XLA reported of compiled play and training on a CPU: temporary ones and results.
MEASURED = [
    (("2x2x2", Ring.F2, {}), 1_865_968, 29_334_540),
    (("2x3x3", Ring.F2, {}), 14_613_488, 268_799_684),
    (("2x2x2", Ring.Z, {}), 9_833_640, 152_295_748),
    (("2x2x2", Ring.F2, {"games": 64, "candidates": 16}), 6_928_688, 34_070_348),
    (("2x3x3", Ring.F2, {"batch": 128, "channels": 32}), 25_761_136, 1_072_593_028),
]


def of_case(case):
    format, ring, changed = case
    return course(Format.parse(format), ring, "small", rounds=1, **changed)


@pytest.mark.parametrize(("case", "play", "training"), MEASURED)
def test_the_estimate_is_what_was_measured(case, play, training):
    said = of_course(of_case(case))
    assert said.trees + said.play + said.records / 2 == pytest.approx(play, rel=0.1)
    assert said.training + said.parameters == pytest.approx(training, rel=0.1)


@pytest.mark.parametrize("case", [rare(case) for case, _, _ in MEASURED[:2]], ids=lambda case: case[0])
def test_the_estimate_is_what_compiled_functions_take(case):
    from search.player.episodes import play
    from search.player.learning import train
    from search.player.training import begin

    lesson = of_case(case)
    state, player, said = begin(lesson), lesson.player, of_course(lesson)
    start = np.zeros((lesson.games, *player.board.sizes), np.int32)
    games = Games(state.pool.moves[: footprint.DRAWN], np.int32(0), np.int32(player.board.limit))
    key, learned = jax.random.key(0), (state.weights, state.moments)
    played = play.lower(player, lesson.search, state.weights, start, key).compile().memory_analysis()
    trained = train.lower(player, lesson.lessons, False, learned, state.replay, games, key).compile().memory_analysis()
    assert 0.5 < (said.trees + said.play) / played.temp_size_in_bytes < 2
    assert 0.5 < said.training / trained.temp_size_in_bytes < 2


def test_the_parameters_are_counted():
    board, sizes = Board(Format(2, 2, 2), Ring.F2), Sizes(channels=4, rounds=1)
    weights = Player(board, sizes).fresh(0)
    counted = of_play(board, sizes, Search(4, 4), 4).parameters - 3 * 16 * 16 * 4
    assert counted == 4 * sum(leaf.size for leaf in jax.tree.leaves(weights))


def test_devices_share_what_is_made_of_a_batch():
    lesson = of_case(MEASURED[0][0])
    one, two = of_course(lesson), of_course(lesson, 2)
    assert two.trees * 2 == one.trees and two.training * 2 == one.training and two.parameters == one.parameters


def test_what_does_not_fit_is_refused(monkeypatch):
    needed = Footprint(1_000_000, 2_000_000, 500_000, 5_000_000, 400_000, 100_000)
    assert needed.total == 5_500_000 and room() > 0
    monkeypatch.setattr(footprint, "room", lambda: needed.total)
    require_room(needed, "--games")
    monkeypatch.setattr(footprint, "room", lambda: needed.total - 1)
    message = "takes about 5.5 MB of memory: trees 1 MB, network in play 2 MB, in training 5 MB, kept 1 MB, and the CPU"
    with pytest.raises(ValueError, match=f"{message} has 5.5 MB free; lower --games"):
        require_room(needed, "--games")
    assert size(2_500_000_000) == "2.5 GB"


def test_a_gpu_says_what_it_has(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 1000, "bytes_in_use": 300}

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert room() == 700
