"""``subcubic catalog site``: the catalog as a folder of static pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from subcubic.errors import guarded
from subcubic.options import CatalogPath, Json, existing_catalog
from subcubic.output import note, print_json


@guarded
def site(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to write; a site made earlier by this command is replaced.")
    ],
    results: Annotated[
        Path | None, typer.Option(help="Folder of result files whose measurements are shown; default: this project's.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Write static pages of all schemes: heat map of ranks, table, formulas, pictures, downloads, measurements.

    They need no server and no network: open index.html.
    """
    from subcubic.library import RESULTS
    from subcubic.site.build import build

    if results is not None and not results.is_dir():
        raise FileNotFoundError(f"there is no folder {results} with results; name one, or leave --results out")
    shown = results or (RESULTS if RESULTS.is_dir() else None)
    store = existing_catalog(catalog)
    told = {str(damage) for damage in store.damaged()}
    built = build(store, folder, shown)
    for text in built.notes:
        if text not in told:
            note(f"subcubic: left out: {text}")
    if json_output:
        print_json(
            {
                "path": str(built.path),
                "schemes": built.schemes,
                "pages": built.pages,
                "files": built.files,
                "bytes": built.bytes,
                "seconds": round(built.seconds, 3),
                "left_out": list(built.notes),
            }
        )
    else:
        print(
            f"{built.schemes} schemes on {built.pages} pages, {built.bytes / 1e6:.1f} MB in {built.seconds:.1f} s: "
            f"{built.path / 'index.html'}"
        )
