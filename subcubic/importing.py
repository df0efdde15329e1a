"""Takes schemes out of files: finds their convention, proves them and stores them batch by batch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.files import reason
from catalog.formats import Draft, Flaw, FormatError, UnknownFormatError, read_all, read_draft
from catalog.provenance import Provenance
from catalog.scheme import Scheme
from catalog.store import Catalog
from catalog.verify import NotExactError, require_exact
from subcubic.reference import provenance

# A batch is one shard of the catalog: what a kill may lose.
_BATCH = 200
_BATCH_S = 5.0

OWN = "subcubic"
# Finds a stored scheme of the same orbit, by its id; the catalog's identity is finer.
Equivalent = Callable[[Scheme], str | None]


@dataclass
class Report:
    """What became of the files, as ``catalog import --json`` reports it.

    Attributes:
        imported: one row per scheme that is stored now.
        refused: one row per scheme or file that is not.
        not_exact: whether a scheme was refused because it is not exact.
        failed: whether anything was refused that was given as a scheme file: a folder may hold other files too.
        verified: schemes whose convention was found and which were proved.
        verify_s: processor seconds that took.
    """

    imported: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    not_exact: bool = False
    failed: bool = False
    verified: int = 0
    verify_s: float = 0.0

    def unread(self, error: OSError) -> None:
        """Take note of a folder that cannot be read."""
        said = f"cannot read the folder {error.filename}: {reason(error)}; let this user read it"
        self.refused.append({"file": str(error.filename), "name": "", "reason": said})
        self.failed = True


def files_of(paths: Iterable[Path], unread: Callable[[OSError], None] | None = None) -> tuple[list[Path], set[Path]]:
    """The files that are meant, and which of them were found in folders; hidden ones there are left out.

    Args:
        paths: files and folders.
        unread: called with the error of a folder that cannot be read.

    Raises:
        FileNotFoundError: there is nothing at a path.
    """
    files: dict[Path, None] = {}
    walked = set()
    for path in paths:
        if not path.is_dir():
            files.setdefault(path)
            continue
        for folder, folders, names in os.walk(path, onerror=unread):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    file = Path(folder) / name
                    files.setdefault(file)
                    walked.add(file)
    return list(files), walked


class Importer:
    """Imports groups of files into a catalog.

    Args:
        catalog: where to store.
        origin: fields of the provenance that the user gives: source, discoverer, citation, licence.
        equivalent: see ``Equivalent``; None where only equal schemes are to be told.
        report: to go on with.
    """

    def __init__(
        self,
        catalog: Catalog,
        origin: Mapping[str, str],
        equivalent: Equivalent | None = None,
        report: Report | None = None,
    ) -> None:
        self.catalog, self.origin, self.equivalent = catalog, origin, equivalent
        self.report = report or Report()
        self._pending: list[tuple[Scheme, dict[str, Any]]] = []
        self._flushed = time.monotonic()

    def run(
        self,
        groups: Sequence[tuple[Path, ...]],
        walked: set[Path],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[int]:
        """Import every group, and yield after each how many are done; what waits is stored at the end.

        Args:
            groups: files by scheme, see ``catalog.formats.together``.
            walked: files that were found in folders, where other files are no failure.
            stopped: asked after every scheme whether to end.

        Raises:
            CatalogError: the catalog cannot be written; what the report has is stored.
        """
        for done, group in enumerate(groups, 1):
            for item in self._items(group, walked):
                self._take(str(group[0]), item)
                if len(self._pending) >= _BATCH or time.monotonic() - self._flushed > _BATCH_S:
                    self._store()
                if stopped():
                    break
            yield done
            if stopped():
                break
        self._store()

    def _items(self, group: tuple[Path, ...], walked: set[Path]) -> list[Draft | Scheme | Flaw]:
        try:
            return read_all(*group)
        except FormatError as error:
            self.report.refused.append({"file": str(group[0]), "name": "", "reason": str(error)})
            self.report.failed |= not (isinstance(error, UnknownFormatError) and group[0] in walked)
            return []

    def _take(self, file: str, item: Draft | Scheme | Flaw) -> None:
        """Prove one scheme of a file, or say why it is refused."""
        name = "" if isinstance(item, Scheme) else item.name
        begun = time.process_time()
        try:
            if isinstance(item, Flaw):
                raise ValueError(item.reason)
            scheme, convention = (require_exact(item), "C row-major") if isinstance(item, Scheme) else read_draft(item)
        except (ValueError, MemoryError) as error:
            self.report.refused.append({"file": file, "name": name, "reason": str(error) or "not enough memory"})
            self.report.not_exact |= isinstance(error, NotExactError)
            self.report.failed = True
            return
        self.report.verified += 1
        self.report.verify_s += time.process_time() - begun
        row = {
            "file": file,
            "name": name,
            "kind": OWN if isinstance(item, Scheme) else item.kind,
            "format": str(scheme.format),
            "ring": scheme.ring.value,
            "rank": scheme.rank,
            "convention": convention,
        }
        self._pending.append((scheme, row))

    def _store(self) -> None:
        """Add what waits as one shard."""
        waiting, self._pending = self._pending, []
        self._flushed = time.monotonic()
        if not waiting:
            return
        # Asked before, since a scheme is equivalent to itself.
        same = [self.equivalent(scheme) if self.equivalent else None for scheme, _ in waiting]
        added = self.catalog.add_many((scheme, self._provenance(row)) for scheme, row in waiting)
        for (_, row), item, other in zip(waiting, added, same, strict=True):
            status = "equivalent" if other is not None and item.status == "new" else item.status
            found = {"id": item.id, "status": status}
            self.report.imported.append(row | found | ({"equivalent_to": other} if status == "equivalent" else {}))

    def _provenance(self, row: Mapping[str, Any]) -> Provenance:
        """Where the scheme is from, apart from how it came in, which stands under ``options``."""
        file = Path(row["file"]).name
        source = f"{file}:{row['name']}" if row["name"] else file
        return provenance(
            "import",
            **{"source": source, **self.origin},
            options={"file": file, **{key: row[key] for key in ("name", "kind", "convention")}},
        )
