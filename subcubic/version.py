"""Version and commit of the running code, for provenance and result files."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def version() -> str:
    """The version of this checkout, else that of the installed package, else ``"unknown"``."""
    import tomllib  # here, since every command imports this module and few ask for the version
    from importlib import metadata

    try:
        return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        return metadata.version("subcubic")
    except metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def commit() -> str:
    """$SUBCUBIC_COMMIT, else the commit of this checkout with ``-dirty`` when files differ, else ``"unknown"``."""
    named = os.environ.get("SUBCUBIC_COMMIT")
    if named:
        return named
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        described = None
    # A checkout inside some other repository must not borrow that repository's commit.
    if described is not None and described.returncode == 0 and (ROOT / ".git").exists():
        return described.stdout.strip()
    return "unknown"


def named_version() -> str:
    """Version and commit in one phrase, as exported files name them."""
    return f"{version()} ({commit()})"
