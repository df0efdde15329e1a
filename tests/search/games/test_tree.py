import dataclasses

import numpy as np
import pytest

from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from search.games.game import factor_sizes, opening, tensor_of
from search.games.slice_bound import bound, pack
from search.games.tree import Found, Progress, play
from search.games.tree_kernels import PROPOSALS, allocate, simulate


def found(format: Format, target: int, **options) -> list[Found]:
    return [event for event in play(format, target=target, **options) if isinstance(event, Found)]


@pytest.mark.parametrize(("text", "rank"), [("2x2x2", 7), ("2x2x3", 11), ("2x3x2", 11), ("3x2x2", 11), ("2x4x2", 14)])
def test_finds_the_optimal_rank(text, rank):
    format = Format.parse(text)
    schemes = [event.scheme for event in found(format, rank, seed=1, simulations=2000)]
    assert schemes[-1].rank == rank
    for scheme in schemes:
        assert scheme.format == format and scheme.ring is Ring.F2
        assert is_exact(scheme)


def test_replays_reach_what_one_game_does_not():
    schemes = [event.scheme for event in found(Format(2, 3, 3), 15, seed=9, simulations=4000)]
    assert [s.rank for s in schemes] == sorted({s.rank for s in schemes}, reverse=True)
    assert schemes[-1].rank == 15
    assert all(is_exact(s) for s in schemes)


def test_the_same_seed_and_simulations_give_the_same_search():
    def run(seed):
        events = list(play(Format(2, 3, 3), target=1, seed=seed, simulations=700))
        return [
            (e.simulations, e.scheme.U.tolist(), e.scheme.V.tolist(), e.scheme.W.tolist())
            for e in events
            if isinstance(e, Found)
        ], dataclasses.replace(events[-1], seconds=0.0)

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_simulations_are_a_limit_and_progress_ends_the_search():
    events = list(play(Format(2, 2, 2), target=6, seed=0, simulations=777))
    assert isinstance(events[-1], Progress)
    assert events[-1].simulations == 777
    assert events[-1].best == 7


def test_a_target_that_the_standard_algorithm_meets_ends_at_once():
    events = list(play(Format(1, 2, 3), target=6))
    assert [type(event) for event in events] == [Progress]
    assert events[0].best == 6 and events[0].simulations == 0


def test_time_and_stop_flag_end_the_search():
    ended = list(play(Format(3, 3, 3), target=19, budget_s=0.3))[-1]
    assert 0.3 <= ended.seconds < 2.0
    asked = []
    list(play(Format(3, 3, 3), target=19, should_stop=lambda: len(asked) == 3 or asked.append(1)))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 0}, "target"),
        ({"target": 7, "simulations": 0}, "simulations"),
        ({"target": 7, "seed": -1}, "seed"),
        ({"target": 7, "budget_s": -1.0}, "budget_s"),
        ({"target": 7, "ring": Ring.Z}, "over F2, not Z"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(options, message):
    with pytest.raises(ValueError, match=message):
        play(Format(2, 2, 2), **options)


def test_edges_of_a_tree_carry_reachable_lengths():
    """Every proposed move lowers some slice combination, and its length is the one that the bound promises."""
    format = Format(2, 2, 3)
    sizes = factor_sizes(format)
    root = opening(format)
    tree = allocate(sizes, 8)
    simulate(tree, pack(root), np.array(sizes), 0, 8, np.array([7], dtype=np.uint64), 0.5, 1.0, 4.0)
    assert tree.state[4] == 8 and tree.state[0] == 7
    count = int(tree.edges[0])
    assert 100 < count <= PROPOSALS
    assert len(np.unique(tree.moves[:count], axis=0)) == count
    assert tree.prior[:count].sum() == pytest.approx(1.0)
    assert tree.visits[:count].sum() == 7
    for edge in range(count):
        rest = root ^ tensor_of(tree.moves[edge : edge + 1], sizes)
        assert tree.length[edge] == 1 + bound(rest)
        # One move changes every combination's rank by at most one, so the bound never falls by more than a size.
        assert bound(rest) >= bound(root) - max(sizes)
    played = tree.best_moves[: tree.state[2]]
    assert len(played) + bound(root ^ tensor_of(played, sizes)) == tree.state[1]
