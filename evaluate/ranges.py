"""What a sample of the operands says of their range: whether rows need scaling, and whether planes may be of fp16.

A scheme adds rows of different blocks, so that a small row gets the rounding errors of a large one. A few rows of A and
columns of B tell at the cost of one decision; what they do not show, such as a single outlier, they do not find.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evaluate.array_numpy import Numpy

_LINES = 128  # of each operand, evenly spread
_UNEVEN = 16.0  # largest norm over smallest, at which small rows lose four bits
_LARGEST = 65504.0 / 64  # sums in planes, and what the sample missed, may be larger
_SMALLEST = 2.0**-12  # root mean square: below it fp16 rounds coarser than bf16


def uneven(library: Numpy, a: Any, b: Any) -> bool:
    """Whether rows of A [M, K], or columns of B [K, N], differ so much that they need scaling."""
    for lines in _samples(library, a, b):
        norms = np.sqrt(np.mean(lines**2, axis=1))
        norms = norms[np.isfinite(norms) & (norms > 0)]
        if norms.size and norms.max() > _UNEVEN * norms.min():
            return True
    return False


def plane_dtype_of(library: Numpy, operands: Iterable[Any]) -> str | None:
    """The type of planes that rounds finest and does not overflow: fp16 for bf16 where the range allows, else None."""
    operands = list(operands)
    if any(library.dtype(x) != "bf16" for x in operands):
        return None
    for x in operands:
        values = np.abs(next(_samples(library, x)))
        values = values[np.isfinite(values)]
        if not values.size or values.max() > _LARGEST or np.sqrt(np.mean(values**2)) < _SMALLEST:
            return None
    return "fp16"


def _samples(library: Numpy, a: Any, *b: Any) -> Iterator[np.ndarray]:
    """Rows of A and columns of B in fp64 on the host."""
    for x in (a, *(other.T for other in b)):
        yield library.sample(x, np.unique(np.linspace(0, x.shape[0] - 1, _LINES).astype(np.int64)))
