"""What the benches of inference kernels share: rows are told and saved as they come, and an interruption keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from subcubic.errors import ExitCode
from subcubic.output import note, print_json
from subcubic.version import commit
from subcubic.writing import make_folder


def run(
    count: int,
    measure: Callable[[Any], Iterable[Mapping[str, Any]]],
    kind: str,
    timer: str,
    told: Callable[[Mapping[str, Any]], str],
    table: Callable[[Sequence[Mapping[str, Any]]], str],
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Measure on the GPU, print, and save row by row.

    Args:
        count: of the rows to come.
        measure: yields them, given the GPU.
        kind: of the document.
        timer: how times are taken.
        told: a row in a line.
        table: all rows as text.
        out: folder to save the document to.
        as_json: whether to print the document in place of the table.

    Raises:
        DeviceMissingError: no GPU.
    """
    from evaluate.bench import conditions, head
    from evaluate.device import require_gpu, snapshot
    from evaluate.report import Saver

    gpu = require_gpu()
    if out is not None:
        make_folder(out)
    document: dict[str, Any] = {**head(gpu, commit(), timer), "kind": kind}
    saver, before = Saver(out) if out is not None else None, snapshot(gpu)
    note(f"{count} rows on the GPU: {gpu.name}")
    try:
        for row in measure(gpu):
            document["rows"].append(row)
            document["baseline"] = "; ".join(dict.fromkeys(one["baseline"] for one in document["rows"]))
            note(f"{len(document['rows'])} of {count}: {told(row)}")
            if saver is not None:
                saver({**document, **conditions(before, before)})
    except KeyboardInterrupt:
        document["interrupted"] = True
    document |= conditions(before, snapshot(gpu))
    if saver is not None and document["rows"]:
        note(f"saved to {saver(document)}")
    if as_json:
        print_json(document)
    elif document["rows"]:
        print(table(document["rows"]))
    if document["interrupted"]:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if all(row["correct"] for row in document["rows"]) else ExitCode.ERROR
