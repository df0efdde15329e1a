"""Writes the README's tables from the files in benchmarks/results: ``python -m subcubic.readme``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from subcubic.version import ROOT


def render(readme: str, results: Path) -> str:
    """The README's text with every table between ``<!-- NAME -->`` and ``<!-- /NAME -->`` made anew."""
    from evaluate.report import results_table

    for name, table in (("results", results_table(results)), ("search", search_table(results))):
        before, mark, rest = readme.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (mark and end):
            raise ValueError(
                f"the README has no place for the table {name}; write <!-- {name} --> and <!-- /{name} -->"
            )
        readme = f"{before}{mark}{table}{end}{after}"
    return readme


def search_table(results: Path) -> str:
    """The newest row of each search measurement as a Markdown table; "" if there is none."""
    from subcubic.search_benchmark import result

    newest = search_rows(results)
    if not newest:
        return ""
    lines = [["what", "engine", "format", "ring", "rank", "result", "processor"], ["---"] * 7]
    for device, row in newest:
        cells = (row["kind"], row["engine"], row["format"], row["ring"], row.get("rank", "-"), result(row))
        lines.append([str(cell).replace("_", " ") for cell in cells] + [device])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def search_rows(results: Path) -> list[tuple[str, dict[str, Any]]]:
    """The newest row of each search measurement, with the name of the processor."""
    from evaluate.report import load

    newest = {}
    for document in load(results):
        for row in document["rows"]:
            if "kind" in row:
                key = (row["kind"], row["engine"], row["format"], row["ring"], row.get("rank"))
                newest[key] = document["device"], row
    order = ("rate", "time_to_target", "lowest", "lift", "executor")
    return sorted(newest.values(), key=lambda item: order.index(item[1]["kind"]))


def main() -> int:
    """Rewrite the README in place, and the picture of the search times."""
    from evaluate.plots import targets

    results = ROOT / "benchmarks" / "results"
    path = ROOT / "README.md"
    path.write_text(render(path.read_text(encoding="utf-8"), results), encoding="utf-8")
    # Without the date the same results give the same file.
    figure = targets([row for _, row in search_rows(results)])
    figure.savefig(ROOT / "benchmarks" / "search.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
