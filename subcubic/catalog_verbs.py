"""The verbs of ``subcubic catalog``: list, show, best, verify, export, merge, compact, fsck."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.errors import DamagedError
from catalog.scheme import Scheme
from catalog.store import Catalog
from subcubic.additions_verb import fewest_recorded
from subcubic.errors import ExitCode, guarded
from subcubic.list_verb import best_schemes, list_schemes
from subcubic.listing import fact_text, factor_text, facts_of
from subcubic.options import (
    CatalogPath,
    Json,
    Reference,
    existing_catalog,
    writable_catalog,
)
from subcubic.output import note, print_json
from subcubic.reference import resolve
from subcubic.starter import STARTER, shipped

app = typer.Typer(no_args_is_help=True, help="Browse, check and exchange the verified schemes.")


app.command("list")(list_schemes)
app.command("best")(best_schemes)


@app.command()
@guarded
def show(
    scheme: Reference,
    factors: Annotated[bool, typer.Option("--factors", help="Also give U, V, W.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of U, V, W to this PNG or SVG file.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Print a scheme's formulas, properties and origin."""
    from catalog.formulas import describe, formulas

    store = existing_catalog(catalog)
    found = resolve(scheme, store)
    if plot is not None:
        from catalog.picture import plot as draw

        draw(found.scheme, plot)
        note(f"picture written to {plot}")
    facts = facts_of(found) | {"additions_found": fewest_recorded(store, found.id)}
    if json_output:
        extra: dict[str, Any] = {}
        if factors:
            extra = {name: getattr(found.scheme, name).tolist() for name in "UVW"}
            extra["denominators"] = list(found.scheme.denominators)
        print_json({**facts, "formulas": formulas(found.scheme), **extra})
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.ljust(width)}  {fact_text(value)}")
    print("\n" + describe(found.scheme))
    if factors:
        print("\n" + factor_text(found.scheme))


@app.command()
@guarded
def verify(
    scheme: Reference,
    symbolic: Annotated[bool, typer.Option("--symbolic", help="Add the independent proof in sympy.")] = False,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Check a stored scheme or a scheme file exactly; exit code 3 when a Brent equation fails."""
    from catalog.canonical import digest
    from catalog.verify import first_violation

    target = _unchecked(scheme, catalog)
    violation = first_violation(target)
    proved = None
    if symbolic:
        from catalog.proof import symbolic_violation

        second = symbolic_violation(target)
        proved = second is None
        violation = violation or second
    if json_output:
        print_json(
            {
                "id": digest(target),
                "reference": scheme,
                "exact": violation is None,
                "symbolic": proved,
                "first_violation": None if violation is None else str(violation),
            }
        )
    else:
        count = target.m * target.k * target.k * target.n * target.m * target.n
        verdict = (
            f"all {count} Brent equations hold over {target.ring}" if violation is None else f"not exact: {violation}"
        )
        print(f"{scheme}: {target.format} of rank {target.rank}, {verdict}")
        if proved is not None:
            print(f"symbolic proof in sympy with non-commuting entries: {'holds' if proved else 'fails'}")
    return ExitCode.DONE if violation is None else ExitCode.NOT_EXACT


@app.command()
@guarded
def merge(
    other: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder of the catalog to take from, or `starter` for what this project ships."
        ),
    ],
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Add every scheme of another catalog, each proved anew; the other one is left as it is.

    What is damaged there is named and left out; the exit code is 1 then.
    """
    if str(other) == STARTER and not other.exists():
        other = shipped()
    damaged: list[DamagedError] = []
    added = [item.status for item in writable_catalog(catalog).merge(Catalog(other), damaged)]
    new = added.count("new")
    if json_output:
        print_json({"new": new, "duplicate": len(added) - new, "left_out": [str(error) for error in damaged]})
    else:
        print(f"{new} new schemes, {len(added) - new} were here already")
    for error in damaged:
        note(f"subcubic: left out: {error}")
    return ExitCode.ERROR if damaged else ExitCode.DONE


@app.command()
@guarded
def compact(catalog: CatalogPath = None, json_output: Json = False) -> None:
    """Merge the shards of the catalog into few large ones."""
    # A mistyped folder must not become a catalog.
    shards = writable_catalog(catalog).compact() if existing_catalog(catalog).is_made else 0
    if json_output:
        print_json({"shards": shards})
    else:
        print(f"{shards} shards")


@app.command()
@guarded
def fsck(catalog: CatalogPath = None, json_output: Json = False) -> ExitCode:
    """Re-hash every shard, re-verify every scheme exactly and rebuild the index."""
    report = existing_catalog(catalog).fsck()
    if json_output:
        print_json(
            {
                "shards": report.shards,
                "schemes": report.schemes,
                "bad": [{"path": str(bad.path), "reason": bad.reason} for bad in report.bad],
            }
        )
    else:
        print(f"{report.shards} shards, {report.schemes} schemes, {len(report.bad)} bad files")
        for bad in report.bad:
            note(f"subcubic: {bad.path}: {bad.reason}")
        if report.bad:
            note("put a sound copy in the place of each, or move it out of the catalog: only what it held is lost then")
    return ExitCode.ERROR if report.bad else ExitCode.DONE


def _unchecked(reference: str, catalog: Path | None) -> Scheme:
    """A scheme for ``verify``: a file is read without the check that ``resolve`` makes."""
    if Path(reference).is_file():
        from catalog import formats
        from catalog.verify import NotExactError

        try:
            return formats.read(Path(reference))
        except NotExactError as error:  # a foreign file none of whose readings is exact
            return error.scheme
    return resolve(reference, existing_catalog(catalog)).scheme
