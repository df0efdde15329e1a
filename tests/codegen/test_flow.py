"""Loops of small graphs, and of random ones against a slow definition."""

import numpy as np
import pytest

from codegen.flow import loops, turns_without


def found(edges):
    return [(cycle.members, cycle.entries) for cycle in loops(edges)]


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([[1], [2], []], []),
        ([[1], [1, 2], []], [({1}, {1})]),
        ([[0]], [({0}, {0})]),
        # One within the other, whose body lies behind the end.
        ([[1], [2, 6], [3, 7], [4], [2, 5], [1, 6], [], [3]], [({1, 2, 3, 4, 5, 7}, {1}), ({2, 3, 4, 7}, {2})]),
        # Two one after the other, and one that nothing reaches.
        ([[1, 2], [0], [3], [2, 4], [], [5]], [({0, 1}, {0}), ({2, 3}, {2})]),
        # Entered at two places.
        ([[1, 2], [2], [1, 3], []], [({1, 2}, {1, 2})]),
        # Two loops that begin at one place are one.
        ([[1], [2], [1, 3], [1, 4], []], [({1, 2, 3}, {1})]),
    ],
)
def test_loops_of_small_graphs(edges, expected):
    assert found(edges) == expected


def test_turns_that_avoid_a_node():
    # 1 -> 2 -> (3 or 4) -> 5 -> 1, with a wait of its own at 2; the products are at 5.
    edges = [[1], [2], [2, 3, 4], [5], [5], [1, 6], []]
    outer, wait = loops(edges)
    assert wait.members == {2}
    assert [turns_without(edges, outer, node, {5}) for node in (1, 2, 3, 4, 5)] == [False, False, True, True, False]
    assert turns_without(edges, outer, 3, {4}) and not turns_without(edges, outer, 3, {3})


@pytest.mark.parametrize("seed", range(30))
def test_outer_loops_of_random_graphs(seed):
    rng = np.random.default_rng(seed)
    size = 12
    matrix = rng.random((size, size)) < 1.3 / size
    paths = matrix.copy()
    for middle in range(size):
        paths |= paths[:, [middle]] & paths[[middle], :]
    reached = [node == 0 or bool(paths[0, node]) for node in range(size)]
    expected = {
        frozenset(np.flatnonzero(paths[node] & paths[:, node]).tolist())
        for node in range(size)
        if reached[node] and paths[node, node]
    }
    all_loops = loops([np.flatnonzero(row).tolist() for row in matrix])
    assert {frozenset(cycle.members) for cycle in all_loops if not cycle.cut} == expected
    for cycle in all_loops:
        around = [other for other in all_loops if cycle.members < other.members]
        assert all(not cycle.members & other.entries for other in around)
        assert cycle.cut == frozenset().union(*(other.entries for other in around))
