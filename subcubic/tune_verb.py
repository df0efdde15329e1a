"""``subcubic tune``: looks for the tiles of thin products ahead of the first call of ``matmul``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from subcubic.bench_options import parse_shape, values
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import Dtype, Json, Layout, at_least
from subcubic.output import note, print_json
from subcubic.search_options import seconds_of

_MOST_GROUPS = 65535


@guarded
def tune(
    shapes: Annotated[list[str], typer.Argument(metavar="M,N,K", help="[M, K] x [K, N] with M up to 16.")],
    groups: Annotated[int, typer.Option(help="Products of this shape in one launch, as of experts.")] = 1,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="bf16 or fp16; may be given several times.")] = None,
    layout: Annotated[
        list[Layout] | None, typer.Option(help="nn, or nt for weights stored as [N, K]; may be given several times.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Time for trying tiles, for each product.")] = "2s",
    json_output: Json = False,
) -> ExitCode:
    """Look for the kernel of few rows that beats the vendor's libraries, a few seconds each, and keep what was found.

    `matmul` then takes it from its first call on, in every process of this user on this kind of device.
    """
    from catalog.known import classical
    from catalog.scheme import Format
    from codegen.emit_thin import MOST_ROWS
    from codegen.plan import plan
    from evaluate.device import require_gpu
    from evaluate.shapes import Grouped
    from evaluate.thin.choice import look_now
    from evaluate.thin.problem import DTYPES, ThinProblem
    from evaluate.verdicts import Verdicts

    sizes = [parse_shape(text) for text in shapes]
    at_least(1, "groups", groups, _MOST_GROUPS)
    kinds, orders = values(dtype, Dtype.BF16), values(layout, Layout.NN)
    for m, _, _ in sizes:
        if m > MOST_ROWS:
            raise UsageError(
                f"{m} rows are no thin product; M is at most {MOST_ROWS}, and matmul tunes larger ones itself"
            )
    for kind in kinds:
        if kind not in DTYPES:
            raise UsageError(f"thin kernels multiply {' and '.join(DTYPES)}, not {kind}")
    for order in orders:
        if order not in ("nn", "nt"):
            raise UsageError(f"thin kernels have the layouts nn and nt, not {order}")
    spent = seconds_of(budget)
    gpu, trivial, verdicts = require_gpu(), plan(classical(Format(1, 1, 1))), Verdicts()
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        for order in orders:
            for size in sizes:
                found = look_now(trivial, verdicts, gpu, ThinProblem(Grouped(groups, size), kind, order), spent)
                m, n, k = size
                rows.append(
                    {
                        **{"groups": groups, "M": m, "N": n, "K": k, "dtype": kind, "layout": order},
                        **{"tile": found.way[0], "split": found.way[1], "verdict": found.finding},
                        **{"seconds": found.seconds, "baseline_seconds": found.baseline_seconds, "ratio": found.ratio},
                        **{"ratio_low": found.ratio_low, "ratio_high": found.ratio_high, "pairs": found.pairs},
                        **{"tuning_s": found.setup_seconds, "repaid_after": found.repaid_after},
                    }
                )
                note(_told(rows[-1])) if json_output else print(_told(rows[-1]), flush=True)
    if json_output:
        print_json({"device": gpu.name, "rows": rows})
    return ExitCode.DONE


def _told(row: dict[str, Any]) -> str:
    many = f"{row['groups']} x " if row["groups"] > 1 else ""
    repaid = f", repaid after {row['repaid_after']} calls" if row["repaid_after"] else ""
    what = f"{many}{row['M']},{row['N']},{row['K']} {row['dtype']} {row['layout']}"
    ours, theirs = (f"{row[key] * 1e6:.2f} us" for key in ("seconds", "baseline_seconds"))
    return (
        f"{what}: tile {row['tile']}, split {row['split']}, {ours}, ratio {row['ratio']:.3f} to the vendor's {theirs} "
        f"({row['verdict']}), found in {row['tuning_s']:.1f} s{repaid}"
    )
