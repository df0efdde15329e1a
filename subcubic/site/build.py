"""Builds the whole site into a folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catalog.store import Catalog
from subcubic.site.downloads import downloads
from subcubic.site.model import gather
from subcubic.site.pages import Pages, copy_assets
from subcubic.site.place import mark, replaced
from subcubic.version import commit, version


@dataclass(frozen=True)
class Built:
    """What became of a site.

    Attributes:
        path: its folder.
        schemes: schemes shown.
        pages: HTML files.
        files: all files.
        bytes: of all files together.
        seconds: it took.
        notes: what was left out, and why.
    """

    path: Path
    schemes: int
    pages: int
    files: int
    bytes: int
    seconds: float
    notes: tuple[str, ...]


def build(catalog: Catalog, folder: Path, results: Path | None = None) -> Built:
    """Write the site of a catalog, whole or not at all.

    Args:
        catalog: what to show.
        folder: the site; an earlier site there is replaced.
        results: folder of documents of results; None for none.

    Raises:
        ValueError: there is something else than a site of ours at ``folder``.
        OSError: the catalog cannot be read, or the site not written.
    """
    start = time.perf_counter()
    with replaced(folder) as fresh:
        content = gather(catalog, results)
        now = datetime.now(UTC)
        pages = Pages(content, version(), commit(), now.strftime("%Y-%m-%d %H:%M UTC"))
        for name in ("assets", "files", "formats", "schemes"):
            (fresh / name).mkdir()
        copy_assets(fresh / "assets")
        (fresh / "assets" / "schemes.js").write_text(pages.data(), encoding="ascii")
        _write(fresh / "index.html", pages.start())
        _write(fresh / "schemes.html", pages.table())
        for format, group in content.groups.items():
            _write(fresh / "formats" / f"{format}.html", pages.format(group))
        for sheet in content.sheets:
            files = list(downloads(sheet.scheme, sheet.row.id, sheet.name, version()))
            for file in files:
                (fresh / "files" / file.name).write_bytes(file.data)
            _write(fresh / "schemes" / f"{sheet.name}.html", pages.scheme(sheet, files))
        created = now.isoformat(timespec="seconds")
        mark(fresh, {"version": version(), "commit": commit(), "created_utc": created, "schemes": len(content.sheets)})
        every = [path for path in fresh.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in every)
        count = sum(path.suffix == ".html" for path in every)
    seconds = time.perf_counter() - start
    return Built(folder, len(content.sheets), count, len(every), size, seconds, content.notes)


def _write(path: Path, text: str) -> None:
    # Texts of strangers may hold half of a surrogate pair, which no encoding has.
    path.write_bytes(text.encode("utf-8", "replace"))
