"""What can go wrong with a catalog on disk. Each message is one sentence that says what to do next."""

from __future__ import annotations

from pathlib import Path


class CatalogError(OSError):
    """The catalog cannot be read or written."""


class DamagedError(CatalogError):
    """A file of the catalog is not what was written; ``path`` names it and ``reason`` says how that shows."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged ({reason}); run `subcubic catalog fsck` and restore it from a copy")


class NewerFormatError(CatalogError):
    """A file of the catalog was written by a newer major version of the format."""

    def __init__(self, path: Path, found: str, known: str) -> None:
        super().__init__(f"{path} has catalog format {found} and this version reads {known}; upgrade subcubic")


class UnknownSchemeError(ValueError):
    """No scheme of the catalog, or more than one, has the given id prefix."""
