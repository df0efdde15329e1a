"""Ctrl-C once: finish what is at hand and save; twice: stop now."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible(unit: str) -> Iterator[list[int]]:
    """A list that is empty until the first SIGINT or SIGTERM; the second one raises KeyboardInterrupt.

    Args:
        unit: what is finished first, for the message.
    """
    received: list[int] = []

    def handler(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
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
