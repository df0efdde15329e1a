"""On a GPU the player learns a small format within its budget, and is not absurdly slow."""

import dataclasses

import jax
import pytest

pytest.importorskip("mctx", reason="no mctx; install the extra player")

from catalog.scheme import Format, Ring
from search.player.measuring import rates, training_row
from search.player.planning import Search
from search.player.presets import course
from search.player.training import begin

pytestmark = [pytest.mark.gpu, pytest.mark.alone, pytest.mark.slow]
# Far below what was measured; half of all games that end at rank 7 are more than a lucky one.
LEAST_PER_SECOND, HITS = 20_000, 0.5


@pytest.fixture(autouse=True)
def on_a_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU; install the extra cuda13 or cuda12")


def test_it_learns_strassens_rank_within_its_budget():
    lesson = course(Format(2, 2, 2), Ring.F2, "large", target=7, hits=HITS, budget_s=240.0, warm=2000)
    row, state = training_row(lesson)
    assert row["reached"] and row["rank"] == 7 and row["seconds"] <= 240 and state.pool.rank == 7


def test_it_is_not_absurdly_slow():
    lesson = course(Format(2, 2, 2), Ring.F2, "large", rounds=1)
    quick = dataclasses.replace(lesson, search=Search(32, 16))
    (row,) = rates(quick, begin(quick).weights, [1024])
    assert row["per_second"] >= LEAST_PER_SECOND
