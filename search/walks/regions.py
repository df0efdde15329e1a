"""Parts of a scheme in which a walk moves while the other terms stand still (Arai-Ichikawa-Hukushima 2023).

In a large scheme there are many flips for one reduction. A walk among a third of the terms meets its reductions there
sooner, and it loses none of what the others have reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catalog.scheme import Scheme

# A region holds this share of the terms, drawn anew each time.
_SMALLEST, _LARGEST = 1 / 3, 1 / 2


def neighbours(scheme: Scheme) -> NDArray[np.bool_]:
    """Which terms share a factor up to its sign, [r, r]; every term does with itself."""
    shared = np.zeros((scheme.rank, scheme.rank), bool)
    for factor in scheme.factors:
        if not factor.size:
            continue
        first = np.take_along_axis(factor, (factor != 0).argmax(axis=0)[None], axis=0)
        _, label = np.unique(factor * np.where(first < 0, -1, 1), axis=1, return_inverse=True)
        shared |= label.reshape(-1, 1) == label.reshape(1, -1)
    return shared


def seam(scheme: Scheme, new: int) -> NDArray[np.int64]:
    """The first ``new`` terms of a scheme and all that share a factor with one of them."""
    return np.flatnonzero(neighbours(scheme)[:new].any(axis=0))


def neighbourhood(scheme: Scheme, rng: np.random.Generator) -> NDArray[np.int64]:
    """A third to half of the terms, grown at random from one of them along shared factors."""
    shared = neighbours(scheme)
    size = round(scheme.rank * rng.uniform(_SMALLEST, _LARGEST))
    chosen = np.zeros(scheme.rank, bool)
    reached = np.zeros(scheme.rank, bool)
    for _ in range(size):
        # Where nothing is left that shares a factor, the region goes on elsewhere.
        border = np.flatnonzero(reached & ~chosen)
        term = rng.choice(border if len(border) else np.flatnonzero(~chosen))
        chosen[term] = True
        reached |= shared[term]
    return np.flatnonzero(chosen)
