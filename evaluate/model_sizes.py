"""How large the models of the model check are, and how they are trained and evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluate.lm import Config
from evaluate.lm_train import Training


@dataclass(frozen=True)
class Size:
    """A model and how it is trained and evaluated.

    Attributes:
        config: of the model.
        training: of the model.
        batch: sequences of a pass of the evaluation, so that products have M = batch * context.
        sequences: of the evaluation, at most; whole batches of them are taken.
    """

    config: Config
    training: Training
    batch: int
    sequences: int


SIZES = {
    "default": Size(Config(), Training(seconds=120.0), 32, 1280),
    "tiny": Size(Config(2, 64, 4, 256, 64), Training(steps=150, batch=8, rate=1e-2, warm_up=20), 16, 64),
}


def resized(size: Size, *, steps: int | None, seconds: float | None, seed: int) -> Size:
    """A size with another training; a number of steps alone lifts the limit of seconds.

    Raises:
        ValueError: as of ``Training``.
    """
    training = replace(size.training, seed=seed)
    if steps is not None:
        training = replace(training, steps=steps, warm_up=min(training.warm_up, steps), seconds=None)
    return replace(size, training=training if seconds is None else replace(training, seconds=seconds))
