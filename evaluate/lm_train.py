"""Trains the language model of ``evaluate.lm`` by Adam (Kingma, Ba 2015, arXiv 1412.6980), with products in bf16.

The state is the parameters and both moments of Adam, all fp32. With a limit of steps alone, the same seed gives the
same model on a CPU; on a GPU XLA chooses among algorithms by their time, and their roundings differ.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evaluate.corpus import Bytes, drawn
from evaluate.lm import Config, Parameters, bits, cast, forward, initial

_FIRST, _SECOND, _EPSILON = 0.9, 0.95, 1e-8  # decay of the two moments
_LARGEST = 1.0  # norm to which gradients are clipped
_LEAST = 0.1  # of the learning rate, at the end
_LOOK = 10  # steps between two looks at the clock, each of which waits for the device
_POINTS = 25  # of the curve


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    Attributes:
        steps: after which it ends, and along which the learning rate falls by a cosine.
        batch: sequences of a step.
        rate: the largest learning rate.
        warm_up: steps along which it rises.
        seconds: after which it ends too, compiling left out; None for no such limit.
        seed: of the parameters and the sequences.

    Raises:
        ValueError: a number below 1, or a negative seed.
    """

    steps: int = 1000
    batch: int = 32
    rate: float = 3e-4
    warm_up: int = 100
    seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.warm_up) < 1 or self.rate <= 0 or self.seed < 0:
            raise ValueError(f"steps, batch, rate and warm-up must be positive and the seed at least 0, not {self}")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds must be a positive number, not {self.seconds}")


@dataclass(frozen=True)
class Trained:
    """A model and how it came to be.

    Attributes:
        parameters: as of ``evaluate.lm.shapes``, fp32.
        facts: for the document: ``steps`` that were made, ``seconds`` they took, ``compile_seconds``, ``ended_by``
            "steps" or "seconds", and ``curve``, pairs of a step and its loss in bits per byte.
    """

    parameters: Parameters
    facts: dict[str, Any]


def train(
    text: Bytes, config: Config, training: Training, on_point: Callable[[int, float], None] | None = None
) -> Trained:
    """Train a model from nothing.

    Args:
        text: [..] uint8, longer than the context.
        config: of the model.
        training: how.
        on_point: called with a step and its loss now and then.

    Raises:
        ValueError: the text is too short.
        RuntimeError: the loss is no number any more.
    """
    if len(text) <= config.context + 1:
        raise ValueError(f"a text of {len(text)} bytes is too short for a context of {config.context}")
    rng = np.random.default_rng(training.seed)
    parameters = initial(config, training.seed)
    state = (parameters, _zeros(parameters), _zeros(parameters))
    curve: list[tuple[int, float]] = []
    every = max(1, training.steps // _POINTS)
    called, began, compiled, ended = monotonic(), 0.0, 0.0, "steps"
    step = 0
    while step < training.steps:
        tokens = drawn(text, config.context, training.batch, rng)
        step += 1
        state, loss = _step(state, tokens, np.float32(rate(training, step)), np.float32(step), config)
        if step == 1:
            loss.block_until_ready()
            began, compiled = monotonic(), monotonic() - called
        if step % every == 0 or step in (1, training.steps):
            curve.append((step, float(loss)))
            if not math.isfinite(curve[-1][1]):
                raise RuntimeError(f"the loss of step {step} is no number; use a smaller learning rate")
            if on_point:
                on_point(*curve[-1])
        if training.seconds is not None and step % _LOOK == 0:
            loss.block_until_ready()
            if monotonic() - began > training.seconds:
                ended = "steps" if step == training.steps else "seconds"
                break
    jax.block_until_ready(state)
    facts = {"steps": step, "seconds": monotonic() - began, "compile_seconds": compiled, "ended_by": ended}
    return Trained(state[0], {**facts, "curve": [list(point) for point in curve]})


def rate(training: Training, step: int) -> float:
    """The learning rate of a step, counted from 1."""
    rising = min(1.0, step / training.warm_up)
    falling = _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / training.steps)))
    return training.rate * rising * falling


@jax.jit
def _zeros(parameters: Parameters) -> Parameters:
    zeros: Parameters = jax.tree.map(jnp.zeros_like, parameters)
    return zeros


@functools.partial(jax.jit, static_argnames="config", donate_argnums=0)
def _step(state: Any, tokens: jax.Array, rate: jax.Array, step: jax.Array, config: Config) -> tuple[Any, jax.Array]:
    """One step of Adam: state, tokens [B, T + 1] uint8, scalars fp32; the new state and the loss in bits per byte."""
    parameters, first, second = state

    def loss_of(parameters: Parameters) -> jax.Array:
        logits = forward(cast(parameters, jnp.bfloat16), tokens[:, :-1], config)
        return jnp.mean(bits(logits, tokens[:, 1:]))

    loss, gradient = jax.value_and_grad(loss_of)(parameters)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, _LARGEST / (norm + 1e-6)), gradient)
    first = jax.tree.map(lambda m, g: _FIRST * m + (1 - _FIRST) * g, first, gradient)
    second = jax.tree.map(lambda v, g: _SECOND * v + (1 - _SECOND) * g * g, second, gradient)
    # Both moments start at zero, which the divisors make up for.
    of_first, of_second = 1 - _FIRST**step, 1 - _SECOND**step

    def moved(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p - rate * (m / of_first) / (jnp.sqrt(v / of_second) + _EPSILON)

    return (jax.tree.map(moved, parameters, first, second), first, second), loss
