"""The list of cubes is a set in which equal ones cancel."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from search.walks.cubes import find_cube, toggle_cube
from tests.fuzzing import examples


@examples(50)
@given(st.lists(st.integers(1, (1 << 64) - 1) | st.integers(1, 5), max_size=20))
def test_cubes_come_and_go_in_pairs(factors):
    cubes, cubic, kept = np.zeros(20, np.uint64), 0, set()
    for factor in factors:
        cubic = toggle_cube(cubes, cubic, np.uint64(factor))
        kept ^= {factor}
        assert set(cubes[:cubic].tolist()) == kept and cubic == len(kept) and not cubes[cubic:].any()
        found = find_cube(cubes, cubic, np.uint64(factor))
        assert cubes[found] == factor if factor in kept else found == -1
