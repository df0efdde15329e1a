"""``subcubic train``: the player of the TensorGame learns a format, and what it finds is proved and stored."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.files import write_durably
from catalog.scheme import Ring
from subcubic.errors import ExitCode, UsageError, guarded
from subcubic.interrupts import interruptible
from subcubic.options import CatalogPath, Json, at_least, writable_catalog
from subcubic.output import note, print_json
from subcubic.pictures import picture_of_training
from subcubic.player_setup import prepare
from subcubic.progress import Display
from subcubic.reference import format_of, provenance
from subcubic.search_options import seconds_of, seed_of
from subcubic.train_curve import CURVE, append, cut_back, require_regular, to_disk
from subcubic.version import commit
from subcubic.writing import make_folder, writing

METHOD = "player"


class Scale(StrEnum):
    """How large a training is, see ``search.player.presets``."""

    AUTO = "auto"
    SMALL = "small"
    LARGE = "large"


_DEFAULT_BUDGET = "5m"
_MOST_REPAIR = 10**9  # steps that end in seconds; nothing interrupts them
_CHECKPOINTS = "checkpoints"
_SMALLER = "--games, --simulations, --candidates, --channels or --batch"


@guarded
def train(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="Base case m x k x n, for example 2x2x3.")],
    ring: Annotated[str, typer.Option(help="F2, or Z for games over the integers.")] = "F2",
    target: Annotated[int | None, typer.Option(help="Rank to end at; the best known one by default.")] = None,
    hits: Annotated[
        float,
        typer.Option(help="Share of a round's games from the opening, 0 to 1, that must reach it before the end."),
    ] = 0.0,
    budget: Annotated[
        str | None,
        typer.Option(help="Time limit of all parts of the run, compiling included; 5m. A begun round is finished."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="Limit in rounds, those without games counted; without --budget the result is repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the first weights and of every random choice.")] = 0,
    scale: Annotated[
        Scale, typer.Option(help="Settings: small for two cores, large for a GPU, auto for what is here.")
    ] = Scale.AUTO,
    games: Annotated[int | None, typer.Option(help="Played side by side in a round.")] = None,
    simulations: Annotated[int | None, typer.Option(help="Of the tree search for each move.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Moves proposed at each node, at most 64.")] = None,
    channels: Annotated[int | None, typer.Option(help="Of the network.")] = None,
    batch: Annotated[int | None, typer.Option(help="Random sums of a step of training.")] = None,
    warm: Annotated[int | None, typer.Option(help="Steps on random sums alone, before the first game.")] = None,
    repair: Annotated[int, typer.Option(help="Steps of a walk in the flip graph after each game.")] = 0,
    weights: Annotated[
        Path | None, typer.Option(help="Start from the network of this file, or of this folder of a training.")
    ] = None,
    same_basis: Annotated[bool, typer.Option("--same-basis", help="Play in the standard bases alone.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run: learning curve, checkpoints, weights. One that is there goes on."),
    ] = None,
    save: Annotated[float, typer.Option(help="Seconds between checkpoints; 0 for one after each round.")] = 20.0,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Train a player on random sums and on its own games, and store the schemes that it finds.

    It sees no scheme but its own. What --scale chooses can be changed option by option.
    """
    base_case = format_of(format, None, None, None)
    if ring not in ("F2", "Z"):
        raise UsageError(f"--ring {ring} is not played; choose F2 or Z")
    at_least(1, "rounds", rounds)
    for name, value in (("games", games), ("simulations", simulations), ("candidates", candidates)):
        at_least(1, name, value)
    if not 0 <= hits <= 1:
        raise UsageError(f"--hits {hits} must lie between 0 and 1")
    at_least(1, "target", target, base_case.volume)
    at_least(0, "repair", repair, _MOST_REPAIR)
    if not 0 <= save < float("inf"):  # refuses NaN too
        raise UsageError(f"--save {save} is no time between checkpoints; give seconds, or 0 for one after each round")
    limited = budget is not None or rounds is None
    budget_s = seconds_of(budget or _DEFAULT_BUDGET) if limited else None
    prepare()
    from jax import device_count

    from search.player.footprint import of_course, require_room
    from search.player.presets import course as settled
    from search.player.trained import fitted, load
    from subcubic.search_run import known_rank

    wanted = target if target is not None else known_rank(base_case, ring) or max(1, base_case.volume - 1)
    seed = seed_of(seed)
    try:
        course = settled(
            base_case,
            Ring(ring),
            scale.value,
            **{"games": games, "simulations": simulations, "candidates": candidates, "channels": channels},
            **{"batch": batch, "warm": warm, "repair": repair, "change_basis": not same_basis},
            **{"seed": seed, "target": wanted, "hits": hits, "rounds": rounds, "budget_s": budget_s},
        )
        needed = of_course(course, device_count())
        require_room(needed, _SMALLER)
    except ValueError as error:
        raise UsageError(str(error)) from None
    given = None if weights is None else fitted(load(weights), course.player)
    store = writable_catalog(catalog)
    note(
        f"train {base_case} ({base_case.described}) over {ring}: target rank {wanted}, {course.games} games of "
        f"{course.search.simulations} simulations a move; {needed}; seed {seed}"
    )
    result = _run(course, given, store, out, save, json_output)
    if json_output:
        print_json(result)
    else:
        print(_told(result, hits))
    if result["rank"] is not None and result["rank"] <= wanted:
        return ExitCode.DONE
    return ExitCode.INTERRUPTED if result["interrupted"] else ExitCode.BUDGET


def _told(result: dict[str, Any], hits: float) -> str:
    """One line about a training that has ended, and what it did not come to."""
    after = f"after {result['rounds']} rounds, {result['games']} games and {result['seconds']:.1f} s"
    if not result["games"]:
        return f"no game was played {after}: the steps on random sums come first; give more time or a smaller --warm"
    if result["rank"] is None:
        return f"no scheme below the standard algorithm {after}"
    stored = f"; stored {result['id'][:12]}" if result["id"] else ""
    short = ""
    if result["hits"] is not None and result["hits"] < hits:
        short = f"; {result['hits']:.0%} of the last games from the opening reach it, --hits asked for {hits:.0%}"
    return f"rank {result['rank']} {after}{short}{stored}"


def _run(course: Any, given: Any, store: Any, out: Path | None, save_s: float, quiet: bool) -> dict[str, Any]:
    """Train from given weights, from fresh ones where there are none, or from the last checkpoint of a folder."""
    from search.player.training import begin

    if out is None:
        return _learn(course, begin(course, given), store, None, None, save_s, quiet)
    from filelock import FileLock, Timeout

    from search.player.saving import Checkpoints
    from search.player.trained import FILE, dumps

    for name in ("lock", FILE, CURVE):
        require_regular(out / name)
    make_folder(out)
    with ExitStack() as stack:
        with writing(out):
            try:
                stack.enter_context(FileLock(out / "lock").acquire(timeout=0))
            except Timeout:  # which is an OSError
                raise ValueError(f"another process trains in {out}; wait for it or choose another folder") from None
        with writing(out / _CHECKPOINTS):
            checkpoints = Checkpoints(out / _CHECKPOINTS, course)
        stack.callback(checkpoints.close)
        state = checkpoints.latest() or begin(course, given)
        for damage in checkpoints.damage:
            note(f"subcubic: {damage}")
        if state.rounds:
            instead = "" if given is None else "; the weights are those of the checkpoint"
            note(f"going on after round {state.rounds}, {state.played} games and {state.seconds:.0f} s{instead}")
        cut_back(out, state.rounds)
        result = _learn(course, state, store, out, checkpoints, save_s, quiet)
        with writing(out / FILE):
            write_durably(out / FILE, dumps(_trained(course, state)))
        picture_of_training(out)
        return result


def _learn(
    course: Any, state: Any, store: Any, out: Path | None, checkpoints: Any, save_s: float, quiet: bool
) -> dict[str, Any]:
    """Train, store what is found and, where there is a folder, keep the curve and checkpoints."""
    from search.player.training import Found, learn

    result: dict[str, Any] = {
        "rank": None,
        "id": None,
        "games": state.played,
        "seconds": state.seconds,
        "rounds": state.rounds,
        "hits": None,
    }
    if state.pool.lowest < course.player.board.limit:
        result["rank"] = state.pool.lowest
    saved = time.monotonic()
    display = Display(f"train {course.format} over {course.ring}", course.target, quiet)
    with interruptible("round") as interrupted, display:
        for event in learn(course, state, lambda: bool(interrupted)):
            if isinstance(event, Found):
                made = provenance(METHOD, seed=course.seed, options=_options(course, event))
                result["rank"], result["id"] = event.scheme.rank, store.add(event.scheme, made).id
                display.say(f"rank {event.scheme.rank} after {event.games} games and {event.seconds:.1f} s")
                continue
            display.show(_how_far(event))
            result |= {"games": event.games, "seconds": round(event.seconds, 3), "rounds": event.round}
            result["hits"] = None if event.mean is None else event.hits
            if out is None:
                continue
            append(out, asdict(event))
            if time.monotonic() - saved >= save_s:
                to_disk(out)  # first, so that no checkpoint is ahead of the curve
                checkpoints.save(state)
                saved = time.monotonic()
        if out is not None:
            to_disk(out)
            checkpoints.save(state)
    return result | {"interrupted": bool(interrupted)}


def _how_far(event: Any) -> str:
    """A round in a line."""
    if event.mean is None:
        return f"round {event.round}, random sums alone, policy loss {event.losses[0]:.2f}, {event.seconds:.0f} s"
    return (
        f"round {event.round}: lowest rank {event.lowest}, games from the opening {event.mean:.2f} on average, "
        f"{event.hits:.0%} at the lowest; {event.games} games, {event.seconds:.0f} s"
    )


def _trained(course: Any, state: Any) -> Any:
    """What a search can play with."""
    from search.player.trained import Trained

    # In another basis the terms of a short scheme over Z mostly leave {-1, 0, 1}, so that none is found there.
    change_basis = course.change_basis and course.ring is not Ring.Z
    facts = {
        "rank": state.pool.lowest,
        "seed": course.seed,
        "seconds": round(state.seconds, 1),
        "steps": state.rounds * course.lessons.steps,
        "trained_games": state.played,
        "commit": commit(),
    }
    return Trained(course.player, state.weights, course.search, course.games, change_basis, facts)


def _options(course: Any, found: Any) -> dict[str, Any]:
    settings = asdict(course)
    kept = ("games", "again", "change_basis", "repair", "sizes", "search", "lessons")
    return {
        **{name: settings[name] for name in kept},
        "found_after_games": found.games,
        "found_after_s": round(found.seconds, 3),
    }
