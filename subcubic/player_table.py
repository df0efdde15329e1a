"""What the learning player reached, as Markdown tables."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from catalog.scheme import Format
from subcubic.player_benchmark import KIND

_MOST_LINES = 16  # of a curve
Row = dict[str, Any]
Key = tuple[str, str, str]  # device, format, ring


def player_table(results: Path) -> str:
    """A line for each format, ring and device, of the newest training of every seed; "" if there is none."""
    from evaluate.report import markdown

    newest: dict[Key, dict[int, Row]] = defaultdict(dict)
    rates: dict[Key, list[float]] = defaultdict(list)
    for key, rows in _all(results):
        newest[key] |= {row["seed"]: row for row in rows if row["what"] == "training"}
        if own := [row["per_second"] for row in rows if row["what"] == "rate" and row["per_second"]]:
            rates[key] = own
    lines = []
    for key in sorted(newest, key=_order):
        device, format, ring = key
        runs = [newest[key][seed] for seed in sorted(newest[key])]
        if not runs:
            continue
        done = [row for row in runs if row["reached"]]
        lines.append(
            [
                f"{format} over {ring}",
                device,
                str(runs[0]["target"]),
                f"{len(done)} of {len(runs)}",
                ", ".join(f"{row['seconds']:.0f} s" for row in done) or "-",
                ", ".join(f"{row['games']:,}" for row in done) or "-",
                str(min((row["rank"] for row in runs if row["rank"] is not None), default="-")),
                f"{max(rates[key]):,.0f}" if rates[key] else "-",
            ]
        )
    heads = ("game", "device", "target", "seeds", "time to it", "games to it", "lowest rank", "simulations/s")
    return markdown(heads, lines) if lines else ""


def rates_table(results: Path) -> str:
    """Simulations per second of every game and batch on each device, of the newest measurement; "" if there is none."""
    from evaluate.report import markdown

    newest: dict[tuple[Any, ...], Row] = {}
    for (device, format, ring), rows in _all(results):
        for row in rows:
            if row["what"] == "rate":
                newest[device, format, ring, row["games"], row["simulations"], row["candidates"]] = row
    lines = [
        [f"{format} over {ring}", device, f"{games:,}", str(simulations), str(candidates), _per_second(row)]
        for (device, format, ring, games, simulations, candidates), row in sorted(
            newest.items(), key=lambda item: (item[0][2], len(item[0][1]), item[0][1], *item[0])
        )
    ]
    heads = ("game", "device", "games side by side", "simulations a move", "candidates", "simulations/s")
    return markdown(heads, lines) if lines else ""


def curve_table(results: Path) -> str:
    """The rounds of the newest training of the largest game in which something was played; "" if there is none."""
    from evaluate.learning_plots import measured_lines
    from evaluate.report import markdown

    runs = [row for _, rows in _all(results) for row in rows if row["what"] == "training" and row["reached"]]
    if not runs:
        return ""
    largest = max(enumerate(runs), key=lambda run: (Format.parse(run[1]["format"]).volume, run[0]))[1]
    played = [line for line in measured_lines(largest) if line["mean"] is not None]
    every = -(-len(played) // _MOST_LINES)
    lines = [
        [
            f"{line['seconds']:.0f} s",
            f"{line['games']:,}",
            f"{line['steps']:,}",
            str(line["lowest"]),
            f"{line['mean']:.2f}",
            f"{line['hits']:.0%}",
        ]
        for line in played[(len(played) - 1) % every :: every]
    ]
    return markdown(
        ("after", "games", "steps", "lowest rank", "mean of games from the opening", "at the lowest"), lines
    )


def _per_second(row: Row) -> str:
    return "no memory" if row["per_second"] is None else f"{row['per_second']:,.0f}"


def ablation_table(results: Path) -> str:
    """A line for each arm at equal simulations; "" if there is none."""
    from evaluate.report import markdown

    lines = [
        [
            f"{format} over {ring}",
            device,
            f"{row['network']}, {'its value' if row['value'] == 'network' else 'the plain bound as value'}",
            "changed" if row["change_basis"] else "standard",
            f"{row['repair']:,} flips" if row["repair"] else "-",
            f"{row['hits']} of {row['games']}",
            f"{row['mean']:.2f}",
        ]
        for (device, format, ring), rows in _compared(results).items()
        for row in rows
    ]
    heads = ("game", "device", "network", "bases", "repair", "games that reach the target", "mean rank")
    return markdown(heads, lines) if lines else ""


def _compared(results: Path) -> dict[Key, list[Row]]:
    """The arms of the newest comparison by device, format and ring."""
    found = {key: own for key, rows in _all(results) if (own := [row for row in rows if row["what"] == "hits"])}
    return {key: found[key] for key in sorted(found, key=_order)}


def _order(key: Key) -> tuple[str, int, str, str]:
    device, format, ring = key
    return format, len(ring), ring, device


def _all(results: Path) -> list[tuple[Key, list[Row]]]:
    """Rows by device, format and ring, of every document, the oldest first."""
    from evaluate.report import load

    found = []
    for document in load(results, KIND):
        own: dict[Key, list[Row]] = defaultdict(list)
        for row in document["rows"]:
            own[(document["device"], row["format"], row["ring"])].append(row)
        found += list(own.items())
    return found
