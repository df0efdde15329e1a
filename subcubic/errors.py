"""Exit codes, and the one place where an exception becomes one sentence and a code."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Any

import typer

from subcubic.streams import patient_streams, visible

SCHEMA_VERSION = 1


class ExitCode(IntEnum):
    """What the process returns; documented in the README."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    NOT_EXACT = 3
    MISSING = 4
    BUDGET = 5
    INTERRUPTED = 130


class UsageError(ValueError):
    """An argument or option has a value that cannot be meant."""


def guarded(command: Callable[..., ExitCode | None]) -> Callable[..., None]:
    """Wrap a verb: run it, print any failure as one sentence, leave with the documented exit code."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            with patient_streams():
                code = command(*args, **options) or ExitCode.DONE
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            code = report("interrupted", ExitCode.INTERRUPTED, bool(options.get("json_output")))
        except Exception as error:
            code = report(sentence(error), exit_code(error), bool(options.get("json_output")))
            if os.environ.get("SUBCUBIC_DEBUG"):
                traceback.print_exc()
        raise typer.Exit(int(code))

    return run


def report(message: str, code: ExitCode, as_json: bool) -> ExitCode:
    """Print a failure (one line on stderr; with ``--json`` also one document on stdout) and return its code."""
    if as_json:
        _say(json.dumps({"schema_version": SCHEMA_VERSION, "error": message, "exit_code": int(code)}), "stdout")
    _say(f"subcubic: {visible(message)}", "stderr")
    return code


def _say(line: str, stream: str) -> None:
    """Print a line where it can be printed: a full disk under one stream must not keep a failure from the other."""
    with suppress(OSError), patient_streams():
        if getattr(sys, stream) is not None:  # closed by the shell; print would take stdout instead
            print(line, file=getattr(sys, stream))


def sentence(error: Exception) -> str:
    """One line that says what failed; an unforeseen exception says how to see more."""
    text = " ".join(str(error).split())
    if isinstance(error, KeyError):
        text = text.strip("\"'")
    if isinstance(error, MemoryError):
        return (
            f"not enough memory{f' ({text})' if text else ''}; use a smaller format, fewer levels or smaller matrices"
        )
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | OSError | RuntimeError | LookupError | ImportError) and text:
        return text
    return f"internal error, {type(error).__name__}: {text} (set SUBCUBIC_DEBUG=1 to see where)"


def exit_code(error: Exception) -> ExitCode:
    """The documented exit code of an exception."""
    from catalog.verify import NotExactError
    from codegen.build import MissingCompilerError
    from evaluate.device import DeviceMissingError

    if isinstance(error, UsageError):
        return ExitCode.USAGE
    if isinstance(error, NotExactError):
        return ExitCode.NOT_EXACT
    if isinstance(error, MissingCompilerError | DeviceMissingError):
        return ExitCode.MISSING
    return ExitCode.ERROR
