"""What is done to each element of C before it is stored: steps as data, and what they mean in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Steps with an operand: whether it has a value for each column of C, one for each element, or only one.
VECTORS = ("bias", "column_scale", "column_shift")
MATRICES = ("residual",)
SCALE = "scale"
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
STEPS = (*VECTORS, *MATRICES, SCALE, *ACTIVATIONS)
_ROWS = ("softmax", "log_softmax", "layernorm", "layer_norm", "rmsnorm", "rms_norm")


@dataclass(frozen=True)
class Epilogue:
    """Steps in the order in which they are applied to alpha A B + beta C, before that is rounded to C's type.

    An empty one is false. A batch norm of fixed statistics is ``column_scale`` and ``column_shift``.

    Attributes:
        steps: of ``STEPS``. bias and column_shift add a vector [N], column_scale multiplies by one, residual adds a
            matrix [M, N], scale multiplies by a number that a launch is given; the others are activation functions
            (gelu: the exact one, by erf).

    Raises:
        ValueError: an unknown step, one that cannot be fused, or an operand that would be needed twice.
    """

    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for step in self.steps:
            _check(step)
        for step in self.steps:
            if step not in ACTIVATIONS and self.steps.count(step) > 1:
                raise ValueError(f"step {step} of an epilogue has one operand, so it can be there once; leave one out")

    @classmethod
    def parse(cls, text: str | Epilogue) -> Epilogue:
        """The steps that a text names, as in "bias,gelu"; an empty text: none.

        Raises:
            ValueError: as for the type itself.
        """
        if isinstance(text, Epilogue):
            return text
        if not isinstance(text, str):
            raise ValueError(f"an epilogue is a text such as 'bias,gelu', not {text!r}")
        return cls(tuple(name.strip() for name in text.split(","))) if text.strip() else cls()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __str__(self) -> str:
        return ",".join(self.steps)

    @property
    def operands(self) -> tuple[str, ...]:
        """Steps that read memory, in order."""
        return tuple(step for step in self.steps if step in VECTORS + MATRICES)

    @property
    def scales(self) -> bool:
        """Whether a launch is given a number to multiply by."""
        return SCALE in self.steps

    @property
    def suffix(self) -> str:
        """A part of the names of entry points."""
        return "_".join(self.steps)


NOTHING = Epilogue()


def operand_shape(name: str, m: int, n: int) -> tuple[int, ...]:
    """The shape of an operand beside a C of m rows and n columns."""
    return (m, n) if name in MATRICES else (n,)


def apply(epilogue: Epilogue, c: np.ndarray, operands: Mapping[str, Any]) -> np.ndarray:
    """The steps in float64: what kernels with an epilogue are compared with.

    Args:
        epilogue: the steps.
        c: [..., M, N] what alpha A B + beta C is.
        operands: those that the steps need by name, ``scale`` as a number.

    Raises:
        ValueError: an operand is missing, or its shape is another one.
    """
    c = np.asarray(c, np.float64)
    for step in epilogue.steps:
        if step in ACTIVATIONS:
            c = _FUNCTIONS[step](c)
            continue
        if step not in operands:
            raise ValueError(f"the epilogue {epilogue} needs {step}; it was given {', '.join(operands) or 'nothing'}")
        operand = np.asarray(operands[step], np.float64)
        expected = () if step == SCALE else operand_shape(step, *c.shape[-2:])
        if operand.shape != expected:
            raise ValueError(f"{step} must have the shape {list(expected)}, not {list(operand.shape)}")
        c = c * operand if step in ("column_scale", SCALE) else c + operand
    return c


def _check(step: str) -> None:
    if step in STEPS:
        return
    if step == "dropout":
        raise ValueError(
            "dropout is left out, since it needs random numbers that training frameworks keep; apply it to the result"
        )
    if step in _ROWS:
        raise ValueError(
            f"{step} cannot be a step of an epilogue, since a row of C is spread over many tiles; "
            "apply it to the result"
        )
    raise ValueError(f"unknown step {step!r} of an epilogue; choose from {', '.join(STEPS)}")


def _times(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The product with a weight in [0, 1]; zero where that is zero, for an infinite x, too."""
    with np.errstate(invalid="ignore"):
        return np.where(weight == 0, 0.0, x * weight)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _gelu(x: np.ndarray) -> np.ndarray:
    # Of the complement: 1 + erf would have few digits left where x is far below zero.
    return _times(x, np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) / 2)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return _times(x, _sigmoid(2 * math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.where(x < 0, 0.0, x),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: _times(x, _sigmoid(x)),
}
