"""``subcubic bench``: speed and error of schemes against the vendor's GEMM, on the GPU or on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from subcubic import bench_epilogue, bench_thin
from subcubic.bench_options import (
    Distribution,
    KernelPath,
    Operands,
    PlaneDtype,
    Regime,
    check_numbers,
    emitter_option,
    parse_shape,
    refuse_others,
    values,
)
from subcubic.bench_schemes import Schemes, measurable, planned
from subcubic.bench_sets import set_cases, set_lines, unmeasured
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import (
    CatalogPath,
    Device,
    Dtype,
    Json,
    Layout,
    ProductDtype,
    writable_catalog,
)
from subcubic.output import note, print_json
from subcubic.pictures import draw_results
from subcubic.profiles import show_profiles
from subcubic.version import ROOT, commit
from subcubic.writing import make_folder

if TYPE_CHECKING:
    from evaluate.cases import Case, Settings, Shape
    from evaluate.device import DeviceInfo
    from evaluate.variants import Wanted

RESULTS = ROOT / "benchmarks" / "results"
_SIZES = {"gpu": [4096, 8192], "cpu": [512, 1024]}
_CHAINED = (KernelPath.FUSED, KernelPath.TRITON)  # of 16-bit types only
_DTYPES = {"gpu": [Dtype.FP32, Dtype.BF16], "cpu": [Dtype.FP64, Dtype.FP32, Dtype.BF16, Dtype.FP16]}
# With --quick: one shape, fewer pairs, and a time limit for each row.
# The CPU is slow and its timings scatter: a row that takes longer is measured on fewer pairs.
_CPU_S = 20.0
_QUICK_SIZES, _QUICK_PAIRS, _QUICK_S = {"gpu": [4096], "cpu": [512]}, 10, 3.0


@guarded
def bench(
    context: typer.Context,
    schemes: Annotated[
        list[str] | None, typer.Argument(metavar="SCHEME", help="Ids, formats, built-in names or scheme files.")
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", help="A named set in place of schemes: hopper, hopper-planes, squares, llm960, thin ..."),
    ] = None,
    size: Annotated[list[int] | None, typer.Option(help="M = N = K; may be given several times.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="M,N,K in BLAS letters; may be given several times.")] = None,
    dtype: Annotated[list[Dtype] | None, typer.Option(help="Element type; may be given several times.")] = None,
    levels: Annotated[list[int] | None, typer.Option(help="Levels of recursion; may be given several times.")] = None,
    product_dtype: Annotated[
        ProductDtype, typer.Option(help="How block products of 16-bit types are stored.")
    ] = ProductDtype.INPUT,
    device: Annotated[Device, typer.Option(help="auto takes a GPU where there is one.")] = Device.AUTO,
    path: Annotated[
        KernelPath,
        typer.Option(
            help="GPU: the vendor's products, a fused kernel, one for few rows, or what measured fastest before."
        ),
    ] = KernelPath.AUTO,
    operands: Annotated[
        list[Operands] | None, typer.Option(help="Fused: planes given to a launch; may be given several times.")
    ] = None,
    plane_dtype: Annotated[list[PlaneDtype] | None, typer.Option(help="Fused; may be given several times.")] = None,
    layout: Annotated[list[Layout] | None, typer.Option(help="Fused; may be given several times.")] = None,
    turn: Annotated[
        Operands | None, typer.Option(help="Measure the member of a scheme's orbit that is cheapest for such operands.")
    ] = None,
    emitter: Annotated[list[str] | None, typer.Option(help="Fused: NAME=NUMBER for the emitter; repeatable.")] = None,
    epilogue: Annotated[
        str | None,
        typer.Option(
            help="Steps after the product, as of export: a fused kernel against the vendor's ways to do both."
        ),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder that --path table chooses by; benchmarks/results of the checkout.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="Interleaved pairs of timings; 30, in a set 9 bursts or 7 settled windows.")
    ] = None,
    regime: Annotated[Regime, typer.Option(help="Idle gaps, or settled clocks.")] = Regime.BURST,
    distribution: Annotated[Distribution, typer.Option(help="Of the random inputs.")] = Distribution.NORMAL,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    seeds: Annotated[int, typer.Option(help="Errors of so many seeds: median and worst beside the first.")] = 1,
    limit: Annotated[float | None, typer.Option(help="Seconds of timing per row, at least 7 pairs.")] = None,
    total: Annotated[float | None, typer.Option(help="Seconds after which no further row is begun.")] = None,
    counters: Annotated[
        bool, typer.Option("--counters", help="GPU: bytes, clock and busy tensor cores by ncu.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="GPU: also registers, shared memory and occupancy of each kernel, and --counters."
        ),
    ] = False,
    nvbench: Annotated[
        bool, typer.Option("--nvbench", help="GPU: the same times by NVBench too, in the document (cuda-bench).")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="One small shape and level, a few seconds a path.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to save the document to, anew after every row; at the end two pictures lie beside it, a heat "
            "map of the speed-up and the error against speed (SVG, needs Matplotlib)."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave out what the documents in --out have rows of on this device.")
    ] = False,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Measure schemes against the vendor's GEMM of the same precision, interleaved, with errors against FP64."""
    from evaluate.bench import cases, device_of, measure
    from evaluate.cases import Settings
    from evaluate.cpu import cpu_name
    from evaluate.device import require_gpu, why_no_gpu
    from evaluate.report import Saver, text
    from evaluate.variants import Wanted

    table = path is KernelPath.TABLE
    check_numbers(size or [], levels or [], pairs, seed, seeds, {"limit": limit, "total": total})
    shapes = [parse_shape(item) for item in shape or []]
    if path is KernelPath.THIN or epilogue is not None:
        thin = path is KernelPath.THIN
        refuse_others(context, "--path thin" if thin else "--epilogue", device)
        shapes = [(n, n, n) for n in size or []] + shapes
        kinds, orders = values(dtype, Dtype.BF16), values(layout, Layout.NN)
        if thin:
            bench_thin.check(schemes or [], set_name, kinds, orders, regime.value, shapes)
            return bench_thin.run(shapes, kinds, orders, pairs, limit, out, json_output)
        if set_name or not schemes:
            raise UsageError("--epilogue needs one SCHEME or more, classical-1x1x1 for a plain product, and no --set")
        steps = bench_epilogue.checked(epilogue or "", kinds, path.value)
        turned, counted = turn.value if turn else "", counters or profile
        measured = [plan for plan, _ in planned(Schemes(writable_catalog(catalog)), schemes, levels or [1], turned)]
        return bench_epilogue.run(measured, shapes, kinds, orders, steps, pairs, limit, counted, out, json_output)
    if bool(schemes) + bool(set_name) + table != 1:
        raise UsageError("give either a SCHEME or several, or --set NAME, or --path table")
    lines = set_lines(set_name) if set_name else []
    if (set_name or table) and device is Device.CPU:
        raise UsageError(f"{'a set' if set_name else '--path table'} is measured on a GPU; leave --device cpu out")
    if (counters or nvbench or profile) and device is Device.CPU:
        named = "counters" if counters else "nvbench" if nvbench else "profile"
        raise UsageError(f"--{named} measures on a GPU; leave it or --device cpu out")
    # Every path has its device, unless the CPU is asked for by name.
    counters = counters or profile
    on_gpu = set_name or table or counters or nvbench or (path is not KernelPath.AUTO and device is not Device.CPU)
    gpu = require_gpu() if on_gpu else device_of(device.value)
    kind = "gpu" if gpu else "cpu"
    if resume and out is None:
        raise UsageError("--resume needs --out FOLDER with the rows measured before")
    if out is not None:
        make_folder(out)
    known = Schemes(writable_catalog(catalog))
    wanted = Wanted(
        path="auto" if table else path.value,
        operands=values(operands, Operands.VARIABLE),
        plane_dtypes=values(plane_dtype, PlaneDtype.INPUT),
        layouts=values(layout, Layout.NN),
        product_dtype=None if product_dtype is ProductDtype.INPUT else product_dtype.value,
        options=tuple(emitter_option(item) for item in emitter or []),
    )
    limit = limit if limit is not None else _QUICK_S if quick else _CPU_S if kind == "cpu" else None
    common: dict[str, Any] = {"distribution": distribution.value, "seed": seed, "seeds": seeds}
    common |= {"limit": limit, "counters": counters, "profile": profile, "nvbench": nvbench}
    if set_name:
        found = list(set_cases(lines, set_name, known, pairs=pairs, **common))
    else:
        count = _QUICK_PAIRS if pairs is None and quick else 30 if pairs is None else pairs
        settings = Settings(pairs=count, regime=regime.value, **common)
        sizes = size or [] if size or shape else (_QUICK_SIZES if quick else _SIZES)[kind]
        all_shapes = [(n, n, n) for n in sizes] + shapes
        dtypes = [item.value for item in dtype or ([Dtype.BF16] if path in _CHAINED else _DTYPES[kind])]
        if table and gpu:
            found = _chosen(known, all_shapes, dtypes, wanted, results or RESULTS, gpu, settings)
        else:
            plans = measurable(
                planned(known, schemes or [], levels or ([1] if quick else None), turn.value if turn else ""),
                dtypes,
                wanted,
                gpu,
            )
            found = [
                case for plan, facts in plans for case in cases(plan, all_shapes, dtypes, wanted, gpu, settings, facts)
            ]
    if resume and out is not None:
        found = unmeasured(found, out, gpu.name if gpu else cpu_name())
        if not found:
            note(f"{out} has a row of everything that was asked for")
            return ExitCode.DONE
    reason = "" if gpu or device is Device.CPU else f" ({why_no_gpu()})"
    note(f"{len(found)} rows on the {kind.upper()}{reason}{f': {gpu.name}' if gpu else ''}")
    saver, places = Saver(out) if out is not None else None, itertools.count(1)
    document = measure(
        found,
        gpu,
        commit=commit(),
        on_row=lambda row: note(f"{next(places)} of {len(found)}: {_progress(row)}"),
        keep=saver,
        until=total,
    )
    if saver is not None and document["rows"]:
        place = saver(document)
        note(f"saved to {place}")
        draw_results(document, place)
    if json_output:
        print_json(document)
    else:
        if document["rows"]:
            print(text(document["rows"]))
            if profile:
                show_profiles(document)
        for row in document["skipped"]:
            note(f"skipped {row['format']}:{row['rank']} at {row['M']},{row['N']},{row['K']}: {row['reason']}")
    if document["rows"]:
        known.record(document)
    wrong = [row for row in document["rows"] if row["correct"] is False]
    if wrong:
        note(f"subcubic: {len(wrong)} rows are wrong: their error is beyond rounding, or changes from launch to launch")
    if document["interrupted"]:
        return ExitCode.INTERRUPTED
    if not document["rows"]:
        why = document["skipped"][0]["reason"] if document["skipped"] else "no path fits"
        note(f"subcubic: nothing was measured ({why}), so nothing is stored; choose other sizes, types or paths")
    return ExitCode.ERROR if wrong or not document["rows"] else ExitCode.DONE


def _progress(row: dict[str, Any]) -> str:
    """A row while others are measured; the table comes at the end."""
    ratio = f", ratio {row['ratio']:.3f}" if row.get("ratio") else ""
    return f"{row['format']}:{row['rank']}, path {row['path']}, {row['dtype']}, {row['M']},{row['N']},{row['K']}{ratio}"


def _chosen(
    known: Schemes,
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    wanted: Wanted,
    results: Path,
    gpu: DeviceInfo,
    settings: Settings,
) -> list[Case]:
    """For each shape, dtype and kind of operands the case of what measured fastest at the nearest shape."""
    from evaluate.cases import Case
    from evaluate.choice import choose, measured
    from evaluate.variants import Variant

    rows = measured(results, gpu.name)
    found = []
    for dtype in dtypes:
        for shape in shapes:
            for operands in wanted.operands:
                choice = choose(rows, dtype, shape, operands, regime=settings.regime)
                plan, facts = known.plan(choice.reference or "classical-1x1x1", choice.levels, choice.orbit)
                product_dtype = "fp32" if choice.path == "fused" else dtype
                types = (dtype, choice.path, choice.operands, choice.plane_dtype, product_dtype)
                facts = {**facts, "chosen_at": choice.shape, "chosen_ratio": choice.ratio}
                found.append(Case(plan, shape, Variant(*types, options=choice.options), settings, facts))
    return found
