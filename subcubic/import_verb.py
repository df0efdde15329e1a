"""``subcubic catalog import``: scheme files of any public format, checked exactly on the way in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from subcubic.errors import ExitCode, guarded
from subcubic.interrupts import interruptible
from subcubic.options import CatalogPath, Json, writable_catalog
from subcubic.output import note, print_json, table

if TYPE_CHECKING:
    from subcubic.importing import Report

_LINES_S = 10.0


@guarded
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILES_OR_FOLDERS", help="Scheme files, and folders of them.")],
    source: Annotated[str | None, typer.Option(help="Where the schemes are from, instead of the file's name.")] = None,
    licence: Annotated[str, typer.Option(help="Licence of the source.")] = "",
    discoverer: Annotated[str, typer.Option(help="Who found the schemes.")] = "",
    citation: Annotated[str, typer.Option(help="Publication to cite for them.")] = "",
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Check scheme files exactly and store those that are; the others are refused by name and reason.

    Reads our JSON and npz, AlphaTensor npz, JSON of FastMatrixMultiplication and MMC, AlphaEvolve cells, PLinOpt
    triples, flip-cpd arrays, flip graph text, products of sums, Mathematica, Maple, coefficient matrices, Bini, Brent
    and straight-line listings, also packed by gzip or bzip2. Conventions are found by verification.

    A scheme is `new` or a `duplicate` of a stored one; `equivalent` is a new one that is a stored one in other bases
    and roles, which is decided up to 3x3x3.
    """
    from catalog.formats import together
    from subcubic.equivalents import Equivalents
    from subcubic.importing import Importer, Report, files_of

    begun = time.monotonic()
    store = writable_catalog(catalog)
    report = Report()
    found, walked = files_of(files, report.unread)
    groups = together(found)
    given = {"source": source, "licence": licence, "discoverer": discoverer, "citation": citation}
    importer = Importer(store, {key: value for key, value in given.items() if value}, Equivalents(store).first, report)
    with interruptible("scheme") as received:
        with _progress(len(groups), json_output) as shown:
            for _ in shown(importer.run(groups, walked, lambda: bool(received))):
                pass
    seconds = time.monotonic() - begun
    if json_output:
        rate = report.verified / report.verify_s if report.verify_s else None
        print_json(
            {
                "imported": report.imported,
                "refused": report.refused,
                "interrupted": bool(received),
                "seconds": round(seconds, 3),
                "verified": report.verified,
                "verified_per_second_per_core": None if rate is None else round(rate, 1),
            }
        )
    else:
        _print(report)
        if not found:
            note("there is no file to import; hidden ones are left out")
        if len(groups) > 1:
            note(_counts(report, seconds))
    if received:
        note("subcubic: interrupted; what the report lists is stored")
        return ExitCode.INTERRUPTED
    return ExitCode.NOT_EXACT if report.not_exact else ExitCode.ERROR if report.failed else ExitCode.DONE


def _print(report: Report) -> None:
    if report.imported:
        rows = [
            (
                _named(row),
                row["kind"],
                row["format"],
                row["rank"],
                row["ring"],
                row["convention"],
                row["status"],
                row["id"][:12],
            )
            for row in report.imported
        ]
        print(table(("file", "kind", "format", "rank", "ring", "convention", "status", "id"), rows))
    for row in report.refused:
        named = "" if row["file"] in row["reason"] else f"{_named(row)}: "
        note(f"subcubic: refused: {named}{row['reason']}")


def _counts(report: Report, seconds: float) -> str:
    statuses = [row["status"] for row in report.imported]
    counts = [f"{n} {name}" for name in ("new", "duplicate", "equivalent") if (n := statuses.count(name))]
    return f"{', '.join(counts) or 'nothing imported'}; {len(report.refused)} refused; {seconds:.1f} s"


def _named(row: dict[str, Any]) -> str:
    return f"{row['file']}:{row['name']}" if row.get("name") else str(row["file"])


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Any]:
    """Wraps an iterator so that a terminal shows a bar, and a log a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or total < 2 or not console.is_terminal:

        def lines(steps: Iterable[int]) -> Iterator[int]:
            shown = time.monotonic()
            for done in steps:
                if not quiet and time.monotonic() - shown > _LINES_S:
                    shown = time.monotonic()
                    note(f"{done} of {total} files")
                yield done

        yield lines
        return
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing", total=total)

        def drawn(steps: Iterable[int]) -> Iterator[int]:
            for done in steps:
                bar.update(task, completed=done)
                yield done

        yield drawn
