"""From a command line to an exit code, whatever is wrong with it: usage errors are one sentence, or one document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from subcubic.cli import app
from subcubic.errors import ExitCode, exit_code, report, sentence

# Typer has a copy of Click since 0.16, so these have no public name that is right for all of its versions.
_UsageError: type[BaseException] = typer.BadParameter.__bases__[0]
_SHOWN = 60  # characters of a value that a sentence repeats


def run(words: Sequence[str]) -> int:
    """Run one command line, its words without the program's name."""
    as_json = "--json" in words
    if (empty := _empty(words)) is not None:
        return int(report(f"{empty} is empty; give it a value or leave it out", ExitCode.USAGE, as_json))
    try:
        code = app(args=list(words), prog_name="subcubic", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as stop:  # of the shell completion
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            error.show()  # type: ignore[attr-defined]
            return int(ExitCode.USAGE)
        return int(report(_told(error, words), ExitCode.USAGE, as_json))
    except typer.Abort:  # Ctrl-C while the words were read
        return int(report("interrupted", ExitCode.INTERRUPTED, as_json))
    except Exception as error:
        return int(report(sentence(error), exit_code(error), as_json))


def _empty(words: Sequence[str]) -> str | None:
    """The first option or argument that is given as nothing, in words."""
    for before, word in zip(("", *words), words, strict=False):
        if word == "":
            return f"{before} ''" if re.fullmatch(r"--?[a-z][a-z-]*", before) else "an argument"
        if re.fullmatch(r"--[a-z-]+=", word):
            return f"{word}''"
    return None


def _told(error: Any, words: Sequence[str]) -> str:
    """What Click says of a usage error, the value in question, and where to read more."""
    # Typer checks choices by Pydantic, whose words for its own kind of error mean nothing here.
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    values = _given(getattr(error, "param", None), words)
    if values and not any(value in message for value in values):
        shown = " or ".join(repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...") for value in values)
        message = message.replace("Invalid value for", f"Invalid value {shown} for")
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "subcubic"
    return f"{message}; `{path} --help` shows what is allowed"


def _given(option: Any, words: Sequence[str]) -> list[str]:
    """The values that an option has on the command line."""
    found = []
    for name in getattr(option, "opts", None) or ():
        for index, word in enumerate(words):
            if word == name and name.startswith("-") and index + 1 < len(words):
                found.append(words[index + 1])
            elif name.startswith("--") and word.startswith(f"{name}="):
                found.append(word.removeprefix(f"{name}="))
    return found
