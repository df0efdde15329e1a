"""Live progress of a search on stderr: one updated line on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from search.events import Progress

_EVERY_S = {True: 0.2, False: 10.0}


class Display:
    """Shows rate, best rank and time since the last improvement; a context manager that ends the line."""

    def __init__(self, name: str, target: int, quiet: bool) -> None:
        self.name, self.target, self.quiet = name, target, quiet
        self.live = sys.stderr.isatty()
        self.shown = time.monotonic()
        self.width = 0

    def update(self, event: Progress, best: int | None) -> None:
        """Show an event unless the last line is too recent."""
        now = time.monotonic()
        if self.quiet or now - self.shown < _EVERY_S[self.live]:
            return
        self.shown = now
        rank = f"rank {'-' if best is None else best} (walks {event.rank}, target {self.target})"
        line = (
            f"{self.name}  {rank}  {event.per_second / 1e6:.1f} M/s  {event.seconds:.0f} s, "
            f"{event.since_improvement_s:.0f} s since the last gain"
        )
        if self.live:
            print("\r" + line.ljust(self.width), end="", file=sys.stderr, flush=True)
            self.width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)
