"""``subcubic accuracy``: where the error of a scheme comes from, by emulated roundings on the CPU."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.scheme import Ring
from subcubic.bench_options import Distribution, PlaneDtype, parse_shape, values
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import (
    MOST_SEEDS,
    MOST_SIZE,
    CatalogPath,
    Dtype,
    Json,
    Reference,
    at_least,
    checked_levels,
    existing_catalog,
)
from subcubic.output import note, print_json, table
from subcubic.reference import resolve
from subcubic.version import commit

_SIZE, _SEEDS = 512, 10
_HEADINGS = (
    "dtype",
    "planes",
    "rounded",
    "Frobenius",
    "of baseline",
    "worst",
    "maximum",
    "componentwise",
    "99.9 % ulp",
)


@guarded
def accuracy(
    scheme: Reference,
    size: Annotated[int, typer.Option(help="M = N = K.")] = _SIZE,
    shape: Annotated[str | None, typer.Option(help="M,N,K in BLAS letters, in place of --size.")] = None,
    levels: Annotated[int, typer.Option(help="Levels of recursion.")] = 1,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="bf16 or fp16; both by default.")] = None,
    plane_dtype: Annotated[
        list[PlaneDtype] | None, typer.Option(help="Type of planes; may be given several times.")
    ] = None,
    distribution: Annotated[Distribution, typer.Option(help="Of the random inputs.")] = Distribution.NORMAL,
    seed: Annotated[int, typer.Option(help="The first of the seeds.")] = 0,
    seeds: Annotated[int, typer.Option(help="How many inputs are drawn; median and worst are reported.")] = _SEEDS,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Say where a scheme's error comes from: rounded planes, rounded products, or the order of sums."""
    from codegen.plan import plan
    from evaluate.attribution import ARMS, ATTRIBUTED_DTYPES, attribution, attribution_head

    at_least(1, "size", size, MOST_SIZE)
    at_least(0, "seed", seed)
    at_least(1, "seeds", seeds, MOST_SEEDS)
    checked_levels(levels)
    dtypes = [item.value for item in dtype] if dtype else list(ATTRIBUTED_DTYPES)
    for item in dtypes:
        if item not in ATTRIBUTED_DTYPES:
            raise UsageError(
                f"--dtype {item} has no narrower planes or products; choose {' or '.join(ATTRIBUTED_DTYPES)}"
            )
    sizes = parse_shape(shape) if shape else (size, size, size)
    found = resolve(scheme, existing_catalog(catalog), (Ring.Z, Ring.Q))
    note(f"accuracy {found.origin}: {found.scheme.format.described}, rank {found.scheme.rank} over {found.scheme.ring}")
    planned = plan(found.scheme, levels)
    rows = []
    for item in dtypes:
        wanted = values(plane_dtype, PlaneDtype.INPUT) if plane_dtype else ("input", "fp16")
        for planes in dict.fromkeys(item if name == "input" else name for name in wanted):
            how: dict[str, Any] = {"distribution": distribution.value, "seed": seed, "seeds": seeds}
            rows += attribution(planned, sizes, item, plane_dtype=planes, **how)
    head = attribution_head(planned)
    if json_output:
        print_json({"commit": commit(), **head, "rows": rows})
    else:
        print(f"{head['format']}:{head['rank']}, levels {levels}, M x N x K {' x '.join(map(str, sizes))}")
        print(f"growth factor {head['growth']:.2f}, stability factor {head['stability']:.0f}")
        print(f"{distribution.value} inputs, {seeds} seeds: median errors, and as factors over a plain GEMM's")
        print(table(_HEADINGS, [_cells(row) for row in rows]))
        print("\n".join(f"{name}: {text}" for name, text in ARMS.items()))
    return ExitCode.DONE


def _cells(row: dict[str, Any]) -> list[Any]:
    def median(key: str) -> Any:
        return row.get(f"{key}_median", row[key])

    return [
        row["dtype"],
        row["plane_dtype"],
        row["arm"],
        median("error_fro"),
        _factor(median("error_fro_ratio")),
        _factor(row.get("error_fro_ratio_worst", row["error_fro_ratio"])),
        *(_factor(median(f"error_{name}_ratio")) for name in ("max", "componentwise", "ulp_p999")),
    ]


def _factor(value: float | None) -> str | None:
    return None if value is None else f"x{value:.2f}" if value < 1000 else f"x{value:.1e}"
