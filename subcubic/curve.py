"""``subcubic runs show``: best rank, flips per second and time since the last gain over a search's time.

The learning curve of a training (``subcubic.train_curve``) is shown in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from subcubic.errors import UsageError, guarded
from subcubic.output import cell
from subcubic.runs import Run
from subcubic.sparklines import Sample, curves

_GAINS = 6
_REFRESH_S = 1.0
_DRAWN = ("rank", "walk_rank", "per_second", "since_improvement_s")
_MOST = 1e30


@guarded
def show(
    name: Annotated[
        str, typer.Argument(metavar="RUN", help="Name of the run, or its beginning; or the folder of a training.")
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the search ends.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Of a training: SVG file for the learning curve.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="The progress as JSON lines, as it is stored.")] = False,
) -> None:
    """Show the curves of a search or a training, one that runs or one that has ended."""
    from subcubic.train_curve import is_training

    if is_training(Path(name)):
        _show_training(Path(name), follow, plot, json_output)
        return
    if plot is not None:
        raise UsageError(f"--plot draws the learning curve of a training, and {name} is no folder of one")
    run = Run.find(name)
    if json_output:
        _print_lines(run, follow)
    elif follow:
        _redraw(run)
    else:
        print(picture(run.name, run.summary(), samples(run)))


def _show_training(folder: Path, follow: bool, plot: Path | None, as_json: bool) -> None:
    from subcubic.pictures import draw_training
    from subcubic.train_curve import read_curve, text_of

    if follow:
        raise UsageError("--follow goes with a search; a training says each round on stderr")
    lines = read_curve(folder)
    if plot is not None:
        draw_training(folder, plot)
    print("\n".join(json.dumps(line) for line in lines) if as_json else text_of(folder, lines))


def samples(run: Run) -> list[Sample]:
    """The progress lines that say how a search stood at a time."""
    lines = [json.loads(line) for line in run.progress()]
    return [line for line in lines if line.get("per_second") is not None and _is_sample(line)]


def _is_sample(line: Sample) -> bool:
    """Whether what is drawn of a line are finite numbers; the file may be damaged."""
    drawn = [line.get("seconds"), *(line[key] for key in _DRAWN if line.get(key) is not None)]
    return all(type(value) in (int, float) and abs(value) < _MOST for value in drawn)


def picture(name: str, facts: Sample, points: Sequence[Sample], bars: str | None = None) -> str:
    """The curves as text.

    Args:
        name: of the run.
        facts: its options and status.
        points: lines of its progress file: seconds, rank, walk_rank, per_second, since_improvement_s.
        bars: eight characters from low to high; None for those that stdout can show.
    """
    told = [cell(facts.get(key)) for key in ("format", "ring", "target", "status", "rank")]
    lines = ["run {}: {} over {}, target {}: {}, rank {}".format(name, *told)]
    if not points:
        return "\n".join([*lines, "no progress was written yet; a search writes a line every second"])
    millions = [
        {**point, "per_second": point["per_second"] * 1e-6} if point.get("per_second") is not None else point
        for point in points
    ]
    rows = (
        ("rank", "rank", min),
        ("rank of walks", "walk_rank", min),
        ("M flips/s", "per_second", _mean),
        ("s since gain", "since_improvement_s", max),
    )
    lines += curves(millions, rows, bars)
    gains = improvements(points)
    lines.append(f"{'gains':>13}  {', '.join(f'{rank} at {seconds:.1f} s' for seconds, rank in gains[-_GAINS:])}")
    return "\n".join(lines)


def improvements(points: Sequence[Sample]) -> list[tuple[float, int]]:
    """Seconds and rank, wherever the walks stood lower than ever before."""
    gains: list[tuple[float, int]] = []
    for point in points:
        rank = point.get("walk_rank")
        if isinstance(rank, int) and (not gains or rank < gains[-1][1]):
            gains.append((max(0.0, point["seconds"] - point.get("since_improvement_s", 0.0)), rank))
    return gains


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _print_lines(run: Run, follow: bool) -> None:
    """Print the stored lines; since the file is thinned now and then, what follows the last known line is new."""
    known: set[str] = set()
    while True:
        running = run.status()["status"] == "running"
        lines = run.progress()
        start = max((index + 1 for index, line in enumerate(lines) if line in known), default=0)
        for line in lines[start:]:
            print(line, flush=True)
        known = set(lines)
        if not (follow and running):
            return
        time.sleep(_REFRESH_S)


def _redraw(run: Run) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        while True:
            running = run.status()["status"] == "running"
            live.update(Text(picture(run.name, run.summary(), samples(run)), no_wrap=True), refresh=True)
            if not running:
                return
            time.sleep(_REFRESH_S)
