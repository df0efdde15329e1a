"""Sparse representatives under change of bases: a scheme over F2 is sandwiched until few coefficients are left.

A change of bases (de Groote 1978) is a sequence of elementary ones: with one of m, k, n as its size, X = I + s E_ij
takes the slice j of one factor, times s, to the slice i, and the slice i of the other factor, times -s, to the slice j.
Over Z any sign s is the same step modulo 2, so a lift of the sparse scheme can be carried back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Scheme

# The size (0 for m, 1 for k, 2 for n) and the slices i and j.
Step = tuple[int, int, int]

# For every size: the factor that gains the slice j at i with that factor's axis, and the one that loses i at j.
_SIDES = (((2, 0), (0, 0)), ((0, 1), (1, 0)), ((1, 1), (2, 1)))
_PATIENCE = 40
_MISSES = 8


def sparsen(scheme: Scheme, rng: np.random.Generator, kicks: int = 0) -> tuple[Scheme, list[Step]]:
    """Change bases of a scheme over F2 by steepest descent in the number of non-zero coefficients.

    Args:
        scheme: over F2.
        rng: for the choice among equally good steps.
        kicks: random steps to begin with.

    Returns:
        The sparsest scheme met and the steps to it.
    """
    blocks = _blocks(scheme)
    steps: list[Step] = []
    sizes = [size for size, length in enumerate(scheme.format) if length > 1]
    if not sizes:
        return scheme, steps
    for _ in range(kicks):
        size = int(rng.choice(sizes))
        i, j = (int(index) for index in rng.choice(scheme.format[size], 2, replace=False))
        steps.append((size, i, j))
        _apply(blocks, steps[-1], 1, 1)
    best, kept, weight = _weight(blocks), len(steps), _weight(blocks)
    while len(steps) < kept + _PATIENCE:
        gains = [_changes(blocks, size) for size in sizes]
        least = min(int(change.min()) for change in gains)
        options = [(s, *at) for s, change in zip(sizes, gains, strict=True) for at in np.argwhere(change == least)]
        size, i, j = (int(part) for part in options[rng.integers(len(options))])
        steps.append((size, i, j))
        _apply(blocks, steps[-1], 1, 1)
        weight += least
        if weight < best:
            best, kept = weight, len(steps)
    for step in reversed(steps[kept:]):
        _apply(blocks, step, 1, 1)
    return _scheme(scheme, blocks), steps[:kept]


def representatives(scheme: Scheme, rng: np.random.Generator, tries: int) -> Iterator[tuple[Scheme, list[Step]]]:
    """Sparse representatives from more and more random steps; those that were met before are left out.

    Args:
        scheme: over F2.
        rng: of all choices.
        tries: how many are looked for; the search also ends when several in a row were met before.
    """
    seen: set[tuple[int, ...]] = set()
    misses = 0
    for kicks in range(tries):
        sparse, steps = sparsen(scheme, rng, kicks)
        # Bases that differ by permutations alone have the same sums.
        sums = np.stack([factor.sum(axis=0) for factor in sparse.factors])
        key = tuple(sums[:, np.lexsort(sums)].ravel().tolist())
        misses = misses + 1 if key in seen else 0
        if misses == _MISSES:
            return
        if not misses:
            seen.add(key)
            yield sparse, steps


def carry_back(scheme: Scheme, steps: list[Step]) -> Scheme:
    """Undo ``steps`` on a scheme over Z, each with the sign that leaves the smaller coefficients."""
    blocks = _blocks(scheme)
    for step in reversed(steps):
        options = []
        for sign in (1, -1):
            option = [block.copy() for block in blocks]
            _apply(option, step, sign)
            options.append(option)
        blocks = min(options, key=lambda option: (max(int(np.abs(b).max()) for b in option), _weight(option)))
    return _scheme(scheme, blocks)


def _blocks(scheme: Scheme) -> list[NDArray[np.int64]]:
    """U, V, W as [rows, columns, r]."""
    m, k, n = scheme.format
    shapes = ((m, k), (k, n), (m, n))
    return [factor.reshape(*shape, -1).copy() for factor, shape in zip(scheme.factors, shapes, strict=True)]


def _scheme(like: Scheme, blocks: list[NDArray[np.int64]]) -> Scheme:
    return Scheme(like.format, like.ring, *(block.reshape(-1, like.rank) for block in blocks))


def _slices(blocks: list[NDArray[np.int64]], size: int) -> list[NDArray[np.int64]]:
    return [np.moveaxis(blocks[factor], axis, 0) for factor, axis in _SIDES[size]]


def _apply(blocks: list[NDArray[np.int64]], step: Step, sign: int, bits: int = -1) -> None:
    """Do a step in place; of every new coefficient only ``bits`` are kept, all or the lowest."""
    size, i, j = step
    gains, loses = _slices(blocks, size)
    gains[i] = gains[i] + sign * gains[j] & bits
    loses[j] = loses[j] - sign * loses[i] & bits


def _changes(blocks: list[NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """By how much every step of one size changes the number of ones, [size, size]; a prohibitive number if i = j."""
    (gain, own), (loss, other) = (
        (gram, np.diag(gram))
        for gram in (s.reshape(len(s), -1) @ s.reshape(len(s), -1).T for s in _slices(blocks, size))
    )
    changes = own[None, :] - 2 * gain + other[:, None] - 2 * loss
    np.fill_diagonal(changes, np.iinfo(np.int64).max)
    return changes


def _weight(blocks: list[NDArray[np.int64]]) -> int:
    return sum(int(np.abs(block).sum()) for block in blocks)
