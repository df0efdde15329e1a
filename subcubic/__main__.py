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


def command() -> None:
    """Run the command line of the process and end it with the exit code.

    Where a compiler is still at work in a thread, which nothing interrupts, it ends at once: all else is done.
    """
    code = main()
    training = sys.modules.get("search.player.training")
    if training is not None:
        import os
        import threading
        from contextlib import suppress

        if any(thread.name.startswith(training.COMPILER) for thread in threading.enumerate()):
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    command()
