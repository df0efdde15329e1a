"""Live progress of a search or a training on stderr: one line, updated on a terminal, else one every ten seconds."""

from __future__ import annotations

import time
from types import TracebackType

from search.events import Progress

_LIVE_S, _LINES_S = 0.2, 10.0


class Display:
    """Shows rate, best rank and time since the last improvement; a context manager that clears its line."""

    def __init__(self, name: str, target: int, quiet: bool) -> None:
        from rich.console import Console

        self.name, self.target, self.quiet = name, target, quiet
        self.console = Console(stderr=True)
        self.status = self.console.status("starting") if self.console.is_terminal and not quiet else None
        self.shown = time.monotonic()

    def update(self, event: Progress, best: int | None) -> None:
        """Show an event unless the last line is too recent."""
        self.show(
            f"rank {'-' if best is None else best} (walks {event.rank}, target {self.target})  "
            f"{event.per_second / 1e6:.1f} M/s  {event.seconds:.0f} s, "
            f"{event.since_improvement_s:.0f} s since the last gain"
        )

    def show(self, text: str) -> None:
        """Show how far it is unless the last line is too recent."""
        now = time.monotonic()
        if self.quiet or now - self.shown < (_LIVE_S if self.status else _LINES_S):
            return
        self.shown = now
        line = f"{self.name}  {text}"
        if self.status:
            self.status.update(line)
        else:
            self.console.print(line, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Show a sentence that stays."""
        self.console.print(text, highlight=False, soft_wrap=True)

    def __enter__(self) -> Display:
        if self.status:
            self.status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status:
            self.status.stop()
