"""``subcubic catalog equivalent``: whether two schemes are one in other bases, and which stored ones are."""

from __future__ import annotations

from typing import Annotated

import typer

from subcubic.equivalents import Equivalents, group_named
from subcubic.errors import ExitCode, guarded
from subcubic.options import CatalogPath, Json, Reference, existing_catalog
from subcubic.output import print_json
from subcubic.reference import resolve


@guarded
def equivalent(
    scheme: Reference,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="A second scheme; by default all that are stored.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Decide whether schemes are equivalent: one is the other in other bases and roles. The bases are the proof.

    Over F2 and F3 bases are taken from that field, over Z and Q from the rationals. Without a second scheme all stored
    ones of the same format, rank and invariants are compared.
    """
    store = existing_catalog(catalog)
    first = resolve(scheme, store)
    group = group_named(first.scheme.ring)
    if other is not None:
        from catalog.equivalence import equivalent as decide

        second = resolve(other, store)
        found = decide(first.scheme, second.scheme)
        if json_output:
            bases = {} if found is None else {name: getattr(found, name).tolist() for name in "xyz"}
            turned = {} if found is None else {"shifts": found.shifts, "transposed": found.transposed}
            print_json({"equivalent": found is not None, "group": group, **turned, **bases})
        elif found is None:
            print(f"{scheme} and {other} are not equivalent under {group}")
        else:
            turn = f"roles shifted {found.shifts} times{', transposed' if found.transposed else ''}"
            print(f"{scheme} becomes {other} under {group}: {turn}, then C = X (X^-1 A Y)(Y^-1 B Z) Z^-1 with")
            for name in "xyz":
                print(f"{name.upper()} = {getattr(found, name).tolist()}")
        return ExitCode.DONE
    alike = [pair for pair in Equivalents(store).alike(first.scheme) if pair[0] != first.id]
    if json_output:
        rows = [{"id": identity, "equivalent": same} for identity, same in alike]
        print_json({"id": first.id, "group": group, "same_invariants": rows})
        return ExitCode.DONE
    words = {True: "equivalent", False: "not equivalent, with the same invariants", None: "undecided"}
    for identity, same in alike:
        print(f"{identity[:12]}  {words[same]}")
    print(f"{sum(same is True for _, same in alike)} stored schemes are equivalent to {scheme} under {group}")
    return ExitCode.DONE
