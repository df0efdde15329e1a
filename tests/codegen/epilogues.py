"""Operands of epilogues for the tests, and how far a kernel's result may be from the reference."""

from __future__ import annotations

import numpy as np

from codegen.epilogue import Epilogue, apply, operand_shape

UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24, "fp64": 2.0**-53}
LEAST = {"fp16": 2.0**-25, "bf16": 2.0**-134, "fp32": 2.0**-150, "fp64": 0.0}  # half of the smallest number
FAST = {"fp16": 2.0**-14.1, "bf16": 2.0**-11.3}  # the error of gelu, of its result
SPECIAL = 2.0**-18  # that of what is made of an exponential and a reciprocal
# The largest slope of an activation function.
SLOPE = {"relu": 1.0, "gelu": 1.13, "gelu_tanh": 1.13, "silu": 1.1}


def drawn(epilogue: Epilogue, m: int, n: int, dtype: np.dtype, seed: int = 0) -> dict[str, np.ndarray | float]:
    """Operands that C's type has: factors up to 2, terms up to 4, a scale of 0.75."""
    rng = np.random.default_rng([m, n, seed])
    found: dict[str, np.ndarray | float] = {}
    for name in epilogue.operands:
        peak = 2 if name == "column_scale" else 4
        found[name] = rng.uniform(-peak, peak, operand_shape(name, m, n)).astype(dtype).astype(float)
    if epilogue.scales:
        found["scale"] = 0.75
    return found


def bound(epilogue: Epilogue, c: np.ndarray, operands, dtype: str, error: float = 0.0) -> np.ndarray:
    """How far each element may be from ``apply``: each step rounds, and passes the error before it on.

    Args:
        epilogue: the steps.
        c: exact values before them.
        operands: those of the steps.
        dtype: of C.
        error: of the kernel's sums before the steps.
    """
    unit = UNIT["fp64" if dtype == "fp64" else "fp32"]
    value, off = c, np.full(c.shape, error)
    for step in epilogue.steps:
        after = apply(Epilogue((step,)), value, operands)
        if step in SLOPE:
            # Special functions are off by some units of their argument, and of 16 bits the polynomial of gelu by a
            # fifth of a rounding of the result; where that is next to nothing, by nothing that counts.
            fast, least = 16 * unit, 0.0
            if dtype in FAST and step != "relu":
                fast, least = FAST[dtype] if step == "gelu" else SPECIAL, 3e-12
            off = SLOPE[step] * off + 4 * unit * np.abs(value) + fast * np.abs(after) + least
        else:
            factor = np.abs(operands[step]) if step in ("column_scale", "scale") else 1.0
            off = factor * off + 2 * unit * (np.abs(value) + np.abs(after) + np.abs(operands[step]))
        value = after
    return off + UNIT[dtype] * (np.abs(value) + off) + LEAST[dtype]
