"""The learning curve of a player as a picture. Needs Matplotlib (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
# Losses in the order of a line, see ``search.player.training.Round``: name, colour, dashes.
_LOSSES = (
    ("policy, random sums", "#0072b2", "-"),
    ("value, random sums", "#0072b2", ":"),
    ("policy, self-play", "#d55e00", "-"),
    ("value, self-play", "#d55e00", ":"),
    ("policy, own games", "#009e73", "-"),
    ("value, own games", "#009e73", ":"),
)
_TICKS = 6
_FEW = 20


def measured_lines(row: Line) -> list[dict[str, Any]]:
    """The lines of a training in a document of the player's benchmark, which keeps no losses."""
    keys = ("steps", "games", "seconds", "lowest", "mean", "hits")
    return [dict(zip(keys, point, strict=True)) for point in row["curve"]]


def learning_curve(lines: Sequence[Line], title: str = "", target: int | None = None) -> Any:
    """Lowest rank and mean terms of the games, share of hits, and losses, over seconds and, at the top, games.

    Args:
        lines: of the curve in order: seconds, games, lowest, mean, hits, and losses [6] where they were kept. A loss of
            0 is one that was not taken, a mean of None says that no game was played.
        title: of the picture.
        target: rank to draw a line at; None for none.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: there is no line.
    """
    from matplotlib.figure import Figure

    if not lines:
        raise ValueError("no round has ended, so there is no learning curve to plot")
    kept = "losses" in lines[0]
    figure = Figure(figsize=(7, 7.5 if kept else 5), layout="constrained")
    panels = figure.subplots(3 if kept else 2, sharex=True, height_ratios=(3, 2, 3) if kept else (3, 2))
    ranks, shares = panels[:2]
    played = [line for line in lines if line["mean"] is not None]
    seconds = [line["seconds"] for line in played]
    if target is not None:
        ranks.axhline(target, color="0.6", linewidth=0.8, label=f"target {target}")
    marked: dict[str, Any] = (
        {"marker": "o", "markersize": 3} if len(played) <= _FEW else {}
    )  # a line of one point is none
    lowest, mean = ([line[key] for line in played] for key in ("lowest", "mean"))
    ranks.step(seconds, lowest, where="post", color="#000000", label="lowest rank", zorder=3, **marked)
    ranks.plot(seconds, mean, color="#0072b2", label="mean of games from the opening", **marked)
    ranks.set_ylabel("terms")
    ranks.yaxis.get_major_locator().set_params(integer=True)
    ranks.legend(fontsize="small")
    shares.plot(seconds, [100 * line["hits"] for line in played], color="#d55e00", **marked)
    shares.set(ylabel="games of lowest rank, %", ylim=(-3, 103))
    if kept:
        _losses(panels[2], lines)
    panels[-1].set_xlabel("seconds, compiling included")
    for axes in panels:
        axes.grid(color="0.9", linewidth=0.5)
    _games_above(ranks, lines)
    if title:
        figure.suptitle(title)
    return figure


def _losses(axes: Any, lines: Sequence[Line]) -> None:
    for number, (name, colour, dashes) in enumerate(_LOSSES):
        some = [line for line in lines if line["losses"][number] != 0]
        if some:
            seconds, values = [line["seconds"] for line in some], [line["losses"][number] for line in some]
            axes.plot(seconds, values, color=colour, linestyle=dashes, linewidth=1, label=name)
    axes.set(ylabel="loss", ylim=(0, None))
    axes.legend(fontsize="small", ncols=3)


def _games_above(axes: Any, lines: Sequence[Line]) -> None:
    """An axis at the top that says how many games had been played at some of the times."""
    above = axes.twiny()
    low, high = axes.get_xlim()
    begun = [line for line in lines if line["games"]] or lines[-1:]
    ticks = [begun[round(i * (len(begun) - 1) / max(_TICKS - 1, 1))] for i in range(_TICKS)]
    places = {line["seconds"]: f"{line['games']:,}" for line in ticks}
    above.set_xlim(low, high)
    above.set_xticks(list(places), list(places.values()), fontsize="small")
    above.set_xlabel("games", fontsize="small")
