"""``subcubic additions``: a straight-line program with few additions for a scheme, or a scheme with fewer of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from catalog.additions import additions_cse, additions_naive
from catalog.store import Catalog
from subcubic.errors import ExitCode, guarded
from subcubic.interrupts import interruptible
from subcubic.options import CatalogPath, Json, Reference, at_least, writable_catalog
from subcubic.output import note, print_json
from subcubic.reference import Resolved, provenance, resolve
from subcubic.search_options import seconds_of, seed_of

# What a measurement of this kind calls itself.
KIND = "additions"
# What the provenance of schemes says that were found by walks for few additions.
METHOD = "lean walk"
# With --walk the eliminations take this share of the time.
_LAST = 0.2


@guarded
def additions(
    scheme: Reference,
    budget: Annotated[str, typer.Option(help="How long to search, for example 10s or 5m.")] = "10s",
    tries: Annotated[
        int | None, typer.Option(help="Eliminations for each side in place of --budget; the same on any machine.")
    ] = None,
    walk: Annotated[
        bool,
        typer.Option("--walk", help="First look for schemes of the same format and rank with fewer additions."),
    ] = False,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds of --walk in place of --budget; the same on any machine.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Search a straight-line program with few additions for a scheme; of a stored scheme the result is recorded."""
    from catalog.cse_search import search_programs
    from catalog.program_text import program_lines

    seconds = seconds_of(budget)
    at_least(1, "tries", tries)
    at_least(1, "rounds", rounds)
    seed_of(seed)
    store = writable_catalog(catalog)
    found = resolve(scheme, store)
    note(
        f"additions {found.origin}: {found.scheme.format.described}, rank {found.scheme.rank} over {found.scheme.ring}"
    )
    begun = time.monotonic()
    with interruptible("round") as interrupted:

        def stop() -> bool:
            return bool(interrupted)

        if walk:
            found = _leaner(found, store, seed, rounds, seconds * (1 - _LAST), stop)
        left = max(0.0, seconds - (time.monotonic() - begun)) if walk else seconds
        limit = {"tries": tries} if tries else {"budget_s": left}
        programs = search_programs(found.scheme, seed=seed, **limit, should_stop=stop)
    spent = round(time.monotonic() - begun, 3)
    sides = {"a": programs.a.additions, "b": programs.b.additions, "c": programs.c.additions}
    naive, greedy = additions_naive(found.scheme), additions_cse(found.scheme)
    result: dict[str, Any] = {
        "additions": programs.additions,
        **{f"additions_{side}": count for side, count in sides.items()},
        "seed": seed,
        "tries": programs.tries,
        "seconds": spent,
    }
    lines = program_lines(found.scheme, programs)
    earlier = fewest_recorded(store, found.id)
    recorded = found.id is not None and programs.additions < min(greedy, earlier if earlier is not None else greedy)
    if found.id is not None and recorded:
        store.record(found.id, {"kind": KIND, **result, "program": lines})
    if json_output:
        facts = {"id": found.id, "format": str(found.scheme.format), "ring": found.scheme.ring.value}
        counts = {"rank": found.scheme.rank, "additions_naive": naive, "additions_cse": greedy}
        print_json({**facts, **counts, **result, "earlier": earlier, "recorded": recorded, "program": lines})
    else:
        print("\n".join(lines))
        each = ", ".join(f"{side.upper()} {count}" for side, count in sides.items())
        print(
            f"\n{programs.additions} additions ({each}); {naive} as written, {greedy} by one greedy elimination; "
            f"{programs.tries} tries a side in {spent:.1f} s, seed {seed}"
        )
        if earlier is not None:
            print(f"recorded before: {earlier}")
    return ExitCode.INTERRUPTED if interrupted else ExitCode.DONE


def fewest_recorded(store: Catalog, identity: str | None) -> int | None:
    """The fewest additions that a search has recorded for a scheme, None where it is not stored or none has."""
    if identity is None:
        return None
    counts = (m.get("additions") for m in store.measurements(identity) if m.get("kind") == KIND)
    return min((count for count in counts if isinstance(count, int)), default=None)


def _leaner(
    found: Resolved, store: Catalog, seed: int, rounds: int | None, budget_s: float, stop: Callable[[], bool]
) -> Resolved:
    """The stored scheme of fewest additions that walks from a scheme find, or that scheme where it is not beaten."""
    from search.lean import fewer_additions

    least, best = additions_cse(found.scheme), None
    limit: dict[str, Any] = {"rounds": rounds} if rounds else {"budget_s": budget_s}
    for lean in fewer_additions(found.scheme, seed=seed, **limit, should_stop=stop):
        if lean.additions < least:
            least, best = lean.additions, lean
            note(f"{lean.additions} additions in round {lean.round}")
    if best is None:
        return found
    parents = () if found.id is None else (found.id,)
    options = {"round": best.round, "additions": best.additions}
    made = provenance(METHOD, seed=seed, options=options, parents=parents)
    identity = store.add(best.scheme, made).id
    return Resolved(best.scheme, identity, f"stored {identity[:12]}", made)
