"""Moves on orbits of the cyclic shift with transpose that a walk makes once in many flips: plus and exchanges.

They change the rows of ``search.walks.walk_z3t``; afterwards ``search.walks.reduce_z3t`` builds the table anew.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.unsigned import STAR, U1, U3, U7, U13, U17, U32


@kernel
def plus_z3t(value, slots, rows, x):
    """Add two rows to a random pair of orbits, in random turns, that have no factor in common there.

    * Two of six, abc and a'b'c': (a + a')bc + a'b'(c' + c) + a'(b' + b)c, as in ``search.walks.walk_symmetric``.
    * aba^T of three and a'b'c' of six: a(b + b' + b'^T)a^T, of three, with (a + a')b'c' and ab'(a^T + c').
    * aba^T and a'b'a'^T, both of three: (a + a')b(a + a')^T and a'(b + b')a'^T, of three, with aba'^T.

    Args:
        value: [S + H] uint64. See ``search.walks.walk_z3t``.
        slots: S.
        rows: rows in use.
        x: state of the xorshift generator.

    Returns:
        The rows, two more or as many as before, and the generator's state.
    """
    if 4 * (rows + 2) > slots:
        return rows, x
    extra, extra_pair = 4 * rows, 4 * rows + 4
    for _trial in range(64):
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        row = 4 * np.int64(((random >> U32) * np.uint64(rows)) >> U32)
        mode = np.int64((random & U7) % U3)
        x ^= x << U13
        x ^= x >> U7
        x ^= x << U17
        random = x * STAR
        other = 4 * np.int64(((random >> U32) * np.uint64(rows)) >> U32)
        turned = np.int64((random & U7) % U3)
        pair, pair_other = np.int64(value[row + 3]), np.int64(value[other + 3])
        if row == other or pair == other:
            continue
        if pair_other == other:
            row, pair, other, pair_other = other, pair_other, row, pair
        if pair == row:
            mode = np.int64(0)
        if pair_other == other:
            turned = np.int64(0)
        y, z = (mode + 1) % 3, (mode + 2) % 3
        y_other, z_other = (turned + 1) % 3, (turned + 2) % 3
        a, b, c = value[row + mode], value[row + y], value[row + z]
        a_other, b_other, c_other = value[other + turned], value[other + y_other], value[other + z_other]
        left, middle, right = value[pair + 2 - z], value[pair + 2 - y], value[pair + 2 - mode]
        left_other, middle_other = value[pair_other + 2 - z_other], value[pair_other + 2 - y_other]
        right_other = value[pair_other + 2 - turned]
        if a == a_other or c == c_other or (b == b_other and pair_other != other):
            continue
        if pair != row:
            value[row + mode] ^= a_other
            value[pair + 2 - mode] ^= right_other
            value[other + z_other] ^= c
            value[pair_other + 2 - z_other] ^= left
            value[extra], value[extra + 1], value[extra + 2] = a_other, b ^ b_other, c
            value[extra_pair], value[extra_pair + 1], value[extra_pair + 2] = left, middle ^ middle_other, right_other
        elif pair_other != other:
            value[row + 1] ^= b_other ^ middle_other
            value[other + turned] ^= a
            value[pair_other + 2 - turned] ^= right
            value[extra], value[extra + 1], value[extra + 2] = a, b_other, c ^ c_other
            value[extra_pair], value[extra_pair + 1], value[extra_pair + 2] = a ^ left_other, middle_other, c
        else:
            value[row] ^= a_other
            value[row + 2] ^= c_other
            value[other + 1] ^= b
            value[extra], value[extra + 1], value[extra + 2] = a, b, c_other
            value[extra_pair], value[extra_pair + 1], value[extra_pair + 2] = a_other, b, c
        value[extra + 3], value[extra_pair + 3] = np.uint64(extra_pair), np.uint64(extra)
        return rows + 2, x
    return rows, x


@kernel
def exchange_z3t(value, rows, x):
    """Rewrite some orbits that share a factor b = b^T, a random one among them; the rank stays or falls.

    Written for b alone, an orbit of three aba^T is the square of a, one of six ubv^T is uv + vu, and

    * xx + yy + zz = aa + uv + vu with a = x + y + z, u = x + z, v = x + y, and back,
    * xx + yy + uv + vu = (x + u)(x + u) + (y + u)(y + u) + uw + wu with w = v + x + y.

    Where a is zero a row is lost.

    Args:
        value: [S + H] uint64. See ``search.walks.walk_z3t``.
        rows: rows in use.
        x: state of the xorshift generator.

    Returns:
        Whether something was rewritten, and the generator's state.
    """
    x ^= x << U13
    x ^= x >> U7
    x ^= x << U17
    random = x * STAR
    row = 4 * np.int64(((random >> U32) * np.uint64(rows)) >> U32)
    pair = np.int64(value[row + 3])
    x ^= x << U13
    x ^= x >> U7
    x ^= x << U17
    random = x * STAR
    begin = np.int64(((random >> U32) * np.uint64(rows)) >> U32)
    middle = 1 if pair == row else np.int64(random & U7) % 3
    if value[row + middle] != value[pair + 2 - middle]:
        return False, x
    first, second = -1, -1
    for step in range(rows):
        other = 4 * ((begin + step) % rows)
        if other != row and np.int64(value[other + 3]) == other and value[other + 1] == value[row + middle]:
            if first >= 0:
                second = other
                break
            first = other
    if first < 0 or (second < 0 and pair == row):
        return False, x
    if pair == row:
        u, u_right = value[row] ^ value[second], value[row + 2] ^ value[second + 2]
        v, v_right = value[row] ^ value[first], value[row + 2] ^ value[first + 2]
        value[row] ^= value[first] ^ value[second]
        value[row + 2] ^= value[first + 2] ^ value[second + 2]
        value[first], value[first + 2], value[first + 3] = u, v_right, np.uint64(second)
        value[second], value[second + 2], value[second + 3] = v, u_right, np.uint64(first)
        return True, x
    before, after = (middle + 2) % 3, (middle + 1) % 3
    u, u_right = value[row + before], value[pair + 2 - before]
    v, v_right = value[pair + 2 - after], value[row + after]
    if second >= 0 and random >> np.uint64(3) & U1:
        value[pair + 2 - after] ^= value[first] ^ value[second]
        value[row + after] ^= value[first + 2] ^ value[second + 2]
        for other in (first, second):
            value[other] ^= u
            value[other + 2] ^= u_right
        return True, x
    b = value[row + middle]
    value[row], value[row + 1], value[row + 2] = value[first] ^ u, b, value[first + 2] ^ u_right
    value[pair], value[pair + 1], value[pair + 2] = value[first] ^ v, b, value[first + 2] ^ v_right
    value[row + 3], value[pair + 3] = np.uint64(row), np.uint64(pair)
    value[first] ^= u ^ v
    value[first + 2] ^= u_right ^ v_right
    return True, x
