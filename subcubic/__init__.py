"""The roof: the command line that wires the stages and owns files and printing; ``matmul`` and ``pack``."""

TYPE_CHECKING = False  # as of typing, whose import takes time in which Ctrl-C would be a traceback

if TYPE_CHECKING:
    from subcubic.library import matmul, pack

__all__ = ["matmul", "pack"]


def __getattr__(name: str) -> object:
    """Load the library face on first use, so that the command line and ``import subcubic`` stay light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from subcubic import library

    globals().update(matmul=library.matmul, pack=library.pack)
    return globals()[name]
