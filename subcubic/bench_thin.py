"""``subcubic bench --path thin``: products of few rows, as replays of CUDA graphs with rotated weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subcubic import bench_rows
from subcubic.errors import ExitCode, UsageError

SET = "thin"
_PAIRS = 9  # of each of its rows
_TIMER = (
    "CUDA events around replays of a CUDA graph, whose launches read each set of weights in turn, together more than "
    "three times the L2 cache or 256 sets; launches of the thin kernel come to the device while the one before them "
    "ends (what is called alone: after it, like the vendor's); interleaved rounds in random order, medians, 95 % "
    "bootstrap interval of the ratio"
)


def check(
    schemes: Sequence[str],
    set_name: str | None,
    dtypes: Sequence[str],
    layouts: Sequence[str],
    regime: str,
    shapes: Sequence[tuple[int, int, int]],
) -> None:
    """Refuse what this path does not measure.

    Raises:
        UsageError: it is asked for.
    """
    from codegen.emit_thin import MOST_ROWS

    if set_name not in (None, SET) or any(scheme != "classical-1x1x1" for scheme in schemes):
        raise UsageError(f"--path thin measures the scheme of one product: give --shape M,N,K, or --set {SET}")
    for m, _, _ in shapes:
        if m > MOST_ROWS:
            raise UsageError(f"{m} rows are no thin product; M is at most {MOST_ROWS}, and --path fused measures more")
    for dtype in dtypes:
        if dtype not in ("bf16", "fp16"):
            raise UsageError(f"thin kernels multiply bf16 and fp16, not {dtype}")
    for layout in layouts:
        if layout not in ("nn", "nt"):
            raise UsageError(f"thin kernels have the layouts nn and nt, not {layout}")
    if regime != "burst":
        raise UsageError("--path thin is measured in bursts; leave --regime out")


def run(
    shapes: Sequence[tuple[int, int, int]],
    dtypes: Sequence[str],
    layouts: Sequence[str],
    pairs: int | None,
    limit: float | None,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Measure, print, and save row by row.

    Args:
        shapes: M, N, K of single products; none for the set of this name, experts included.
        dtypes: of all matrices.
        layouts: of A and B.
        pairs: interleaved pairs of windows; 30 by default, in the set 9.
        limit: seconds of pairs for each row, or None.
        out: folder to save the document to.
        as_json: whether to print the document in place of a table.
    """
    from catalog.known import classical
    from catalog.scheme import Format
    from codegen.plan import plan
    from evaluate.shapes import EXPERTS, THIN, Grouped
    from evaluate.thin.bench import PATH, ThinCase, measure_thin
    from evaluate.thin.table import thin_text
    from evaluate.timing import PAIRS

    products = [Grouped(1, shape) for shape in shapes] or [*(Grouped(1, shape) for shape in THIN), *EXPERTS]
    cases = [ThinCase(what, dtype, layout) for dtype in dtypes for layout in layouts for what in products]
    scheme = plan(classical(Format(1, 1, 1)))
    return bench_rows.run(
        len(cases),
        lambda gpu: measure_thin(scheme, cases, gpu, pairs or (PAIRS if shapes else _PAIRS), limit),
        *(PATH, _TIMER, _told, thin_text, out, as_json),
    )


def _told(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    what = f"{row['groups']} x {row['M']},{row['N']},{row['K']} {row['dtype']} {row['layout']}"
    return f"{what}, {row['seconds'] * 1e6:.2f} us, ratio {row['ratio']:.3f}"
