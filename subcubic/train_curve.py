"""The learning curve in the folder of a training: a JSON line for each round, as text and as a picture.

A round that was played and not yet in a checkpoint is played again after a kill, and its line must not stand there
twice. So lines are on the disk before the checkpoint of their round is, and a run that goes on first cuts the curve
back to the round of its checkpoint.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catalog.files import sync_folder, write_durably
from subcubic.sparklines import curves
from subcubic.writing import writing

CURVE, PICTURE = "curve.jsonl", "curve.svg"
_LOSSES = 6
_LONGEST = 1 << 16  # bytes of a line, of which a training writes some hundred
Line = dict[str, Any]


def is_training(folder: Path) -> bool:
    """Whether a folder holds the learning curve of a training."""
    return (folder / CURVE).is_file()


def read_curve(folder: Path) -> list[Line]:
    """The lines of a learning curve by round; the last one of a round counts, and what a kill cut off does not."""
    path = folder / CURVE
    lines: dict[int, Line] = {}
    if path.exists():
        require_regular(path)
        with path.open("rb") as file:
            # A damaged file may be one line of any length, which is looked at in parts.
            while written := file.readline(_LONGEST):
                try:
                    line = json.loads(written)
                except (ValueError, RecursionError):
                    continue
                if _is_line(line):
                    lines[line["round"]] = line
    return [lines[number] for number in sorted(lines)]


def require_regular(path: Path) -> None:
    """Refuse what stands under a name in the folder of a training and is no file.

    Raises:
        ValueError: a pipe, which would be waited for, a device or a folder.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file; take it away or choose another folder")


def cut_back(folder: Path, rounds: int) -> None:
    """Leave the lines of the first ``rounds`` rounds alone; when this returns the others are gone for good.

    Raises:
        OSError: the curve cannot be written.
        ValueError: it is no file.
    """
    path = folder / CURVE
    if not path.exists():
        return
    kept = "".join(json.dumps(line) + "\n" for line in read_curve(folder) if line["round"] <= rounds).encode()
    with writing(path):
        if path.stat().st_size != len(kept) or path.read_bytes() != kept:
            write_durably(path, kept)


def append(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line.

    Raises:
        OSError: the curve cannot be written.
    """
    path = folder / CURVE
    require_regular(path)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dict(line)) + "\n")


def to_disk(folder: Path) -> None:
    """Wait until all lines would survive a power cut.

    Raises:
        OSError: the curve cannot be written.
    """
    path = folder / CURVE
    if path.exists():
        with writing(path), path.open("ab") as file:
            os.fsync(file.fileno())
        sync_folder(folder)


def text_of(folder: Path, lines: Sequence[Line], bars: str | None = None) -> str:
    """The curve as text.

    Args:
        folder: named in the first line.
        lines: of the curve.
        bars: see ``subcubic.sparklines.curves``.
    """
    if not lines:
        return f"training {folder}: no round has ended yet"
    last = lines[-1]
    played = [line for line in lines if line["mean"] is not None]
    points = [
        {"seconds": line["seconds"], "policy": line["losses"][0], "value": line["losses"][1]}
        | (
            {"lowest": line["lowest"], "mean": line["mean"], "hits": 100 * line["hits"]}
            if line["mean"] is not None
            else {}
        )
        for line in lines
    ]
    reached = f"rank {last['lowest']}" if played else "no game yet"
    head = f"training {folder}: {last['round']} rounds, {last['steps']} steps, {last['games']} games: {reached}"
    rows = (
        ("lowest rank", "lowest", min),
        ("mean terms", "mean", _mean),
        ("hits, %", "hits", _mean),
        ("policy loss", "policy", _mean),
        ("value loss", "value", _mean),
    )
    return "\n".join([head, *curves(points, rows, bars)])


def _is_line(line: Any) -> bool:
    """Whether a line has the finite numbers that are drawn; the file may be damaged."""
    if not isinstance(line, dict):
        return False
    whole = [line.get(key) for key in ("round", "steps", "games", "lowest")]
    losses = line.get("losses")
    if not isinstance(losses, list) or len(losses) != _LOSSES:
        return False
    real = [line.get("seconds"), line.get("hits"), *losses, *([] if line.get("mean") is None else [line["mean"]])]
    return all(type(value) is int for value in whole) and all(
        type(value) in (int, float) and math.isfinite(value) for value in real
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
