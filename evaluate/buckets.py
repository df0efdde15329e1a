"""Buckets of shapes for which one trial speaks, and products that are too small for any."""

from __future__ import annotations

from evaluate.cases import Shape

SMALLEST_SIDE, SMALLEST_VOLUME = 256, 1024**3  # below nothing that was measured paid on any device
_STEPS = 4  # buckets of a size in an octave


def bucket(shape: Shape) -> Shape:
    """The sizes for which a trial at ``shape`` speaks: each rounded up to one of four steps an octave."""
    m, n, k = (_rounded(size) for size in shape)
    return m, n, k


def small(shape: Shape) -> bool:
    """Whether no scheme can pay at such a shape, so that nothing need be looked up."""
    m, n, k = shape
    return min(shape) < SMALLEST_SIDE or m * n * k < SMALLEST_VOLUME


def _rounded(size: int) -> int:
    octave = 1 << max(0, (size - 1).bit_length() - 1)
    step = max(1, octave // _STEPS)
    return -(-size // step) * step
