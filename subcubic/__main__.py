"""``python -m subcubic`` and the ``subcubic`` command."""

import sys  # and nothing else out here, where Ctrl-C would be a traceback


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: arguments without the program's name; those of the process when None.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        from subcubic.entry import run

        return run(words)
    except KeyboardInterrupt:
        # What `subcubic.errors.report` prints, whose module may not be there yet.
        if "--json" in words:
            print('{"schema_version": 1, "error": "interrupted", "exit_code": 130}')
        print("subcubic: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
