"""What the learning player reaches, and what of it is learned: ``python -m subcubic.player_benchmark``.

Each case is trained from a fresh start, a seed at a time, with no repair step. The first seed's network then plays
against an untrained one at equal simulations, with and without changes of bases and the repair step.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from catalog.scheme import Format, Ring
from subcubic.output import note, print_json
from subcubic.reference import format_of
from subcubic.search_run import known_rank
from subcubic.version import commit
from subcubic.writing import make_folder

KIND = "player"  # of its documents
# Share of the games from the opening that reach the target before a training ends.
_HITS = 0.5
_GAMES, _REPAIR_STEPS = 256, 20_000


def measure(
    cases: Sequence[tuple[Format, Ring]],
    seeds: Sequence[int],
    budget_s: float,
    scale: str = "auto",
    *,
    arm_games: int = _GAMES,
    rate_games: Sequence[int] = (256, 1024),
    ablate: bool = True,
    train: bool = True,
    **changed: Any,
) -> dict[str, Any]:
    """Train and compare.

    Args:
        cases: formats and rings.
        seeds: of a training each.
        budget_s: of one training, compiling included.
        scale: see ``search.player.presets.course``.
        arm_games: of each arm of the comparison.
        rate_games: batches whose simulations per second are measured.
        ablate: whether to compare.
        train: whether to train; else only speed is measured, with a fresh network.
        changed: settings other than those of the scale.

    Returns:
        A document with a row for each training, rate and arm.
    """
    import jax

    from search.player.measuring import ablation, rates, same_in_all_bases, training_row
    from search.player.presets import course
    from search.player.training import begin

    rows: list[dict[str, Any]] = []
    for format, ring in cases:
        target = known_rank(format, str(ring)) or format.volume - 1
        for number, seed in enumerate(seeds if train else seeds[:1]):
            settled = course(
                format, ring, scale, seed=seed, target=target, hits=_HITS, budget_s=budget_s, **changed  # type: ignore[arg-type]
            )  # fmt: skip
            if not train:
                rows += _told_rates(rates(settled, begin(settled).weights, rate_games))
                continue
            row, state = training_row(settled, lambda line: note(_told(line)))
            rows.append(row)
            note(f"{format} over {ring}, seed {seed}: rank {row['rank']}, target {target} after {row['seconds']} s")
            if number:
                continue
            rows[-1]["difference_between_bases"] = same_in_all_bases(settled.player, state.weights)
            rows += _told_rates(rates(settled, state.weights, rate_games))
            if ablate:
                for arm in ablation(settled, state.weights, arm_games, _REPAIR_STEPS):
                    rows.append(arm)
                    note(_told_arm(arm))
    from evaluate.cpu import cpu_name
    from evaluate.device import usable_gpu

    gpu = usable_gpu()
    return {
        "schema_version": 1,
        "kind": KIND,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "device": gpu.name if gpu is not None else cpu_name(),
        "driver": gpu.driver if gpu is not None else None,
        "devices": jax.device_count(),
        "backend": jax.default_backend(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "rows": rows,
    }


def _told(line: Any) -> str:
    mean = "-" if line.mean is None else f"{line.mean:.2f}"
    return (
        f"  round {line.round}, {line.games} games, {line.seconds:.1f} s: lowest {line.lowest}, "
        f"mean {mean}, hits {line.hits:.2f}, losses {' '.join(f'{part:.2f}' for part in line.losses)}"
    )


def _told_rates(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        rate = f"{row['per_second']:,.0f} simulations a second" if row["per_second"] else row["refused"]
        note(f"  {row['format']} over {row['ring']}, {row['games']} games side by side: {rate}")
    return rows


def _told_arm(arm: dict[str, Any]) -> str:
    return (
        f"  {arm['network']}, value {arm['value']}, bases {'changed' if arm['change_basis'] else 'standard'}, repair "
        f"{arm['repair']}: {arm['hits']} of {arm['games']} reach {arm['target']}, lowest {arm['lowest']}, "
        f"mean {arm['mean']:.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the document, and keep it if a folder is given."""
    parser = argparse.ArgumentParser(prog="python -m subcubic.player_benchmark", description=__doc__)
    parser.add_argument("cases", nargs="*", default=["2x2x2:F2"], metavar="FORMAT:RING")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=float, default=180.0, help="seconds of one training")
    parser.add_argument("--scale", default="auto", choices=("auto", "small", "large"))
    parser.add_argument("--games", type=int, default=_GAMES, help="of each arm of the comparison")
    parser.add_argument("--no-comparison", action="store_true")
    parser.add_argument("--no-training", action="store_true", help="measure speed alone, with fresh networks")
    parser.add_argument("--warm", type=int)
    parser.add_argument("--channels", type=int)
    parser.add_argument("--simulations", type=int)
    parser.add_argument("--candidates", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--batch-games", type=int, help="played side by side in training")
    parser.add_argument("--rates", type=int, nargs="*", default=[256, 1024], help="batches whose speed is measured")
    parser.add_argument("--out", type=Path, help="folder to save the document to")
    given = parser.parse_args(arguments)
    if given.out:
        make_folder(given.out)
    cases = []
    for case in given.cases:
        format, _, ring = case.partition(":")
        cases.append((format_of(format, None, None, None), Ring(ring or "F2")))
    settings = {name: getattr(given, name) for name in ("warm", "channels", "simulations", "candidates", "batch")}
    document = measure(
        cases,
        given.seeds,
        given.budget,
        given.scale,
        arm_games=given.games,
        rate_games=given.rates,
        ablate=not given.no_comparison,
        train=not given.no_training,
        games=given.batch_games,
        **settings,
    )
    if given.out:
        from evaluate.report import save

        note(f"saved to {save(document, given.out)}")
    print_json(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
