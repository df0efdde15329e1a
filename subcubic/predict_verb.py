"""``subcubic predict``: would a scheme pay on a device, by the cost model; the device need not be here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from subcubic.bench_options import Operands, Regime, parse_shape, values
from subcubic.bench_schemes import Schemes
from subcubic.crossover import scheme_text, show_crossovers
from subcubic.errors import UsageError, guarded
from subcubic.options import MOST_SIZE, CatalogPath, Json, at_least, checked_levels, existing_catalog
from subcubic.output import note, print_json, table
from subcubic.pictures import draw_prediction
from subcubic.version import ROOT

RESULTS = ROOT / "benchmarks" / "results"
_SIZES = (2048, 4096, 8192, 16384)


@guarded
def predict(
    schemes: Annotated[
        list[str], typer.Argument(metavar="SCHEME", help="Ids, formats, built-in names or scheme files.")
    ],
    device: Annotated[
        str, typer.Option("--device", help="h200, h100, h20, a100, b200, or one that doctor --measure measured.")
    ] = "h200",
    size: Annotated[list[int] | None, typer.Option(help="M = N = K; may be given several times.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="M,N,K in BLAS letters; may be given several times.")] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", help="A set of shapes: squares, llm960, deepgemm or thin.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="bf16, fp16, fp32, fp64; on paper only: fp8, int8, tf32. bf16 on a GPU.")
    ] = None,
    operands: Annotated[
        list[Operands] | None, typer.Option(help="Planes given to a launch; may be given several times.")
    ] = None,
    plane_dtype: Annotated[str | None, typer.Option(help="Of the planes; that of A and B by default.")] = None,
    path: Annotated[
        str | None, typer.Option(help="fused, or cuda: products by the vendor's library. By dtype if not given.")
    ] = None,
    levels: Annotated[int, typer.Option(help="Levels of recursion.")] = 1,
    turn: Annotated[
        Operands | None, typer.Option(help="The member of a scheme's orbit that is cheapest for such operands.")
    ] = None,
    regime: Annotated[Regime, typer.Option(help="Short bursts, or settled clocks.")] = Regime.BURST,
    crossover: Annotated[
        bool,
        typer.Option(
            "--crossover",
            help="The smallest square that pays, for each dtype and kind of operands; beside it the measured ones.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a map over M and N, with what was measured, to this SVG file.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder of what was measured; benchmarks/results of the checkout.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Predict the ratio to the vendor's GEMM, and which part of the work it is lost to.

    Rates come from data sheets, or from `doctor --measure` where it ran on such a device. See the same ratio measured
    by `bench`.
    """
    from codegen.emit_thin import MOST_ROWS
    from evaluate.device_model import device_model
    from evaluate.model import predict as model
    from evaluate.operands import DTYPES
    from evaluate.shapes import shapes_of

    checked_levels(levels)
    for value in size or []:
        at_least(1, "size", value, MOST_SIZE)
    shapes = [(n, n, n) for n in size or []] + [parse_shape(text) for text in shape or []]
    if crossover and (shapes or set_name or plot):
        raise UsageError("--crossover asks for all squares; leave --size, --shape, --set and --plot out")
    if plot and plot.suffix != ".svg":
        raise UsageError(f"--plot {plot} must end in .svg")
    kinds = values(operands, Operands.VARIABLE)
    if plot and len(kinds) > 1:
        raise UsageError(f"--plot draws one kind of operands, not {' and '.join(kinds)}; give --operands once")
    if results and not (plot or crossover):
        raise UsageError(f"--results {results} is read for --plot and --crossover; add one of them or leave it out")
    folder = results or RESULTS
    known = Schemes(existing_catalog(catalog), "predict")
    plans = [known.plan(reference, levels, turn.value if turn else "") for reference in schemes]
    rows: list[dict[str, Any]] = []
    try:
        shapes += shapes_of(set_name) if set_name else []
        found = device_model(device)
        if crossover:
            asked = {"plane_dtype": plane_dtype, "path": path, "regime": regime.value}
            kinds = tuple(values(operands or list(Operands), Operands.VARIABLE))
            show_crossovers(plans, found, [dtype] if dtype else list(found.peak), kinds, folder, json_output, **asked)
            return
        chosen = dtype or ("bf16" if "bf16" in found.peak else "fp32")
        for plan, facts in plans:
            head = {"id": plan.digest, "format": str(plan.base.format), "rank": plan.base.rank, **facts}
            for m, n, k in shapes or [(each, each, each) for each in _SIZES]:
                for kind in kinds:
                    options: dict[str, Any] = {
                        "operands": kind,
                        "plane_dtype": plane_dtype,
                        "path": path,
                        "regime": regime.value,
                    }
                    figures = model(plan, (m, n, k), found, chosen, **options).document()
                    kept = {"levels": levels, "dtype": chosen, **options, "M": m, "N": n, "K": k}
                    rows.append({**head, **kept, **figures})
        if plot is not None:
            depths = sorted({k for _, _, k in shapes}) or list(_SIZES)
            asked = {"dtype": chosen, "operands": kinds[0], "regime": regime.value, "path": path}
            draw_prediction([plan for plan, _ in plans], found, depths, folder, plot, plane_dtype=plane_dtype, **asked)
    except ValueError as error:  # a name or a combination that there is not
        raise UsageError(str(error)) from error
    if json_output:
        print_json({"device": found.name, "source": found.source, "basis": found.basis, "rows": rows})
        return
    note(f"{found.name}: {found.source}; {found.basis}")
    if chosen not in DTYPES:
        note(f"there are no kernels for {chosen}: an answer on paper")
    if any(row["M"] <= MOST_ROWS for row in rows):
        note(f"with up to {MOST_ROWS} rows no scheme pays, a kernel of its own can: `subcubic tune`, on the GPU")
    headings = ("scheme", "M", "N", "K", "dtype", "operands", "ms", "vendor ms", "ratio", "why")
    print(table(headings, [_cells(row) for row in rows]))


def _cells(row: dict[str, Any]) -> list[Any]:
    times = [f"{row[key] * 1e3:.4g}" for key in ("seconds", "baseline_seconds")]
    shape = [row[key] for key in ("M", "N", "K", "dtype", "operands")]
    return [scheme_text(row), *shape, *times, f"{row['ratio']:.3f}", row["why"]]
