"""What the options of `subcubic search` mean: checked values from what was typed."""

from __future__ import annotations

from enum import StrEnum

from catalog.scheme import Format
from catalog.store import Catalog
from subcubic.errors import UsageError
from subcubic.options import scheme_ring, shown

_SYMMETRIC_VOLUME = 125


class Method(StrEnum):
    """How to search."""

    AUTO = "auto"
    FLIPS = "flips"
    SYMMETRIC = "symmetric"
    MCTS = "mcts"
    PLAYER = "player"


class WalkRing(StrEnum):
    """Where walks move when the wanted ring leaves a choice."""

    F2 = "F2"
    ZT = "ZT"


def executor_named(name: str) -> str:
    """An executor that there is, by its name."""
    from search.executors import require

    try:
        require(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return name


def method_for(method: Method, format: Format, ring: str, started: bool) -> str:
    """The method by its name, or what suits the search best."""
    if method is not Method.AUTO:
        return method.value
    # Walks beat the tree search at every format that both can do, by three orders of magnitude in time. Large square
    # formats are reached by symmetric ones: 5x5x5:93 takes less time than 98 by way of smaller formats.
    square = len(set(format)) == 1 and format.volume >= _SYMMETRIC_VOLUME and ring != "F3" and not started
    return (Method.SYMMETRIC if square else Method.FLIPS).value


def starts_of(given: list[str], catalog: Catalog, format: Format, ring: str) -> list[str]:
    """The ids to start from, with all that the catalog has in place of the word for it."""
    from subcubic import pool

    return [*(one for one in given if one != pool.EVERYTHING)] + (
        pool.starts(catalog, format, ring) if pool.EVERYTHING in given else []
    )


def target_for(format: Format, ring: str, target: int | None) -> int:
    """A rank that can be reached, the best known one when none is given."""
    from catalog.bounds import check_target
    from subcubic.search_run import target_of

    if target is not None and target > format.volume:
        raise UsageError(f"--target {shown(target)} is above {format.volume}, the rank of the standard algorithm")
    try:
        return check_target(format, scheme_ring(ring), target_of(format, ring, target))
    except ValueError as error:
        raise UsageError(str(error)) from None


def seed_of(seed: int) -> int:
    """A seed in range."""
    if not 0 <= seed < 1 << 63:
        raise UsageError(f"--seed {shown(seed)} must lie in 0..2^63-1")
    return seed


def seconds_of(text: str) -> float:
    """Seconds from ``90``, ``90s``, ``1.5m`` or ``2h``."""
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:].lower())
    try:
        seconds = float(text if factor is None else text[:-1]) * (factor or 1)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"budget {text!r} is no positive time; write it as 30, 90s, 5m or 2h")
    return seconds
