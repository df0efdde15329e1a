"""Unsigned constants of the walk kernels.

Unsigned numbers spare the kernels the test for negative indices; one signed literal among them would make numba
continue in floating point.
"""

from __future__ import annotations

import numpy as np

U0, U1, U2, U3, U4 = (np.uint64(i) for i in range(5))
U7, U13, U17, U32, U56, U64 = (np.uint64(i) for i in (7, 13, 17, 32, 56, 64))
NONE = np.uint32(0xFFFFFFFF)
HASH = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
TURN = np.uint64(0xC2B2AE3D27D4EB4F)  # spreads the signs before they are hashed with the values
STAR = np.uint64(0x2545F4914F6CDD1D)  # xorshift64* (Vigna 2016)
