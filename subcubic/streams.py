"""Output whose reader may leave: `subcubic ... | head` must neither end the work nor change its exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Among them those that begin sequences a terminal obeys, and those that turn the direction of a line.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """One line whose control characters are escapes: names and origins of strangers must not speak to a terminal."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class _Patient:
    """A text stream that forgets what it is given once its reader has left; other failures are raised."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        try:
            return int(self.stream.write(text) or 0)
        except UnicodeEncodeError:  # a path of bytes that are no text, or a terminal of few characters
            encoding = self.stream.encoding or "ascii"
            self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except BrokenPipeError:
            self._forget()
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            self._forget()
        except OSError:
            self._forget()
            raise

    def _forget(self) -> None:
        # What is still buffered would fail again when the interpreter flushes it at exit.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def patient_streams() -> Iterator[None]:
    """Make stdout and stderr patient, and flush them at the end, so that a full disk is met here and not at exit."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Patient(stream) if stream is not None else stream for stream in before)
    try:
        yield
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        sys.stdout, sys.stderr = before
