"""Settings that are known to work, for two cores and for one GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from catalog.scheme import Format, Ring
from search.player.course import Course
from search.player.learning import Lessons
from search.player.network import Sizes
from search.player.planning import Search

Scale = Literal["auto", "small", "large"]
_SMALL = {
    "games": 32,
    "sizes": Sizes(channels=16),
    "search": Search(simulations=16, candidates=8),
    "lessons": Lessons(batch=64, warm=2500),
}
_LARGE = {
    "games": 256,
    "sizes": Sizes(channels=32),
    "search": Search(simulations=32, candidates=16),
    "lessons": Lessons(batch=512, warm=2500),
}


def course(format: Format, ring: Ring, scale: Scale = "auto", **changed: Any) -> Course:
    """The settings of a scale.

    Args:
        format: of the board.
        ring: of the board.
        scale: "small" for a few minutes of two cores, "large" for a GPU, "auto" for what JAX runs on.
        changed: fields of the course, and of its sizes (``channels``), its search (``simulations``, ``candidates``) and
            its lessons (``batch``, ``warm``) by name; None changes nothing.

    Raises:
        ValueError: the scale is unknown or a value makes no sense.
    """
    if scale not in ("auto", "small", "large"):
        raise ValueError(f"scale is {scale!r}; choose auto, small or large")
    if scale == "auto":
        import jax

        scale = "small" if jax.default_backend() == "cpu" else "large"
    base: dict[str, Any] = dict(_SMALL if scale == "small" else _LARGE)
    given = {name: value for name, value in changed.items() if value is not None}
    for part, names in (
        ("sizes", ("channels",)),
        ("search", ("simulations", "candidates")),
        ("lessons", ("batch", "warm")),
    ):
        own = {name: given.pop(name) for name in names if name in given}
        base[part] = replace(base[part], **own)
    return Course(format, ring, **{**base, **given})
