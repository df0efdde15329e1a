"""``subcubic bench --epilogue``: products followed by element-wise steps, against the vendor's ways to do both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subcubic.errors import ExitCode, UsageError
from subcubic.output import note, print_json
from subcubic.version import commit
from subcubic.writing import make_folder

if TYPE_CHECKING:
    from codegen.epilogue import Epilogue
    from codegen.plan import Plan

_TIMER = "CUDA events, interleaved pairs in random order, medians, 95 % bootstrap interval of each ratio; burst windows"
# Of the feed-forward part of a transformer layer, as a batch of 512 tokens meets it; and one product that is large.
DEFAULT_SHAPES = ((512, 14336, 4096), (512, 4096, 4096), (512, 4096, 14336), (8192, 8192, 8192))


def checked(text: str, dtypes: Sequence[str], path: str) -> Epilogue:
    """The steps, if they can be compared.

    Raises:
        UsageError: they or a type cannot be.
    """
    from codegen.epilogue import Epilogue

    try:
        steps = Epilogue.parse(text)
    except ValueError as error:
        raise UsageError(f"--epilogue {text}: {error}") from None
    if not steps or "residual" in steps.steps:
        raise UsageError(f"--epilogue {text or repr(text)}: name at least one step, and none with a matrix")
    if path not in ("auto", "fused"):
        raise UsageError(f"--epilogue compares fused kernels; leave --path {path} out")
    for dtype in dtypes:
        if dtype not in ("bf16", "fp16"):
            raise UsageError(f"fused kernels multiply bf16 and fp16, not {dtype}")
    return steps


def run(
    plans: Sequence[Plan],
    shapes: Sequence[tuple[int, int, int]],
    dtypes: Sequence[str],
    layouts: Sequence[str],
    steps: Epilogue,
    pairs: int | None,
    limit: float | None,
    counters: bool,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Measure, print, and save row by row.

    Args:
        plans: of the schemes.
        shapes: M, N, K; some of a transformer layer by default.
        dtypes: of all matrices.
        layouts: of A and B.
        steps: after the product.
        pairs: interleaved pairs of windows of each comparison.
        limit: seconds of pairs of each comparison, or None.
        counters: whether to count what launches move.
        out: folder to save the document to.
        as_json: whether to print the document in place of a table.
    """
    from evaluate.bench import conditions, head
    from evaluate.device import require_gpu, snapshot
    from evaluate.epilogue_bench import KIND, EpilogueCase, measure_epilogues
    from evaluate.epilogue_table import epilogue_text
    from evaluate.report import Saver
    from evaluate.timing import PAIRS

    gpu = require_gpu()
    if out is not None:
        make_folder(out)
    cases = [
        EpilogueCase(plan, shape, steps, dtype, layout)
        for dtype in dtypes
        for layout in layouts
        for plan in plans
        for shape in (shapes or DEFAULT_SHAPES)
    ]
    document: dict[str, Any] = {**head(gpu, commit(), _TIMER), "kind": KIND}
    saver, before = Saver(out) if out is not None else None, snapshot(gpu)
    note(f"{len(cases)} rows on the GPU: {gpu.name}")
    try:
        for row in measure_epilogues(cases, gpu, pairs or PAIRS, limit, counters):
            document["rows"].append(row)
            document["baseline"] = "; ".join(dict.fromkeys(one["baseline"] for one in document["rows"]))
            fused = f"{row['ratio']:.3f}" if row["ratio"] else "-"
            what = f"{row['format']}:{row['rank']}, {row['M']},{row['N']},{row['K']} {row['dtype']}"
            others = f"{row['ratio_unfused']:.3f} to unfused, {row['ratio_plain']:.3f} to itself without"
            note(f"{len(document['rows'])} of {len(cases)}: {what}: {fused} to cuBLASLt, {others}")
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
        print(epilogue_text(document["rows"]))
    if document["interrupted"]:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if all(row["correct"] for row in document["rows"]) else ExitCode.ERROR
