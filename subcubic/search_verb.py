"""``subcubic search`` and ``subcubic runs``: start, list, show, stop and resume searches."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.scheme import Format
from subcubic.curve import show
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.options import (
    CatalogPath,
    Device,
    ExecutorOption,
    Group,
    Json,
    RingOption,
    SymmetryOption,
    at_least,
    ring_named,
    scheme_ring,
    writable_catalog,
)
from subcubic.output import note, print_json, table
from subcubic.player_setup import prepare
from subcubic.reference import format_of
from subcubic.runs import Run, all_runs
from subcubic.search_options import (
    Method,
    WalkRing,
    executor_named,
    method_for,
    seconds_of,
    seed_of,
    starts_of,
    target_for,
)

_DEFAULT_BUDGET, _BENCHMARK_BUDGET = "60s", "10m"
_SHOWN_IDS = 4
_MOST_WORKERS, _MOST_WALKERS = 1 << 12, 1 << 16  # a walk has memory of its own

if TYPE_CHECKING:
    from search.query import Query
    from subcubic.search_run import Outcome


@guarded
def search(
    format: Annotated[
        str | None, typer.Argument(metavar="FORMAT", help="Base case m x k x n, for example 3x4x5.")
    ] = None,
    m: Annotated[int | None, typer.Option("--m", help="Rows of A and C.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Columns of B and C.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Columns of A, rows of B.")] = None,
    ring: RingOption = None,
    method: Annotated[
        Method,
        typer.Option(
            help="Walks in the flip graph or on orbits of a symmetry, tree search, or a trained player's games."
        ),
    ] = Method.AUTO,
    target: Annotated[int | None, typer.Option(help="Rank to reach; the best known one by default.")] = None,
    budget: Annotated[str | None, typer.Option(help="Time limit: 30, 90s, 5m, 2h; 60s by default.")] = None,
    steps: Annotated[int | None, typer.Option(help="Limit in steps; the result is then repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Threads, or processes of dask; one per core by default.")] = None,
    walkers: Annotated[int, typer.Option(help="Walks on the format; four per worker keep all workers busy.")] = 8,
    executor: ExecutorOption = "local",
    keep: Annotated[int, typer.Option(help="Distinct schemes of the target rank to find.")] = 1,
    start: Annotated[
        list[str] | None,
        typer.Option("--from", help="Ids of stored schemes to start from, or `catalog` for all that can help."),
    ] = None,
    walk: Annotated[WalkRing | None, typer.Option(help="Ring of the walks: F2 and a lift, or ZT.")] = None,
    diagonal: Annotated[
        str | None, typer.Option(help="Symmetric walk: vectors of its cubes at the start, for example 110,001.")
    ] = None,
    symmetry: SymmetryOption = Group.Z3,
    weights: Annotated[
        Path | None, typer.Option(help="Of the player: a file or the folder of a training; else those shipped.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Of the player's games; all else runs on the CPU.")] = Device.AUTO,
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Measure flips per second and times to target, or another executor.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="With --benchmark: folder to save the document to.")] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Search a base case, prove what is found and store it in the catalog."""
    if device is Device.GPU and (benchmark or method is not Method.PLAYER):
        from evaluate.device import DeviceMissingError

        raise DeviceMissingError("of the search methods only the player runs on a GPU; use --device cpu or auto")
    if out is not None and not benchmark:
        raise UsageError("--out keeps the document of --benchmark; what a search finds goes to the catalog")
    if benchmark:
        from subcubic.search_benchmark import run_benchmark, run_executor_benchmark

        workers, seed = at_least(1, "workers", workers, _MOST_WORKERS), seed_of(seed)
        some = format is not None or (m, n, k) != (None, None, None)
        only = format_of(format, m, n, k) if some else None
        if executor != "local":
            base_case = only or Format(4, 4, 5)
            spent, over = seconds_of(budget or _DEFAULT_BUDGET), ring_named(ring or "F2")
            return run_executor_benchmark(base_case, over, executor_named(executor), workers, spent, out, json_output)
        spent = seconds_of(budget or _BENCHMARK_BUDGET)
        return run_benchmark(only, ring_named(ring) if ring else None, spent, workers, seed, out, json_output)
    base_case, over = format_of(format, m, n, k), ring_named(ring or "Z")
    opened = writable_catalog(catalog)
    config = {
        "format": str(base_case),
        "ring": over,
        "method": method_for(method, base_case, over, bool(start)),
        "target": target_for(base_case, over, target),
        "keep": at_least(1, "keep", keep),
        "seed": seed_of(seed),
        "steps": at_least(1, "steps", steps),
        "budget_s": seconds_of(budget or _DEFAULT_BUDGET) if budget or steps is None else None,
        "workers": at_least(1, "workers", workers, _MOST_WORKERS),
        "walkers": at_least(1, "walkers", walkers, _MOST_WALKERS),
        "executor": executor_named(executor),
        "start": starts_of(start or [], opened, base_case, over),
        "walk": walk.value if walk else None,
        "diagonal": diagonal,
        "symmetry": symmetry.value,
        "weights": str(weights.absolute()) if weights else None,
        "device": device.value,
        "catalog": str(opened.path.absolute()),
    }
    return _execute(None, config, json_output)


runs = typer.Typer(no_args_is_help=True, help="List, show, stop and resume searches.")
runs.command()(show)


@runs.command("list")
@guarded
def list_runs(json_output: Json = False) -> None:
    """List the searches that left a run folder, oldest first."""
    rows = [{"run": run.name, **run.summary(), "path": str(run.path)} for run in all_runs()]
    if json_output:
        print_json({"runs": rows})
    else:
        keys = ("run", "format", "ring", "method", "target", "status", "rank", "seconds")
        print(table(keys, [[row.get(key) for key in keys] for row in rows]))
    for row in rows:
        if "damage" in row:
            note(f"subcubic: {row['damage']}")


@runs.command()
@guarded
def stop(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, or its beginning.")],
    json_output: Json = False,
) -> None:
    """Ask a running search to end at its next block and save its state."""
    run = Run.find(name)
    status = run.status()["status"]
    if status != "running":
        raise ValueError(f"run {run.name} is not running, its status is {status}; nothing was stopped")
    run.ask_to_stop()
    if json_output:
        print_json({"run": run.name, "status": "stopping"})
    else:
        print(f"run {run.name} will stop at its next block; `subcubic runs resume {run.name}` goes on")


@runs.command()
@guarded
def resume(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, or its beginning.")],
    budget: Annotated[str | None, typer.Option(help="New time limit, counted from the run's start.")] = None,
    steps: Annotated[int | None, typer.Option(help="New limit in steps, counted from the run's start.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads, or processes of dask.")] = None,
    executor: Annotated[str | None, typer.Option(help="Where to go on: local, dask or dask=tcp://HOST:PORT.")] = None,
    catalog: Annotated[Path | None, typer.Option(help="Another catalog than the run's own.")] = None,
    json_output: Json = False,
) -> ExitCode:
    """Go on with a search that was stopped, interrupted or killed, from its last checkpoint."""
    run = Run.find(name)
    if run.status()["status"] == "running":
        raise ValueError(f"run {run.name} is still running; stop it first")
    config = run.config()
    if config["method"] == Method.MCTS:
        raise ValueError(f"run {run.name} is a tree search, which keeps no checkpoint; start it anew with search")
    if run.status()["status"] == "found":
        raise ValueError(f"run {run.name} has found what it looked for; start a new search")
    if budget is not None:
        config["budget_s"] = seconds_of(budget)
    if steps is not None:
        config["steps"] = at_least(1, "steps", steps)
    if workers is not None:
        config["workers"] = at_least(1, "workers", workers, _MOST_WORKERS)
    if executor is not None:
        config["executor"] = executor_named(executor)
    if catalog is not None:
        config["catalog"] = str(catalog.absolute())
    return _execute(run, config, json_output)


def _execute(run: Run | None, config: dict[str, Any], as_json: bool) -> ExitCode:
    """Check a configuration, then start it as a new run or go on with the given one."""
    from search.find import require
    from search.query import Query
    from subcubic.search_run import carry_out, echo, known_rank, parents

    if config["method"] == Method.PLAYER:
        prepare(Device(config.get("device", Device.AUTO)))
    wanted = Format.parse(config["format"])
    keys = "ring target method keep seed steps budget_s workers walkers executor walk diagonal symmetry weights".split()
    query = Query(wanted, report_rungs=True, **{key: config[key] for key in keys if config.get(key) is not None})
    catalog = writable_catalog(Path(config["catalog"]))
    starts = parents(catalog, config.get("start", []), wanted)
    try:
        require(query, starts)
    except ValueError as error:
        raise UsageError(str(error)) from None
    rows = catalog.rows(wanted, scheme_ring(query.ring), ternary=query.ring == "ZT", holding=True)
    stored = [row.rank for row in rows]
    if run is None:
        run = Run.create(config)
    else:
        run.write_config(config)
    echo(query, run, min(stored, default=None))
    outcome = carry_out(query, catalog, run, starts, config.get("start", []), quiet=as_json)
    if as_json:
        print_json(
            {
                **asdict(outcome),
                "format": str(wanted),
                "ring": query.ring,
                "target": query.target,
                "best_known": known_rank(wanted, query.ring),
                "method": query.method,
                "seed": query.seed,
                "verified": outcome.id is not None,
                "run": run.name,
            }
        )
    else:
        print(_verdict(query, outcome))
    if outcome.status == "interrupted":
        return ExitCode.INTERRUPTED
    return ExitCode.DONE if outcome.status == "found" else ExitCode.BUDGET


def _verdict(query: Query, outcome: Outcome) -> str:
    """What a search came to, in a sentence or two."""
    result = f"{outcome.status}: {query.format} of rank {outcome.rank} over {query.ring} in {outcome.seconds:.3f} s"
    short = query.target is not None and outcome.rank is not None and outcome.rank > query.target
    missed = f"; target {query.target} was not reached" if short else ""
    if outcome.rank is None:
        text = f"{outcome.status}: nothing better than the standard algorithm in {outcome.seconds:.2f} s"
    elif outcome.id is None:
        text = f"{result}{missed}, not stored, since the catalog has a lower rank"
    else:
        stored = ", ".join(identity[:12] for identity in outcome.ids[-_SHOWN_IDS:] or [outcome.id])
        count = f" ({len(outcome.ids)} schemes)" if len(outcome.ids) > 1 else ""
        text = f"{result} plus {outcome.compile_seconds:.1f} s of compiling{missed}, exact, stored as {stored}{count}"
    return text + _unlifted(query, outcome)


def _unlifted(query: Query, outcome: Outcome) -> str:
    """What kept a search that missed its target from carrying over what the walks have found."""
    failed, given_up = outcome.lift_failures, outcome.lifts_given_up
    if not failed + given_up or outcome.status == "found":
        return ""
    what, remedies = [], [f"ask for --ring {outcome.walk_ring}", "for a higher --target"]
    if failed:
        what.append(f"{failed} of their schemes did not lift to {query.ring}")
    if given_up:
        what.append(f"{given_up} {'lift' if given_up == 1 else 'lifts'} to {query.ring} had to be given up")
        remedies.append("go on with a longer limit")
    return (
        f"; the walks reached rank {outcome.walk_rank} over {outcome.walk_ring}, and {' and '.join(what)}: "
        f"{', '.join(remedies[:-1])} or {remedies[-1]}"
    )
