"""``subcubic bench --epilogue``: products followed by element-wise steps, against the vendor's ways to do both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subcubic import bench_rows
from subcubic.errors import ExitCode, UsageError

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
    from evaluate.epilogue_bench import KIND, EpilogueCase, measure_epilogues
    from evaluate.epilogue_table import epilogue_text
    from evaluate.timing import PAIRS

    cases = [
        EpilogueCase(plan, shape, steps, dtype, layout)
        for dtype in dtypes
        for layout in layouts
        for plan in plans
        for shape in (shapes or DEFAULT_SHAPES)
    ]
    return bench_rows.run(
        len(cases),
        lambda gpu: measure_epilogues(cases, gpu, pairs or PAIRS, limit, counters),
        *(KIND, _TIMER, _told, epilogue_text, out, as_json),
    )


def _told(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    what = f"{row['format']}:{row['rank']}, {row['M']},{row['N']},{row['K']} {row['dtype']}"
    fused = f"{row['ratio']:.3f}" if row["ratio"] else "-"
    others = f"{row['ratio_unfused']:.3f} to unfused, {row['ratio_plain']:.3f} to itself without"
    return f"{what}: {fused} to cuBLASLt, {others}"
