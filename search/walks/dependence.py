"""Linear dependences modulo 3 among the factors of terms that share another one, over F3 and over Z.

A vector is two masks, of its non-zero entries and of those that are -1; see ``search.walks.walk_f3`` for their sum.
"""

from __future__ import annotations

import numpy as np

from search.compiled import kernel
from search.walks.unsigned import U0, U1, U2, U3, U4, U7, U64


@kernel
def sharing(value, sign, links, first, rows):
    """Gather the terms that share a factor.

    Args:
        value: [S + 3*H] uint64.
        sign: [S + 3*H] uint64.
        links: [2 * (S + 3*H)] uint32.
        first: slot of the factor.
        rows: [64] uint64. Filled with the first slots of the terms.

    Returns:
        How many there are, at most 64; none when another slot than ``first`` begins its bucket.
    """
    new, minus = value[first], sign[first]
    count = U0
    before = np.uint64(links[U2 * first + U1])
    if value[before] == new and sign[before] == minus:
        return count
    slot = first
    while value[slot] == new and sign[slot] == minus and count < U64:
        rows[count] = slot - (first & U3)
        count += U1
        slot = np.uint64(links[U2 * slot])
    return count


@kernel
def remainder(rest, minus, number, basis, size):
    """Take the vectors of a basis off a vector and remember what was taken.

    Args:
        rest: non-zero entries of the vector.
        minus: its entries that are -1.
        number: of the vector.
        basis: [256] uint64. Four words for each: its entries, and likewise which numbers it is made of.
        size: vectors in the basis; one joins them when something is left.

    Returns:
        What is left (zero for a relation), then which numbers take part and those whose coefficient is -1.
    """
    used, against = U1 << number, U0
    for place in range(U0, U4 * size, U4):
        new, turned = basis[place], basis[place + U1]
        pivot = new & (~new + U1)
        if rest & pivot:
            whole = U0 if (minus ^ turned) & pivot else ~U0
            other = basis[place + U2]
            turned ^= new & whole
            turned2 = basis[place + U3] ^ (other & whole)
            odd, lone, twice = minus ^ turned, rest ^ new, rest & new & ~(minus ^ turned)
            rest, minus = lone | twice, (odd & lone) | (twice & ~minus)
            odd, lone, twice = against ^ turned2, used ^ other, used & other & ~(against ^ turned2)
            used, against = lone | twice, (odd & lone) | (twice & ~against)
    if rest != U0:
        place = U4 * size
        basis[place], basis[place + U1], basis[place + U2], basis[place + U3] = rest, minus, used, against
    return rest, used, against


@kernel
def holds_over_z(value, sign, rows, count, mode, used, against):
    """Whether a relation modulo 3 of the factors of terms in one mode is one over Z as well, coefficients 1 and -1.

    Args:
        value: [S + 3*H] uint64.
        sign: [S + 3*H] uint64.
        rows: [64] uint64. First slots of the terms.
        count: terms.
        mode: of the factors.
        used: which terms take part.
        against: those whose coefficient is -1.
    """
    # Sums of all entries at once, bit by bit; they are at most 64 in absolute value, so that 7 bits tell them from 0.
    sums = np.zeros(7, np.uint64)
    for j in range(U0, count):
        if used >> j & U1:
            slot = rows[j] + mode
            minus = sign[slot] ^ (value[slot] * (against >> j & U1))
            up, down = value[slot] ^ minus, minus
            for digit in range(U0, U7):
                old = sums[digit]
                sums[digit] = old ^ up ^ down
                up, down = old & up, ~old & down
    return not sums.any()
