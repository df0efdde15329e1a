"""Files that verbs write: all that belong together or none, and a sentence where a place cannot be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from catalog.files import reason, write_durably


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which place cannot be written, why, and what to do next.

    Raises:
        OSError: as the block, in a sentence.
    """
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path}: {reason(error)}; choose another place or make room") from None


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        OSError: it cannot be made.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is made if it is missing.

    Args:
        folder: the place.
        files: contents by name; what exists is replaced, each file whole or not at all.

    Raises:
        OSError: one cannot be written; those that were new, and a new folder, are gone again.
    """
    there, begun = folder.is_dir(), list[Path]()
    try:
        make_folder(folder)
        for name, data in files.items():
            path = folder / name
            new = not path.exists()
            with writing(path):
                write_durably(path, data)
            if new:
                begun.append(path)
    except BaseException:
        for path in begun:
            path.unlink(missing_ok=True)
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise
