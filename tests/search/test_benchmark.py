"""Rows of the search benchmark."""

import pytest

from catalog.scheme import Format
from search.benchmark import flip_rate, lift_products, lift_share, time_to_target
from search.query import Query


@pytest.mark.parametrize("ring", ["F2", "F3", "ZT"])
def test_a_rate_counts_flips_of_one_core(ring):
    row = flip_rate(Format(2, 3, 2), ring, steps=200_000, repeats=3)
    assert (row["kind"], row["ring"], row["format"]) == ("rate", ring, "2x3x2")
    # A kernel that fell back to objects or floating point would walk a thousand times slower than this bound.
    assert 1e6 < row["lowest"] <= row["per_second_per_core"] <= row["highest"] < 1e9


def test_orbit_flips_are_counted_by_their_own_engine():
    row = flip_rate(Format(3, 3, 3), "F2", steps=200_000, repeats=3, symmetric=True)
    assert (row["kind"], row["engine"], row["format"]) == ("rate", "symmetric numba", "3x3x3")
    assert 1e6 < row["lowest"] <= row["per_second_per_core"] <= row["highest"] < 1e9


def test_time_to_target_counts_hits_and_misses():
    row = time_to_target(Query(Format(2, 2, 2), "F2", 7, budget_s=5), range(1, 6))
    assert (row["kind"], row["seeds"], row["hits"], row["rank"]) == ("time_to_target", 5, 5, 7)
    assert 0 < row["median_s"] <= row["p90_s"] <= row["max_s"] < 5
    missed = time_to_target(Query(Format(2, 2, 2), "F2", 6, budget_s=0.05), [1])
    assert (missed["hits"], missed["seeds"]) == (0, 1) and missed["median_s"] >= 0.05


def test_a_stopped_benchmark_reports_what_is_done():
    row = time_to_target(Query(Format(2, 2, 2), "F2", 6, budget_s=5), [1, 2], should_stop=lambda: True)
    assert (row["seeds"], row["hits"], row["median_s"]) == (0, 0, None)


def test_the_tree_search_is_timed_alike():
    row = time_to_target(Query(Format(2, 2, 2), "F2", 7, method="mcts", budget_s=20), [1, 2])
    assert (row["hits"], row["engine"], row["cores"]) == (2, "mcts numba", 1)


def test_lifts_are_counted():
    row = lift_share(Format(2, 2, 3), 11, range(1, 5), budget_s=20)
    assert (row["kind"], row["schemes"], row["exact"]) == ("lift", 4, 4)
    assert row["ternary"] <= 4


def test_hidden_products_are_lifted_again():
    row = lift_products(Format(2, 2, 2), 7, range(1, 4), budget_s=20, flips=100_000)
    assert (row["kind"], row["format"], row["rank"]) == ("lift", "4x4x4", 49)
    assert row["schemes"] == row["exact"] == row["ternary"] == 3
