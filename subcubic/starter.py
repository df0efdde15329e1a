"""The starter catalog: schemes found by this project, shipped with it, and the program that makes them.

`make starter` runs `python -m subcubic.starter`, which searches every base case, composes larger schemes and writes
the shards to catalog/starter. With other limits or another machine the finds differ; each one names its seed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from pathlib import Path

from catalog.errors import CatalogError, DamagedError
from catalog.scheme import Format
from catalog.store import Catalog, default_path
from subcubic.output import note

# Name under which `catalog merge` knows it.
STARTER = "starter"
# What a composed scheme may have at most in each size.
_COMPOSED = 8
_THREADS = 4
# A package should stay small.
_MOST_BYTES = 5_000_000
# Format, ring, method and distinct schemes to keep, the hardest first: these get the whole limit in every round.
_HARD = (
    ("5x5x5", "ZT", "symmetric", 3),
    ("3x5x5", "Z", "flips", 1),
    ("4x5x5", "F2", "flips", 1),
    ("4x5x5", "Z", "flips", 1),
    ("4x4x5", "F2", "flips", 2),
    ("4x4x5", "Z", "flips", 1),
    ("3x5x5", "F2", "flips", 1),
    ("3x4x5", "Z", "flips", 2),
    ("4x4x4", "F2", "flips", 4),
    ("3x4x5", "F2", "flips", 4),
    ("2x5x5", "Z", "flips", 4),
    ("4x4x4", "Z", "flips", 4),
    ("5x5x5", "F2", "flips", 1),
    ("2x5x5", "F2", "flips", 4),
)
# Formats of which schemes with few additions are looked for as well.
_LEAN = ("3x3x3", "2x3x3", "2x2x3", "2x2x2")


def shipped() -> Path:
    """Folder of the starter catalog in the installed package."""
    import catalog

    return Path(catalog.__path__[0]) / STARTER


def seed(catalog: Catalog) -> None:
    """Put the shipped shards into a catalog in the default place that does not exist yet; elsewhere do nothing."""
    shards = sorted((shipped() / "shards").glob("*.h5"))
    if shards and not os.environ.get("SUBCUBIC_CATALOG") and catalog.path == default_path():
        if not catalog.path.exists():
            try:
                catalog.adopt(shards)
            except DamagedError:
                raise
            except CatalogError as error:  # to read, no catalog of one's own is needed
                note(f"subcubic: {error}")
                return
            note(f"made the catalog {catalog.path} with the schemes that this project ships")


def search_all(catalog: Path, budget_s: float, rounds: range, cores: int) -> None:
    """Search the base cases.

    Args:
        catalog: where to gather what is found; it may hold schemes from an earlier, interrupted run.
        budget_s: seconds for each hard base case and round.
        rounds: numbers of the rounds of the hard base cases. The easy ones come before round 0, and from round 1 on the
            hard ones start from what all of them have found.
        cores: to use; several searches run beside each other.
    """
    _keep_apart(catalog)
    side_by_side = max(1, cores // _THREADS)
    threads = str(min(_THREADS, cores))
    search = ["search", "--workers", threads]
    small = [Format(*sizes) for sizes in combinations_with_replacement((2, 3, 4, 5), 3)]
    small = [size for size in small if size.volume <= 50]
    easy = [
        [*search, str(size), "--ring", ring, "--keep", "8", "--budget", f"{budget_s / 10:g}s", "--seed", "1"]
        for size in reversed(small)
        for ring in ("ZT", "F2")
    ]
    if 0 in rounds:
        _run_all(easy, side_by_side)
    for number in rounds:
        hard = [
            [*search, size, "--ring", ring, "--method", method, "--keep", str(keep), "--walkers", "16"]
            + ["--budget", f"{budget_s:g}s", "--seed", str(number + 1)]
            + (["--from", "catalog"] if number and method == "flips" else [])
            for size, ring, method, keep in _HARD
        ]
        _run_all(hard, side_by_side)


def spare_additions(catalog: Path, budget_s: float, cores: int) -> None:
    """Add schemes of equal rank with fewer additions, and what searches for their programs find.

    Args:
        catalog: with schemes of these formats over Z.
        budget_s: seconds for each format.
        cores: to use, one for each search.
    """
    _keep_apart(catalog)
    _run_all([["additions", size, "--walk", "--budget", f"{budget_s:g}s", "--seed", "12"] for size in _LEAN], cores)


def compose(catalog: Path) -> None:
    """Add what the schemes of a catalog make when they are put together."""
    _keep_apart(catalog)
    for ring in ("ZT", "Z", "F2"):
        _run_all([["catalog", "closure", "--ring", ring, "--add", "all", "--up-to", str(_COMPOSED)]], 1)


def _keep_apart(catalog: Path) -> None:
    """Let the commands of this program gather in a catalog, with their runs below it and none among the user's."""
    os.environ["SUBCUBIC_CATALOG"] = str(catalog)
    os.environ["SUBCUBIC_RUNS"] = str(catalog / "runs")


def _run_all(commands: Sequence[list[str]], side_by_side: int) -> None:
    """Run commands of this program, some at a time, and say in a line how each ended."""

    def run(command: list[str]) -> None:
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "subcubic", *command], capture_output=True, text=True, check=False)
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or [f"exit code {done.returncode}"]
        note(f"{time.monotonic() - begun:6.1f} s  {' '.join(command)}: {lines[-1]}")

    with ThreadPoolExecutor(side_by_side) as pool:
        list(pool.map(run, commands))


def publish(catalog: Path) -> None:
    """Compact a catalog and put its shards, and nothing else, in place of the shipped ones.

    The shipped ones go only when the new ones lie complete beside them.

    Raises:
        SystemExit: the catalog is damaged, empty or too large to be shipped, which stays as it was.
        OSError: there is no room.
    """
    gathered = Catalog(catalog)
    gathered.compact()
    report = gathered.fsck()
    if report.bad:
        raise SystemExit(f"the catalog {catalog} has damaged files: {report.bad[0]}")
    shards = sorted((catalog / "shards").glob("*.h5"))
    size = sum(shard.stat().st_size for shard in shards)
    if not shards or size > _MOST_BYTES:
        raise SystemExit(
            f"the catalog {catalog} has {size / 1e6:.1f} MB of shards and at most {_MOST_BYTES / 1e6:.0f} MB are "
            "shipped, at least one scheme; nothing was replaced"
        )
    target = shipped() / "shards"
    fresh, old = target.with_name(".new"), target.with_name(".old")
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        for shard in shards:
            shutil.copy(shard, fresh)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for folder in (fresh, old):
            shutil.rmtree(folder, ignore_errors=True)
    note(f"{len(gathered.rows())} schemes, {size / 1e6:.1f} MB in {target}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the limits and build."""
    import argparse

    from search.executors import cores

    parser = argparse.ArgumentParser(prog="python -m subcubic.starter", description="Make the starter catalog anew.")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for each hard base case and round")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the hard base cases")
    parser.add_argument("--cores", type=int, default=cores(), help="cores to use")
    parser.add_argument("--catalog", type=Path, default=Path("build/starter"), help="where to gather the finds")
    given = parser.parse_args(arguments)
    if not 0 < given.budget < float("inf") or given.rounds < 1 or given.cores < 1:
        parser.error("--budget, --rounds and --cores must be positive")
    gathered = given.catalog.absolute()
    search_all(gathered, given.budget, range(given.rounds), given.cores)
    spare_additions(gathered, given.budget, given.cores)
    compose(gathered)
    publish(gathered)


if __name__ == "__main__":
    main()
