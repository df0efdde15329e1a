"""Commands that pages show, held against what the program knows."""

import re
import shlex

from subcubic.__main__ import main


def unknown_words(command: str, capsys) -> list[str]:
    """The options of a command line that the help of its verb does not name; all words if there is no such verb."""
    words = shlex.split(re.sub(r"\s+#.*", "", command))
    verb = words[: 2 if words[0] in ("catalog", "runs") else 1]
    if main([*verb, "--help"]) != 0:
        return words
    help_text = capsys.readouterr().out
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in help_text]
