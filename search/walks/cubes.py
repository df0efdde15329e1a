"""The list of cubes of a walk on orbits of the cyclic shift: a set, in which two equal ones cancel over F2."""

from __future__ import annotations

from search.compiled import kernel
from search.walks.unsigned import U0


@kernel
def find_cube(cubes, cubic, factor):
    """Where a cube stands.

    Args:
        cubes: [K] uint64. The cubes, zeros after them, no two equal.
        cubic: cubes in use.
        factor: uint64, the cube that is looked for; not zero.

    Returns:
        Its index, or -1 where it is not there.
    """
    for found in range(cubic):
        if cubes[found] == factor:
            return found
    return -1


@kernel
def toggle_cube(cubes, cubic, factor):
    """Add a cube, or remove it where it is there already, as two are nothing over F2.

    Args:
        cubes: [K] uint64. The cubes, zeros after them, no two equal; changes in place and stays so. A cube that is not
            there needs ``cubic < K``: nothing here looks.
        cubic: cubes in use.
        factor: uint64, the cube; not zero, which would end the list.

    Returns:
        The cubes in use afterwards, one more or one less.
    """
    found = find_cube(cubes, cubic, factor)
    if found < 0:
        cubes[cubic] = factor
        return cubic + 1
    cubes[found] = cubes[cubic - 1]
    cubes[cubic - 1] = U0
    return cubic - 1
