"""Orbits of the cyclic shift with transpose over F2: their reductions and the table of their equal factors.

Both are done together after every change of rank, for ``search.walks.walk_z3t``, whose arrays and letters these are.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.cubes import toggle_cube
from search.walks.unsigned import HASH, NONE, U0, U1, U64


@kernel
def drop_row(value, row, rows):
    """Let the last row take the place of another one.

    The transpose of the row that goes still names it: drop that as well (``drop_rows``), or make it its own before.

    Args:
        value: [S + H] uint64. Factors and pairs of rows, as in ``search.walks.walk_z3t``; changes in place.
        row: first slot of the row that goes, a multiple of 4 below ``4 * rows``.
        rows: rows in use, at least one.

    Returns:
        The rows that are left, one less.
    """
    last = 4 * (rows - 1)
    if row != last:
        for part in range(4):
            value[row + part] = value[last + part]
        pair = np.int64(value[row + 3])
        value[(row if pair == last else pair) + 3] = np.uint64(row)
    return rows - 1


@kernel
def drop_rows(value, row, other, rows):
    """Remove an orbit: a row and its transpose, or one row that is its own.

    Args:
        value: [S + H] uint64. See ``drop_row``.
        row: first slot of the one row.
        other: first slot of its transpose, the same for an orbit of three.
        rows: rows in use.

    Returns:
        The rows that are left, two less or one.
    """
    rows = drop_row(value, max(row, other), rows)
    return drop_row(value, min(row, other), rows) if row != other else rows


@kernel
def collapse(value, row, middle, rows):
    """Turn the orbit of six of a(x)b(x)a^T into that of three of a(x)(b + b^T)(x)a^T, zero where b = b^T.

    Args:
        value: [S + H] uint64. See ``drop_row``.
        row: first slot of either row of the orbit; its transpose is another row.
        middle: place of b in it, 0 to 2; the next factor in cyclic order is the transpose of the one before b.
        rows: rows in use.

    Returns:
        The rows that are left, one less.
    """
    pair = np.int64(value[row + 3])
    first, last = value[row + (middle + 2) % 3], value[row + (middle + 1) % 3]
    value[row + 1] = value[row + middle] ^ value[pair + 2 - middle]
    value[row], value[row + 2], value[row + 3] = first, last, np.uint64(row)
    return drop_row(value, pair, rows)


@kernel
def merge_rows(value, row, third, other, third_other, rows):
    """Reduce two orbits that agree in the two places beside ``third`` of the one and ``third_other`` of the other.

    * abc + abc' = ab(c + c'), for two orbits of six as for two of three.
    * aba^T, of three, and the six of abc are (a + c^T)b(a^T + c) and c^Tbc, both of three.

    aba and bab, of three each, would be the cubes of a, b and a + b. That is left out: it takes the diagonal that a
    walk starts from back to the standard algorithm at once.

    Args:
        value: [S + H] uint64. See ``drop_row``.
        row: first slot of a row of the one orbit.
        third: the place in it, 0 to 2, whose factor may differ.
        other: first slot of a row of another orbit, neither ``row`` nor its transpose. The factors ahead of and behind
            ``third_other`` in it equal those ahead of and behind ``third`` in the first.
        third_other: the place in it whose factor may differ.
        rows: rows in use.

    Returns:
        The rows that are left, as many as before where there is nothing to be done.
    """
    pair, pair_other = np.int64(value[row + 3]), np.int64(value[other + 3])
    if pair != row and pair_other != other:
        value[other + third_other] ^= value[row + third]
        value[pair_other + 2 - third_other] ^= value[pair + 2 - third]
        return drop_rows(value, row, pair, rows)
    if pair == row and pair_other == other:
        if third != third_other:
            return rows
        value[other + 1] ^= value[row + 1]
        return drop_row(value, row, rows)
    if pair_other == other:
        row, third, other, third_other = other, third_other, row, third
        pair_other = np.int64(value[other + 3])
    if third == 1:
        return rows  # the six are those of a(x)b(x)a^T and collapse by themselves
    b = value[row + 1]
    right, left = value[other + third_other], value[pair_other + 2 - third_other]
    if third == 0:
        left, right = right, left
    value[row] ^= left
    value[row + 2] ^= right
    value[other], value[other + 1], value[other + 2], value[other + 3] = left, b, right, np.uint64(other)
    return drop_row(value, pair_other, rows)


@kernel
def tidy_z3t(value, cubes, links, active, place, rows):
    """Do every reduction, then build the table.

    Args:
        value: [S + H] uint64. Factors and pairs of rows, as in ``search.walks.walk_z3t``.
        cubes: [K] uint64. The cubes, zeros after them.
        links: [2 * (S + H)] uint32. Filled anew.
        active: [S] uint32. Likewise.
        place: [S] uint32. Likewise.
        rows: rows in use.

    Returns:
        The rows that are left, the cubes, and the length of ``active``.
    """
    slots = active.size
    shift = U64
    while (U1 << (U64 - shift)) < np.uint64(value.size - slots):
        shift -= U1
    cubic = 0
    while cubic < cubes.size and cubes[cubic] != U0:
        cubic += 1
    alive = 0
    dirty = True
    while dirty:
        dirty = False
        alive = 0
        for head in range(slots, value.size):
            links[2 * head] = head
            links[2 * head + 1] = head
        for cell in range(4 * rows):
            mode = cell & 3
            if mode == 3:
                continue
            row, new = cell - mode, value[cell]
            pair = np.int64(value[row + 3])
            if new == U0:
                rows, dirty = drop_rows(value, row, pair, rows), True
                break
            # Three times a cube is the cube.
            if value[row] == value[row + 1] and value[row] == value[row + 2] and cubic + 2 <= cubes.size:
                cubic = toggle_cube(cubes, cubic, value[row])
                if pair != row:
                    cubic = toggle_cube(cubes, cubic, value[pair])
                rows, dirty = drop_rows(value, row, pair, rows), True
                break
            head = slots + np.int64((new * HASH) >> shift)
            near = np.int64(links[2 * head])
            while near != head and value[near] != new:
                near = np.int64(links[2 * near])
            place[cell] = NONE
            if near != head:
                mate = near
                while value[mate] == new and not dirty:
                    turned = mate & 3
                    other = mate - turned
                    if other == pair and other != row:
                        if turned != 2 - mode:
                            rows, dirty = collapse(value, row, 1 - mode + turned, rows), True
                    elif other != row:
                        ahead, ahead_other = (mode + 1) % 3, (turned + 1) % 3
                        behind, behind_other = (mode + 2) % 3, (turned + 2) % 3
                        before = rows
                        if value[row + ahead] == value[other + ahead_other]:
                            rows = merge_rows(value, row, behind, other, behind_other, rows)
                        elif value[row + behind] == value[other + behind_other]:
                            rows = merge_rows(value, row, ahead, other, ahead_other, rows)
                        dirty = rows < before
                    mate = np.int64(links[2 * mate])
                if dirty:
                    break
                place[cell] = alive
                active[alive] = cell
                alive += 1
                if place[near] == NONE:
                    place[near] = alive
                    active[alive] = near
                    alive += 1
            after = np.int64(links[2 * near])
            links[2 * cell] = after
            links[2 * cell + 1] = near
            links[2 * near] = cell
            links[2 * after + 1] = cell
    return rows, cubic, alive
