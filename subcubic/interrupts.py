"""Ctrl-C once: finish what is at hand and save; twice: stop now."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Interrupts:
    """Signals as they came; true once there was one.

    Attributes:
        at_work: whether there is something to finish first. Before, one signal is enough: compiling takes a minute on a
            slow machine and leaves nothing to save.
        signals: their numbers.
    """

    at_work: bool
    signals: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.signals)


@contextmanager
def interruptible(unit: str, at_work: bool = True) -> Iterator[Interrupts]:
    """What SIGINT and SIGTERM have asked for; the second one raises KeyboardInterrupt.

    Args:
        unit: what is finished first, for the message.
        at_work: whether something is at hand from the start; else the caller says so later.
    """
    received = Interrupts(at_work)

    def handler(number: int, _frame: Any) -> None:
        received.signals.append(number)
        if len(received.signals) > 1 or not received.at_work:
            raise KeyboardInterrupt
        print(f"\nstopping after this {unit}; once more stops at once", file=sys.stderr)

    try:
        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: the caller has its own way to stop
        yield received
        return
    try:
        yield received
    finally:
        for number, action in before.items():
            signal.signal(number, action)
