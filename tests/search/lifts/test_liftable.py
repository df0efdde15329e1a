"""Whether a scheme may have a lift, before one is looked for."""

import itertools
import time

import pytest

from catalog.known import classical
from catalog.scheme import Format, Ring
from search.lifts import lifting
from search.lifts.lifting import lift, liftable
from search.walks.blocks import advance, begin, lowest
from search.walks.policies import Policy
from search.walks.symmetry import symmetry_for


def test_the_test_of_a_symmetric_scheme_says_the_same_for_less():
    symmetry, seconds = symmetry_for(Format(4, 4, 4), 46, None), [0.0, 0.0]
    for seed in range(4):
        walk = begin(symmetry.start(4, seed), seed, symmetry="Z3")
        advance(walk, 1_000_000, 0, Policy(1_000, 2, 1 << 40))
        answers = []
        for symmetric in (False, True):
            begun = time.thread_time()
            answers.append(liftable(lowest(walk), symmetric=symmetric))
            seconds[symmetric] += time.thread_time() - begun
        assert answers[0] == answers[1]
    assert seconds[True] < seconds[False]
    with pytest.raises(ValueError, match="is not square"):
        liftable(classical(Format(1, 2, 3), Ring.F2), symmetric=True)


def test_the_test_for_a_lift_passes_what_is_large_and_what_it_is_told_to_stop(monkeypatch):
    walks = (begin(classical(Format(3, 3, 3), Ring.F2), seed) for seed in itertools.count(16))
    moved = (advance(walk, 3_000_000, 23, Policy(10_000, 1, 1 << 40)) or walk for walk in walks)
    bad = next(lowest(walk) for walk in moved if not liftable(lowest(walk)))
    assert lift(bad) is None
    assert liftable(bad, should_stop=lambda: True)
    monkeypatch.setattr(lifting, "_SMALL", 1 << 10)
    assert liftable(bad)
    monkeypatch.undo()
    large = classical(Format(7, 7, 7), Ring.F2)
    begun = time.thread_time()
    assert liftable(large) and time.thread_time() - begun < 0.5
