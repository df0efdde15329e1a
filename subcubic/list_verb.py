"""``subcubic catalog list`` and ``best``: which schemes are stored, filtered and sorted."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from catalog.scheme import Format, Ring
from catalog.store import Row
from subcubic.errors import guarded
from subcubic.listing import by_format, listing, row_json
from subcubic.options import MOST, CatalogPath, Json, RingOption, at_least, existing_catalog, ring_named, scheme_ring
from subcubic.output import note, print_json
from subcubic.reference import parse_format

_MOST_LINES = 1000  # of a listing for people, unless they ask for more


class Sort(StrEnum):
    """What a listing is sorted by, see ``catalog.query.SORTS``."""

    FORMAT = "format"
    RANK = "rank"
    GAP = "gap"
    ADDITIONS = "additions"
    CSE = "cse"
    GROWTH = "growth"
    PLANES = "planes"
    SPEED = "speed"
    CREATED = "created"


FormatArgument = Annotated[
    str | None, typer.Argument(metavar="FORMAT", help="Only this format, in any order of its sizes.")
]


@guarded
def list_schemes(
    format: FormatArgument = None,
    ring: RingOption = None,
    max_rank: Annotated[int | None, typer.Option(help="Only schemes of at most this rank.")] = None,
    max_gap: Annotated[
        int | None, typer.Option(help="Only schemes at most so far above the best known rank; 0 for those at it.")
    ] = None,
    text: Annotated[str, typer.Option(help="Only schemes whose source or method has this text, or id begins so.")] = "",
    sort: Annotated[Sort, typer.Option(help="Best first by this; by created: oldest first.")] = Sort.FORMAT,
    reverse: Annotated[bool, typer.Option("--reverse", help="Worst first; what has no value stays last.")] = False,
    limit: Annotated[
        int | None, typer.Option(help=f"How many are shown; {_MOST_LINES} if not said, with --json all.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """List the stored schemes with rank, ring, gap to the best known rank, additions, planes and measured speed.

    The speed is the greatest measured ratio of the vendor's time to ours, on whatever device it was measured.
    """
    from catalog.query import Query

    at_least(1, "max-rank", max_rank)
    at_least(-MOST, "max-gap", max_gap)  # below 0: better than known
    at_least(1, "limit", limit)
    over = ring_named(ring) if ring else None
    query = Query(
        parse_format(format) if format else None,
        scheme_ring(over) if over else None,
        ternary=over == "ZT",
        max_rank=max_rank,
        max_gap=max_gap,
        text=text,
        sort=sort.value,
        reverse=reverse,
    )
    most = limit or (None if json_output else _MOST_LINES)
    store = existing_catalog(catalog)
    rows, count = store.listing(query, most)
    speeds = store.speeds()
    _say_orders(query.format, rows)
    if json_output:
        print_json({"schemes": [row_json(row, speeds.get(row.id)) for row in rows], "count": count})
    elif rows:
        print(listing(rows, speeds))
    elif query == Query(query.format, query.ring, query.ternary):
        asked = f" --ring {ring}" if ring else ""
        note(f"no stored scheme fits; `subcubic search {format or '2x2x2'}{asked}` finds and stores one")
    else:
        note("no stored scheme fits all of these; leave one out")
    if len(rows) < count and rows:
        note(f"{len(rows)} of {count}; --limit {count} shows all")


@guarded
def best_schemes(
    format: FormatArgument = None,
    ring: RingOption = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """The stored scheme of least rank for each format and ring, with the gap to the best known rank.

    A scheme over Z holds over every ring; others are shown where they have fewer products.
    """
    over = ring_named(ring) if ring else None
    wanted = parse_format(format) if format else None
    store = existing_catalog(catalog)
    rows = by_format(store.rows(wanted, scheme_ring(over) if over else None, over == "ZT", holding=True))
    _say_orders(wanted, rows)
    over_z = {row.format.sorted: row.rank for row in reversed(rows) if row.ring is Ring.Z}
    best: dict[tuple[Format, Ring], Row] = {}
    for row in rows:
        if row.ring is Ring.Z or row.rank < over_z.get(row.format.sorted, row.rank + 1):
            best.setdefault((row.format.sorted, row.ring), row)
    if format and not best:
        named = f" over {ring}" if ring else ""
        asked = f" --ring {ring}" if ring else ""
        raise LookupError(f"the catalog has no {format} scheme{named}; run `subcubic search {format}{asked}`")
    speeds = store.speeds()
    if json_output:
        print_json({"schemes": [row_json(row, speeds.get(row.id)) for row in best.values()]})
    else:
        print(listing(list(best.values()), speeds))


def _say_orders(wanted: Format | None, rows: list[Row]) -> None:
    others = sorted({str(row.format) for row in rows if wanted and row.format != wanted})
    if others:
        note(f"{wanted} is also answered by {', '.join(others)}, of which it is a role permutation")
