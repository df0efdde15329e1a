"""The verbs of ``subcubic catalog``: list, show, best, verify, import, export, fsck."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog, Row
from subcubic.errors import ExitCode, guarded
from subcubic.listing import by_format, facts_of, listing, row_json
from subcubic.options import (
    CatalogPath,
    Json,
    Reference,
    RingOption,
    existing_catalog,
    ring_named,
    scheme_ring,
    writable_catalog,
)
from subcubic.output import cell, note, print_json
from subcubic.reference import parse_format, provenance, resolve
from subcubic.starter import STARTER, shipped

app = typer.Typer(no_args_is_help=True, help="Browse, check and exchange the verified schemes.")


@app.command("list")
@guarded
def list_schemes(
    format: Annotated[str | None, typer.Argument(help="Only this format, in any order of its sizes.")] = None,
    ring: RingOption = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """List the stored schemes with rank, ring, gap to the best known rank, additions and planes."""
    rows = _rows(format, ring, catalog)
    if json_output:
        print_json({"schemes": [row_json(row) for row in rows]})
    elif rows:
        print(listing(rows))
    else:
        over = f" --ring {ring}" if ring else ""
        note(f"no stored scheme fits; `subcubic search {format or '2x2x2'}{over}` finds and stores one")


@app.command("best")
@guarded
def best_schemes(
    format: Annotated[str | None, typer.Argument(help="Only this format, in any order of its sizes.")] = None,
    ring: RingOption = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """The stored scheme of least rank for each format and ring, with the gap to the best known rank.

    A scheme over Z holds over every ring; others are shown where they have fewer products.
    """
    rows = _rows(format, ring, catalog, holding=True)
    over_z = {row.format.sorted: row.rank for row in reversed(rows) if row.ring is Ring.Z}
    best: dict[tuple[Format, Ring], Row] = {}
    for row in rows:
        if row.ring is Ring.Z or row.rank < over_z.get(row.format.sorted, row.rank + 1):
            best.setdefault((row.format.sorted, row.ring), row)
    if format and not best:
        over = f" over {ring}" if ring else ""
        asked = f" --ring {ring}" if ring else ""
        raise LookupError(f"the catalog has no {format} scheme{over}; run `subcubic search {format}{asked}`")
    if json_output:
        print_json({"schemes": [row_json(row) for row in best.values()]})
    else:
        print(listing(list(best.values())))


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

    found = resolve(scheme, existing_catalog(catalog))
    if plot is not None:
        from catalog.picture import plot as draw

        draw(found.scheme, plot)
        note(f"picture written to {plot}")
    facts = facts_of(found)
    if json_output:
        extra = {name: getattr(found.scheme, name).tolist() for name in "UVW"} if factors else {}
        print_json({**facts, "formulas": formulas(found.scheme), **extra})
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name.ljust(width)}  {cell(value)}")
    print("\n" + describe(found.scheme))
    if factors:
        for name in "UVW":
            print(f"\n{name} =\n{getattr(found.scheme, name)}")


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


@app.command("import")
@guarded
def import_files(
    files: Annotated[list[Path], typer.Argument(help="Scheme files (JSON or npz).")],
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Check scheme files exactly and store those that are; the others are refused by name and reason."""
    from catalog import formats
    from catalog.verify import NotExactError

    store = writable_catalog(catalog)
    imported: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    code = ExitCode.DONE
    for file in files:
        try:
            scheme = formats.read(file)
            added = store.add(scheme, provenance("import", source=file.name))
        except (ValueError, OSError) as error:
            refused.append({"file": str(file), "reason": str(error)})
            code = max(code, ExitCode.NOT_EXACT if isinstance(error, NotExactError) else ExitCode.ERROR)
            continue
        imported.append(
            {
                "file": str(file),
                "id": added.id,
                "format": str(scheme.format),
                "ring": scheme.ring.value,
                "rank": scheme.rank,
                "convention": "C row-major",
                "status": added.status,
            }
        )
    if json_output:
        print_json({"imported": imported, "refused": refused})
    else:
        for row in imported:
            print(
                f"{row['file']}: {row['format']} of rank {row['rank']} over {row['ring']}, {row['status']}, "
                f"id {row['id'][:12]}"
            )
        for row in refused:
            note(f"subcubic: refused {row['file']}: {row['reason']}")
    return code


@app.command()
@guarded
def merge(
    other: Annotated[
        Path, typer.Argument(help="Folder of the catalog to take from, or `starter` for what this project ships.")
    ],
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Add every scheme of another catalog, each proved anew; the other one is left as it is."""
    if str(other) == STARTER and not other.exists():
        other = shipped()
    if not other.is_dir():
        raise FileNotFoundError(f"no catalog at {other}: it is not a folder")
    added = [item.status for item in writable_catalog(catalog).merge(Catalog(other))]
    new = added.count("new")
    if json_output:
        print_json({"new": new, "duplicate": len(added) - new})
    else:
        print(f"{new} new schemes, {len(added) - new} were here already")


@app.command()
@guarded
def compact(catalog: CatalogPath = None, json_output: Json = False) -> None:
    """Merge the shards of the catalog into few large ones."""
    shards = writable_catalog(catalog).compact()
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
        print(f"{report.shards} shards, {report.schemes} schemes, {len(report.bad)} bad")
        for bad in report.bad:
            note(f"subcubic: {bad.path}: {bad.reason}")
    return ExitCode.ERROR if report.bad else ExitCode.DONE


def _rows(format: str | None, ring: str | None, catalog: Path | None, holding: bool = False) -> list[Row]:
    """The listed schemes of a format, in any order of its sizes, over a ring named as on the command line."""
    wanted = parse_format(format) if format else None
    over = ring_named(ring) if ring else None
    ternary = over == "ZT"
    rows = existing_catalog(catalog).rows(wanted, scheme_ring(over) if over else None, ternary, holding)
    others = sorted({str(row.format) for row in rows if wanted and row.format != wanted})
    if others:
        note(f"{wanted} is also answered by {', '.join(others)}, of which it is a role permutation")
    return by_format(rows)


def _unchecked(reference: str, catalog: Path | None) -> Scheme:
    """A scheme for ``verify``: a file is read without the check that ``resolve`` makes."""
    if Path(reference).is_file():
        from catalog import formats

        return formats.read(Path(reference))
    return resolve(reference, existing_catalog(catalog)).scheme
