"""``subcubic catalog closure``: what the stored schemes give by composition, against the best known ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.bounds import best_known_source
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog, Row
from subcubic.errors import UsageError, guarded
from subcubic.options import (
    CatalogPath,
    Json,
    RingOption,
    at_least,
    existing_catalog,
    ring_named,
    scheme_ring,
    writable_catalog,
)
from subcubic.output import note, print_json, table
from subcubic.reference import parse_format, provenance

if TYPE_CHECKING:
    from search.composition.leaves import Leaf
    from search.composition.ranks import Table

_LARGEST = 16
# What the provenance of composed schemes says.
METHOD = "closure"
_SOURCES = {
    "F2": (Ring.F2, Ring.Z, Ring.Q),
    "F3": (Ring.F3, Ring.Z, Ring.Q),
    "ZT": (Ring.Z,),
    "Z": (Ring.Z,),
    "Q": (Ring.Z, Ring.Q),
}


@guarded
def closure(
    max_size: Annotated[int, typer.Option("--max", help="Largest size of a format, 2..16.")] = _LARGEST,
    ring: RingOption = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT",
            help="Make, prove and store the scheme of this format, or with `all` of all that the catalog gains by; "
            "repeatable.",
        ),
    ] = None,
    up_to: Annotated[int, typer.Option(help="Largest size that `--add all` makes.")] = 8,
    pool: Annotated[int, typer.Option(help="Stored schemes of each format and ring that take part, best first.")] = 8,
    better_only: Annotated[
        bool, typer.Option("--better-only", help="List only formats that equal or beat the best known rank.")
    ] = False,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """The ranks that the stored schemes reach by composition, and how; `--add` makes and stores such schemes."""
    from search.composition.closure import close

    if not 2 <= max_size <= _LARGEST:
        raise UsageError(f"--max {max_size} must lie in 2..{_LARGEST}")
    if not 2 <= up_to <= _LARGEST:
        raise UsageError(f"--up-to {up_to} must lie in 2..{_LARGEST}")
    at_least(1, "pool", pool)
    over = ring_named(ring) if ring else "Z"
    wanted = [_addable(text, max_size) for text in add or [] if text != "all"]
    store = existing_catalog(catalog)
    rows = [row for row in store.rows() if row.ring in _SOURCES[over] and (row.ternary or over != "ZT")]
    schemes = _Schemes(store)
    leaves = list(_leaves(rows, scheme_ring(over), schemes, pool))
    start = time.perf_counter()
    ranks = close(leaves, max_size, ternary=over == "ZT")
    seconds = time.perf_counter() - start
    stored = _stored_ranks(leaves)
    lines = [table_line(ranks, format, over, stored) for format in ranks.formats()]
    if "all" in (add or []):
        least = {f: stored.get(f, f.volume) for f in ranks.formats() if max(f) <= up_to}
        wanted += [format for format, rank in least.items() if ranks.rank(format) < rank and format not in wanted]
    added = [_add(writable_catalog(catalog), ranks, format, scheme_ring(over), schemes) for format in wanted]
    summary = totals(lines)
    if better_only:
        lines = [line for line in lines if line["mark"] in ("=", "<")]
    if json_output:
        print_json(
            {
                "ring": over,
                "max": max_size,
                "leaves": len(leaves),
                "seconds": round(seconds, 3),
                "formats": lines,
                "summary": summary,
                "added": added,
            }
        )
        return
    if lines:
        heads = ("format", "rank", "known", "mark", "stored", "recipe")
        print(
            table(
                heads,
                [[line[k] for k in ("format", "rank", "best_known", "mark", "stored", "recipe")] for line in lines],
            )
        )
    print(_sentence(summary, over, len(leaves)))
    for item in added:
        print(f"{item['format']} of rank {item['rank']} over {over}: {item['status']}, id {item['id'][:12]}")


def _addable(text: str, max_size: int) -> Format:
    format = parse_format(text)
    if min(format) < 2 or max(format) > max_size:
        raise UsageError(f"cannot add {format}: its sizes must lie in 2..{max_size}, the largest size of the closure")
    return format


class _Schemes(dict[str, Scheme]):
    """Schemes of the catalog by id, read when they are asked for."""

    def __init__(self, store: Catalog) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, identity: str) -> Scheme:
        self[identity] = self._store.get(identity).scheme
        return self[identity]


def _leaves(rows: list[Row], ring: Ring, schemes: _Schemes, pool: int) -> Iterator[Leaf]:
    """The best stored schemes of every format and ring, as leaves over one ring."""
    from search.composition.leaves import Leaf
    from search.composition.recipes import Stored

    taken: dict[tuple[Format, Ring], int] = {}
    for row in sorted(rows, key=lambda row: row.merit):
        key = row.format.sorted, row.ring
        taken[key] = taken.get(key, 0) + 1
        if taken[key] > pool:
            continue
        # What composition made adds its rank alone: its parts are leaves themselves.
        if row.method == METHOD and (ring.modulus == 0 or row.ring is not Ring.Q):
            yield Leaf(Stored(row.format, row.rank, row.id))
        # A denominator need not be invertible modulo the characteristic.
        elif ring.modulus == 0 or schemes[row.id].denominator % ring.modulus:
            yield Leaf.stored(row.id, schemes[row.id], ring)


def _stored_ranks(leaves: list[Leaf]) -> dict[Format, int]:
    ranks: dict[Format, int] = {}
    for leaf in leaves:
        format = leaf.recipe.format.sorted
        ranks[format] = min(leaf.recipe.rank, ranks.get(format, leaf.recipe.rank))
    return ranks


def table_line(ranks: Table, format: Format, over: str, stored: dict[Format, int]) -> dict[str, Any]:
    """A format of the table as scripts read it; ``stored`` has the least stored rank per format."""
    from search.composition.recipes import describe, leaf_ids

    rank, recipe = ranks.rank(format), ranks.recipe(format)
    known = best_known_source(format, scheme_ring(over), ternary=over == "ZT")
    above = None if known is None else rank - known.rank
    return {
        "format": str(format),
        "rank": rank,
        "best_known": None if known is None else known.rank,
        "above": above,
        "mark": None if above is None else "=" if above == 0 else "<" if above < 0 else f"+{above}",
        # Nobody published a scheme of the best known rank: it follows from those of other formats.
        "best_known_is_derived": known is not None and known.sources == ("D",),
        "stored": stored.get(format),
        "recipe": describe(recipe),
        "parents": list(leaf_ids(recipe)),
    }


def totals(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """How many formats reach the best known rank, and which do so below every published scheme of their own."""
    reached = [line for line in lines if line["mark"] in ("=", "<")]
    return {
        "formats": len(lines),
        "equal": sum(line["mark"] == "=" for line in reached),
        "beat": sum(line["mark"] == "<" for line in reached),
        "unpublished": [line["format"] for line in reached if line["mark"] == "<" or line["best_known_is_derived"]],
    }


def _sentence(summary: dict[str, Any], over: str, leaves: int) -> str:
    text = (
        f"from {leaves} stored schemes over {over}: {summary['equal']} of {summary['formats']} formats equal the best "
        f"known rank, {summary['beat']} beat it"
    )
    names = ", ".join(summary["unpublished"])
    return f"{text}; below every published scheme over {over} of their own format: {names}" if names else text


def _add(store: Catalog, ranks: Table, format: Format, ring: Ring, schemes: _Schemes) -> dict[str, Any]:
    """Make, prove and store the scheme of a format."""
    from search.composition.materialise import materialise
    from search.composition.recipes import describe, leaf_ids, lineage

    start = time.perf_counter()
    recipe = ranks.recipe(format)
    scheme = materialise(recipe, ring, schemes.__getitem__)
    made = provenance(
        METHOD, parents=leaf_ids(recipe), options={"recipe": describe(recipe), "lineage": lineage(recipe)}
    )
    added = store.add(scheme, made)
    note(f"{format}: rank {scheme.rank}, {describe(recipe)}")
    return {
        "format": str(format),
        "rank": scheme.rank,
        "promised": recipe.rank,
        "id": added.id,
        "status": added.status,
        "seconds": round(time.perf_counter() - start, 3),
    }
