"""``subcubic dispatch-check``: does ``matmul`` choose right, and what does it cost the host?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import MOST_SIZE, Dtype, Json, at_least
from subcubic.output import note, print_json, table
from subcubic.version import commit
from subcubic.writing import make_folder

_MOST_CALLS = 10**9
_HEADINGS = ("M", "N", "K", "chosen", "best", "to the best", "to the vendor's")


@guarded
def dispatch_check(
    shapes: Annotated[int, typer.Option(help="How many of the held-out half of the 960 shapes.")] = 60,
    dtype: Annotated[Dtype, typer.Option(help="fp16 or bf16.")] = Dtype.BF16,
    calls: Annotated[int, typer.Option(help="Of a layer with changing numbers of rows; 0 for none.")] = 1000,
    layer: Annotated[str, typer.Option(help="Its N,K.")] = "7168,18432",
    seconds: Annotated[float | None, typer.Option(help="After which no further shape is begun.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to save the document to.")] = None,
    json_output: Json = False,
) -> ExitCode:
    """Judge what matmul chooses: at shapes of language models against the best choice, and its calls on the host."""
    at_least(0, "shapes", shapes)
    at_least(0, "calls", calls, _MOST_CALLS)
    if dtype not in (Dtype.FP16, Dtype.BF16):
        raise UsageError(f"--dtype {dtype.value} has no fused kernels; choose fp16 or bf16")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise UsageError(f"--seconds {seconds} must be a positive number of seconds")
    try:
        n, k = (int(part) for part in layer.split(","))
    except ValueError:
        raise UsageError(f"--layer {layer} must be N,K, for example 7168,18432") from None
    at_least(1, "layer", min(n, k))
    at_least(1, "layer", max(n, k), MOST_SIZE)

    from evaluate.device import DeviceMissingError, array_module, require_gpu, why_no_gpu
    from evaluate.dispatch import Dispatcher
    from evaluate.dispatch_check import check, held_out, stream
    from evaluate.host_time import entry_times, host_times
    from evaluate.report import save
    from evaluate.verdicts import Verdicts
    from subcubic.library import plan_of, rows_of

    if reason := why_no_gpu():
        raise DeviceMissingError(f"choices are measured on a GPU, and none is usable: {reason}")
    gpu, xp = require_gpu(), array_module()
    if out is not None:
        make_folder(out)
    with TemporaryDirectory() as folder:  # of verdicts: nothing may be known of earlier trials

        def fresh() -> Dispatcher:
            return Dispatcher(plan_of, rows_of, Verdicts(Path(folder)))

        document = check(
            *(fresh, held_out("llm960", shapes), dtype.value, gpu, xp),
            limit=seconds,
            commit=commit(),
            on_row=lambda row: note("  ".join(_cells(row))),
        )
        document["host"] = host_times(fresh, dtype.value, xp)
        document["entries"] = entry_times(plan_of, dtype.value, gpu, xp)
        if calls:
            document["streams"].append(stream(fresh(), (n, k), dtype.value, xp, calls))
    if out is not None:
        note(f"saved to {save(document, out)}")
    if json_output:
        print_json(document)
    else:
        print(_text(document))
    return ExitCode.DONE


def _text(document: dict[str, Any]) -> str:
    rows = document["rows"]
    lines = [table(_HEADINGS, [_cells(row) for row in rows])] if rows else []
    if rows:
        keys = ("near_best", "near_best_by_median", "near_vendor")
        near, by_median, safe = (sum(row[key] for row in rows) for key in keys)
        least = min(row["to_vendor"] for row in rows)
        lines.append(
            f"{near} of {len(rows)} choices not shown to be over 2 % slower than the best ({by_median} by the median), "
            f"{safe} no more than 1 % slower than the vendor's "
            f"GEMM; the slowest at a ratio of {least:.3f} to it"
        )
    for row in document["streams"]:
        lines.append(
            f"{row['calls']} calls with N = {row['N']}, K = {row['K']} and any M: {row['seconds']:.2f} s, vendor "
            f"{row['baseline_seconds']:.2f} s, ratio {row['ratio']:.3f} [{row['ratio_low']:.3f}, "
            f"{row['ratio_high']:.3f}]; {row['buckets']} buckets were tried before in {row['tuning_seconds']:.0f} s"
        )
    for row in document["host"]:
        lines.append(
            f"{row['library']} at {row['M']}: {row['choice']}; a call takes the host {row['call_us']:.1f} us, "
            f"its look-up {row['look_up_us']:.1f} us"
            + (f", {row['direct']} alone {row['direct_us']:.1f} us" if row["direct"] else "")
        )
    for row in document["entries"]:
        lines.append(
            f"C entry of {row['reference']} at {row['side']}: {row['entry_us']:.1f} us of the host for "
            f"{row['kernels']} kernel(s), cublasGemmEx {row['cublas_us']:.1f} us"
        )
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    ends = (
        "{:.3f} [{:.3f}, {:.3f}]".format(*(row[f"to_{one}{end}"] for end in ("", "_low", "_high")))
        for one in ("best", "vendor")
    )
    return [*(str(row[key]) for key in ("M", "N", "K", "chosen", "best")), *ends]
