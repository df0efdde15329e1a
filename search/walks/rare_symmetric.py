"""Moves over F2 that a walk on orbits of the shift makes once in many flips: plus, and exchanges with cubes.

They change the rows of ``search.walks.walk_symmetric``; afterwards the table is built anew.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.cubes import find_cube, toggle_cube
from search.walks.unsigned import STAR, U0, U1, U2, U3, U4, U7, U13, U17, U32


@kernel
def plus_symmetric(value, orbits, x):
    """Turn two orbits into three, in random turns that differ in every place.

    a b c + a' b' c' = (a + a') b c + a' b' (c' - c) + a' (b' - b) c.

    Args:
        value: [S + H] uint64, with room for a row.
        orbits: uint64. Rows in use.
        x: state of the xorshift generator.

    Returns:
        Whether a row was added, and the generator's state.
    """
    for _trial in range(64):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        row = U4 * (((random >> U32) * orbits) >> U32)
        mode = (random & U7) % U3
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        other = U4 * (((random >> U32) * orbits) >> U32)
        turned = (random & U7) % U3
        y, y_other = row + (mode + U1) % U3, other + (turned + U1) % U3
        z, z_other = row + (mode + U2) % U3, other + (turned + U2) % U3
        a, a_other = row + mode, other + turned
        apart = value[a] != value[a_other] and value[y] != value[y_other] and value[z] != value[z_other]
        if row != other and apart:
            extra = U4 * orbits
            value[extra] = value[a_other]
            value[extra + U1] = value[y_other] ^ value[y]
            value[extra + U2] = value[z]
            value[z_other] ^= value[z]
            value[a] ^= value[a_other]
            return True, x
    return False, x


@kernel
def exchange_cubes(value, cubes, slots, rows, cubic, room, x):
    """Exchange an orbit u(x)v(x)(u + v) for cubes, else cubes for such an orbit.

    Over F2 the cubes of u, v and u + v add up to that orbit, three products each; so cubes come and go, while flips,
    reductions and plus transitions keep them. Each cube of the three that is there already saves two products. An
    orbit that saves some is always taken, another one every other time. Else the cube of u, and that of v where it is
    drawn among the cubes and not among the factors, makes room for an orbit and the cube of u + v: four products more
    with one of the three, two more with two of them, none with all.

    Args:
        value: [S + H] uint64. See ``search.walks.walk_symmetric``.
        cubes: [K] uint64. The cubes, zeros after them.
        slots: S.
        rows: orbits in use.
        cubic: cubes in use.
        room: products that may be added.
        x: state of the xorshift generator.

    Returns:
        The orbits, the cubes, whether something changed, and the generator's state.
    """
    x ^= x << U13
    x ^= x >> U7
    x ^= x << U17
    random = x * STAR
    begin = np.int64(((random >> U32) * np.uint64(rows)) >> U32) if rows else 0
    neutral = -1
    for step in range(rows):
        row = 4 * ((begin + step) % rows)
        if value[row] ^ value[row + 1] == value[row + 2]:
            shared = 0
            for place in range(3):
                shared += find_cube(cubes, cubic, value[row + place]) >= 0
            if shared:
                neutral = row
                break
            if random & U1 and neutral < 0 and cubic + 3 <= cubes.size:
                neutral = row
    if neutral >= 0 and cubic + 3 <= cubes.size:
        for place in range(3):
            cubic = toggle_cube(cubes, cubic, value[neutral + place])
        for place in range(3):
            value[neutral + place] = value[4 * (rows - 1) + place]
        return rows - 1, cubic, True, x
    if 4 * (rows + 1) > slots or cubic < 1 or cubic + 3 > cubes.size or rows < 1:
        return rows, cubic, False, x
    first = np.int64((random >> np.uint64(8)) % np.uint64(cubic))
    x ^= x << U13
    x ^= x >> U7
    x ^= x << U17
    random = x * STAR
    u = cubes[first]
    if random & U1 and cubic > 1:
        v = cubes[np.int64((random >> np.uint64(8)) % np.uint64(cubic))]
    else:
        v = value[4 * np.int64(((random >> U32) * np.uint64(rows)) >> U32)]
    shared = 1 + (find_cube(cubes, cubic, v) >= 0) + (find_cube(cubes, cubic, u ^ v) >= 0)
    # Three products of the orbit, and each of the three cubes is added or cancelled.
    if u == v or v == U0 or 6 - 2 * shared > room:
        return rows, cubic, False, x
    for factor in (u, v, u ^ v):
        cubic = toggle_cube(cubes, cubic, factor)
    value[4 * rows], value[4 * rows + 1], value[4 * rows + 2] = u, v, u ^ v
    return rows + 1, cubic, True, x
