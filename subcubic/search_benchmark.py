"""``subcubic search --benchmark``: flips per second, times to target and lifts, saved with the other results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog.provenance import utc_now
from catalog.scheme import Format
from search.benchmark import (
    Row,
    executor_rates,
    flip_rate,
    lift_products,
    lift_share,
    lowest_rank,
    processor,
    time_to_target,
)
from search.executors import cores
from search.query import Query
from subcubic.errors import SCHEMA_VERSION, ExitCode, UsageError
from subcubic.output import note, print_json, table
from subcubic.version import commit

SEEDS = range(1, 11)
RATE_FORMATS = ("3x3x3", "4x4x4", "5x5x5")
# format, ring, rank, method, seconds after which a seed counts as a miss
TARGETS = (
    ("2x2x2", "F2", 7, "flips", 1.0),
    ("2x2x3", "F2", 11, "flips", 1.0),
    ("2x3x3", "F2", 15, "flips", 1.0),
    ("3x3x3", "F2", 23, "flips", 1.0),
    ("2x3x4", "F2", 20, "flips", 2.0),
    ("3x3x4", "F2", 29, "flips", 15.0),
    ("2x4x4", "F2", 26, "flips", 15.0),
    ("3x3x5", "F2", 36, "flips", 15.0),
    ("3x4x4", "F2", 38, "flips", 30.0),
    ("2x4x5", "F2", 33, "flips", 30.0),
    ("4x4x4", "F2", 49, "flips", 30.0),
    ("3x4x5", "F2", 47, "flips", 120.0),
    ("4x4x4", "F2", 47, "flips", 300.0),
    ("3x3x3", "F2", 23, "symmetric", 1.0),
    ("4x4x4", "F2", 49, "symmetric", 10.0),
    ("5x5x5", "F2", 93, "symmetric", 120.0),
    ("3x3x3", "ZT", 23, "flips", 5.0),
    ("2x2x2", "F2", 7, "mcts", 10.0),
    ("2x2x3", "F2", 11, "mcts", 10.0),
)
# Format and the rank at which the search ends; only for a format that is named, since each takes its whole time.
LOWEST = (("4x4x5", "F2", 60), ("4x5x5", "F2", 73), ("5x5x5", "F2", 93))
LIFTS = (("2x2x2", 7), ("2x2x3", 11), ("2x3x3", 15), ("3x3x3", 23), ("2x3x4", 20), ("4x4x4", 49))
LIFT_SEEDS, LIFT_BUDGET_S = range(1, 21), 15.0
# The keys that every result file has; a search has neither a GPU nor a baseline.
_HEAD: dict[str, Any] = dict.fromkeys(("driver", "cuda", "clocks", "power", "baseline"))
_HEAD |= {"schema_version": SCHEMA_VERSION, "timer": "see each row"}


def run_benchmark(
    format: Format | None,
    ring: str | None,
    budget_s: float,
    workers: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Measure everything, or what concerns one format and ring, and print and save the rows.

    Args:
        format: only this one; None for all.
        ring: only this one; None for all.
        budget_s: seconds of a search for the lowest rank in reach, which only large formats have.
        workers: threads of that search; None for one per core.
        seed: of that search.
        out: folder to save the document to.
        as_json: print the document, not a table.
    """
    rows = itertools.chain(_rows(format, ring), _lowest(format, ring, budget_s, workers, seed))
    return _report(rows, out, as_json)


def run_executor_benchmark(
    format: Format, ring: str, executor: str, workers: int | None, budget_s: float, out: Path | None, as_json: bool
) -> ExitCode:
    """Compare the speed of an executor with that of threads, and print and save the rows."""
    if ring not in ("F2", "ZT"):
        raise UsageError(f"walks of executors are compared over F2 or ZT, not {ring}")
    rows = executor_rates(format, ring, executor, workers or cores(), budget_s)  # type: ignore[arg-type]
    return _report(iter(rows), out, as_json)


def _report(source: Iterator[Row], out: Path | None, as_json: bool) -> ExitCode:
    rows: list[Row] = []
    try:
        for row in source:
            rows.append(row)
            note(_line(row))
    except KeyboardInterrupt:
        note("interrupted; what was measured so far follows")
    if not rows:
        note("nothing of the benchmark concerns this format and ring")
    whole = {**_HEAD, "created_utc": utc_now(), "commit": commit(), "device": processor(), "rows": rows}
    if out is not None:
        from evaluate.report import save

        note(f"saved to {save(whole, out)}")
    if as_json:
        print_json(whole)
    else:
        print(summary(rows))
    return ExitCode.DONE


def _rows(format: Format | None, ring: str | None) -> Iterator[Row]:
    def wanted(name: str, over: str) -> bool:
        return (format is None or Format.parse(name).sorted == format.sorted) and ring in (None, over)

    for name in RATE_FORMATS:
        if wanted(name, "F2"):
            yield flip_rate(Format.parse(name), "F2")
            yield flip_rate(Format.parse(name), "F2", symmetric=True)
        if wanted(name, "F3"):
            yield flip_rate(Format.parse(name), "F3")
        if wanted(name, "ZT"):
            yield flip_rate(Format.parse(name), "ZT")
    for name, over, rank, method, budget in TARGETS:
        if wanted(name, over):
            query = Query(Format.parse(name), over, rank, method=method, budget_s=budget)  # type: ignore[arg-type]
            yield time_to_target(query, SEEDS)
    for name, rank in LIFTS:
        if wanted(name, "Z"):
            yield lift_share(Format.parse(name), rank, LIFT_SEEDS, LIFT_BUDGET_S)
    if wanted("6x6x6", "Z"):
        yield lift_products(Format(3, 3, 3), 23, LIFT_SEEDS, LIFT_BUDGET_S)


def _lowest(format: Format | None, ring: str | None, budget_s: float, workers: int | None, seed: int) -> Iterator[Row]:
    for name, over, rank in LOWEST:
        if format is not None and Format.parse(name).sorted == format.sorted and ring in (None, over):
            method: Any = "symmetric" if len(set(format)) == 1 else "flips"
            size = Format.parse(name)
            yield lowest_rank(Query(size, over, rank, method, budget_s=budget_s, workers=workers, seed=seed))


def summary(rows: list[Row]) -> str:
    """The rows as a table for people."""
    heads = ("what", "engine", "format", "ring", "rank", "result")
    return table(heads, [(r["kind"], r["engine"], r["format"], r["ring"], r.get("rank"), result(r)) for r in rows])


def _line(row: Row) -> str:
    return f"{row['kind']}: {row['format']} over {row['ring']}, {result(row)}"


def result(row: dict[str, Any]) -> str:
    """What a row says, in one phrase."""
    if row["kind"] == "rate":
        return f"{row['per_second_per_core'] / 1e6:.1f} M accepted flips/s of one core"
    if row["kind"] == "executor":
        rate, share = row["per_second_per_worker"] / 1e6, row["against_local"]
        return f"{rate:.1f} M accepted flips per worker-second with {row['workers']} workers, {share:.2f} of local"
    if row["kind"] == "lowest":
        return f"rank {row['rank']} after {row['seconds']:.0f} s of {row['budget_s']:g} s, {row['cores']} cores"
    if row["kind"] == "lift":
        return (
            f"{row['exact']}/{row['schemes']} exact, {row['ternary']} ternary, {row['seconds_per_scheme']:.3f} s each"
        )
    times = f"median {row['median_s']:.3f} s, p90 {row['p90_s']:.3f} s" if row["seeds"] else "no seed done"
    return f"{row['hits']}/{row['seeds']} within {row['budget_s']:g} s, {times}, {row['cores']} cores"
