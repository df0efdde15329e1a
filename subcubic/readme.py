"""Writes the tables of the README and of the pages of docs/ that have some: ``python -m subcubic.readme``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from subcubic.starter import shipped
from subcubic.version import ROOT

PAGES = ("README.md", "docs/measurements.md", "docs/player.md", "docs/kernels.md")


def render(pages: Sequence[str], results: Path) -> list[str]:
    """Texts with every table between ``<!-- NAME -->`` and ``<!-- /NAME -->`` made anew.

    Raises:
        ValueError: a table has no place in any of them. An empty one needs none.
    """
    from evaluate.check_tables import dispatch_table, nvbench_table
    from evaluate.crossover_table import crossover_table
    from evaluate.epilogue_table import epilogue_table
    from evaluate.fused_table import fused_table
    from evaluate.model_table import model_table
    from evaluate.report import results_table
    from evaluate.thin.table import thin_table
    from subcubic.player_table import ablation_table, curve_table, player_table, rates_table

    tables = {
        "crossovers": crossover_table(results),
        "results": results_table(results),
        "fused": fused_table(results),
        "model": model_table(results),
        "dispatch": dispatch_table(results),
        "nvbench": nvbench_table(results),
        "search": search_table(results),
        "ranks": ranks_table(shipped()),
        "thin": thin_table(results),
        "epilogues": epilogue_table(results),
        "player": player_table(results),
        "curve": curve_table(results),
        "rates": rates_table(results),
        "ablation": ablation_table(results),
    }
    made = list(pages)
    for name, table in tables.items():
        first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if table and not any(first in page and last in page for page in made):
            raise ValueError(f"no page has a place for the table {name}; write <!-- {name} --> and <!-- /{name} -->")
        for number, page in enumerate(made):
            before, mark, rest = page.partition(first)
            _, end, after = rest.partition(last)
            made[number] = f"{before}{mark}{table}{end}{after}" if mark and end else page
    return made


def search_table(results: Path) -> str:
    """The newest row of each search measurement as a Markdown table; "" if there is none."""
    from evaluate.report import markdown
    from subcubic.search_benchmark import result

    newest = search_rows(results)
    if not newest:
        return ""
    lines = []
    for device, row in newest:
        cells = (row["kind"], row["engine"], row["format"], row["ring"], row.get("rank", "-"), result(row))
        lines.append([str(cell).replace("_", " ") for cell in cells] + [device])
    return markdown(("what", "engine", "format", "ring", "rank", "result", "processor"), lines)


def ranks_table(folder: Path) -> str:
    """The least rank of every base case with sizes 2..5 in a catalog, the best known one, and how it was found."""
    from catalog.bounds import best_known
    from evaluate.report import markdown

    shelf = Catalog(folder)
    rows = shelf.rows()
    lines = []
    for sizes in combinations_with_replacement((2, 3, 4, 5), 3):
        format = Format(*sizes)
        cells = [str(format)]
        for ring, ternary in ((Ring.F2, False), (Ring.Z, True), (Ring.Z, False)):
            # What holds over Z holds over F2.
            suitable = [row for row in rows if row.format.sorted == format and row.ring in (ring, Ring.Z)]
            suitable = [row for row in suitable if row.ternary or not ternary]
            best = min(suitable, key=lambda row: (row.rank, row.ring is not ring, row.id), default=None)
            known = best_known(format, ring, ternary=ternary)
            cells.append("-" if best is None else _cell(shelf.get(best.id).provenance, best.rank, known))
        lines.append(cells)
    return markdown(("format", "over F2", "ternary", "over Z"), lines)


def _cell(made: Provenance, rank: int, known: int | None) -> str:
    after = made.options.get("found_after_s")
    how = made.method if after is None else f"{made.method}, seed {made.seed}, {after:.3g} s"
    return f"**{rank}** ({how})" if known is None or rank <= known else f"{rank}, known {known} ({how})"


def search_rows(results: Path) -> list[tuple[str, dict[str, Any]]]:
    """The newest row of each search measurement, with the name of the processor."""
    from evaluate.report import load

    newest = {}
    for document in load(results):
        for row in document["rows"]:
            if "kind" in row:
                key = (row["kind"], row["engine"], row["format"], row["ring"], row.get("target", row.get("rank")))
                newest[key] = document["device"], row
    order = ("rate", "time_to_target", "lowest", "lift", "executor")
    return sorted(newest.values(), key=lambda item: order.index(item[1]["kind"]))


def main() -> int:
    """Rewrite the pages in place, and the picture of the search times."""
    from evaluate.plots import save_svg, targets

    results = ROOT / "benchmarks" / "results"
    paths = [ROOT / page for page in PAGES]
    for path, text in zip(paths, render([path.read_text(encoding="utf-8") for path in paths], results), strict=True):
        path.write_text(text, encoding="utf-8")
    save_svg(targets([row for _, row in search_rows(results)]), ROOT / "benchmarks" / "search.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
