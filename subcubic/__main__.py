"""``python -m subcubic`` and the ``subcubic`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: arguments without the program's name; those of the process when None.
    """
    try:
        from subcubic.cli import app

        app(args=list(sys.argv[1:] if argv is None else argv), prog_name="subcubic")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except KeyboardInterrupt:
        print("subcubic: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
