"""Walks for few additions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.additions import additions_cse
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring
from catalog.transform import concatenate, kron, orientations, rotate
from catalog.verify import is_exact
from search.lean import anneal, fewer_additions
from tests.fuzzing import examples

STARTS = [
    strassen(),
    classical(Format(2, 3, 2)),
    concatenate(winograd(), classical(Format(2, 2, 1)), "n"),
    rotate(concatenate(strassen(), classical(Format(2, 1, 2)), "k")),
    classical(Format(1, 2, 3)),
]


@examples(10)
@given(st.sampled_from(STARTS), st.integers(0, 5), st.integers(0, 999), st.integers(1, 400))
def test_moves_keep_the_scheme_exact_and_the_count_honest(start, turn, seed, moves):
    turned = orientations(start)[turn]
    scheme, count = anneal(turned, seed, moves)
    assert is_exact(scheme) and scheme.is_ternary
    assert (scheme.format, scheme.rank) == (turned.format, turned.rank)
    # Its greedy elimination and ours differ by what they do with ties only; on such small schemes not by much.
    assert abs(count - additions_cse(scheme)) <= 2
    again, same = anneal(turned, seed, moves)
    assert same == count and all(np.array_equal(a, b) for a, b in zip(again.factors, scheme.factors, strict=True))


def test_strassens_scheme_becomes_one_of_winograds_count():
    found = list(fewer_additions(strassen(), seed=3, rounds=2))
    counts = [lean.additions for lean in found]
    assert counts == sorted(set(counts), reverse=True) and counts[-1] == 15
    assert all(is_exact(lean.scheme) and lean.scheme.rank == 7 for lean in found)
    repeated = [(lean.additions, lean.round) for lean in fewer_additions(strassen(), seed=3, rounds=2)]
    assert repeated == [(lean.additions, lean.round) for lean in found]


def test_limits_and_refusals():
    assert list(fewer_additions(strassen(), rounds=5, should_stop=lambda: True)) == []
    assert len(list(fewer_additions(strassen(), budget_s=1e-9))) == 1
    with pytest.raises(ValueError, match="give rounds or budget_s"):
        fewer_additions(strassen())
    with pytest.raises(ValueError, match="not ternary over Z"):
        fewer_additions(strassen(Ring.F2), rounds=1)
    with pytest.raises(ValueError, match="more than 62 blocks"):
        fewer_additions(kron(classical(Format(2, 2, 2)), classical(Format(4, 4, 4))), rounds=1)
